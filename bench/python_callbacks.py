#!/usr/bin/env python3
"""python_callbacks.py - what pruners and quantizers in Python cost, compared with C and with their numpy alone.

usage: bench/python_callbacks.py [--rounds N] [--model resnet20]

Pruning: pare.prune() with the built-in pruner l1 and with Python classes that compute the same scores, in turn; alone, and
with the removal of channels, which is what makes a model smaller.  One class calls the function of the library that l1 calls,
so that only the language differs; the other computes in numpy.  The cost is the median of the differences to the l1 of the
same round, of processor time, which other programs disturb less than the time on the clock.

Quantization: of training steps with a backward() in Python, the time between the call from C and the return to C, compared
with the numpy statements in it; with a result of its own, which is copied, and with one that is written into the library's
array.
"""
import argparse
import os
import statistics
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "python"))
import numpy as np  # noqa: E402

import pare  # noqa: E402
from pare import _algorithms  # noqa: E402


class Norm(pare.Pruner):
    "Keep filters with a large norm, as l1."
    granularity, types = "out_channel", "Conv2d"

    def score(self, layer):
        w = layer.weight
        return np.abs(w).reshape(len(w), -1).sum(1)


class Sums(pare.Pruner):
    "The same, summed by the library."
    granularity, types = "out_channel", "Conv2d"

    def score(self, layer):
        return layer.sums()


class Clip(pare.Quantizer):
    "Largest magnitude; gradients of values beyond 1 are 0."
    seconds = 0.0

    def quantize_output(self, layer, x):
        return np.round(x * 64) / 64

    def backward(self, layer, site, x, gy):
        start = time.perf_counter()
        gx = np.where(np.abs(x) > 1, 0, gy)
        Clip.seconds += time.perf_counter() - start
        return gx


class ClipInPlace(Clip):
    "The same, written where the library wants it."

    def backward(self, layer, site, x, gy, out):
        start = time.perf_counter()
        np.multiply(gy, np.abs(x) <= 1, out=out)
        Clip.seconds += time.perf_counter() - start
        return out


def pruning(model, rounds):
    config = [{"sparsity": 0.5, "op_types": ["Conv2d"]}]
    pruners = {"C": "l1", "Python": Sums, "numpy": Norm}
    expected = pare.prune(model, "l1", config=config, progress=False)
    for pruner in (Sums, Norm):
        got = pare.prune(model, pruner, config=config, progress=False)
        assert all(np.array_equal(got[n], expected[n]) for n in expected.tensors())
    for what, options in (("masks alone", {}), ("masks and removal of channels", {"speedup": True})):
        clock, processor = ({n: [] for n in pruners} for _ in range(2))
        for _ in range(rounds + 1):
            for name, pruner in pruners.items():
                start, used = time.perf_counter(), time.process_time()
                pare.prune(model, pruner, config=config, progress=False, **options)
                processor[name].append(time.process_time() - used)
                clock[name].append(time.perf_counter() - start)
        base = statistics.median(processor["C"][1:])
        for name in pruners:
            more = statistics.median([a - b for a, b in zip(processor[name][1:], processor["C"][1:])])
            print("%-30s %-6s %7.3f ms on the clock, %7.3f ms of processor time, %+.3f ms, %+5.1f %%"
                  % (what, name, 1e3 * statistics.median(clock[name][1:]),
                     1e3 * statistics.median(processor[name][1:]), 1e3 * more, 100 * more / base))


def quantization(model, quantizer, steps):
    model = model.copy()
    seconds = [0.0]
    original = _algorithms._Descriptor._backward

    def measured(self, *arguments):
        start = time.perf_counter()
        try:
            return original(self, *arguments)
        finally:
            seconds[0] += time.perf_counter() - start

    _algorithms._Descriptor._backward = measured
    shape = model.inputs[0].shape
    x, y = np.random.default_rng(0).random((32,) + shape[1:], dtype=np.float32), np.arange(32) % 10
    training = pare.Training(model, optimizer="sgd", lr=1e-3, threads=1, progress=False)
    c = pare.Compression(model, quantizer=quantizer, config=[{"quant_types": ["output"], "quant_bits": 8,
                                                              "op_types": ["Conv2d"]}])
    c.follow(training)
    c.compress(progress=False)
    training.step(x, y)
    seconds[0] = Clip.seconds = 0.0
    start = time.perf_counter()
    for _ in range(steps):
        training.step(x, y)
    total = time.perf_counter() - start
    what = "backward that writes to `out`" if quantizer is ClipInPlace else "backward of a quantizer"
    print("%-30s numpy %6.2f ms a step  with the call %6.2f ms  ratio %.3f  (step %.1f ms)"
          % (what, 1e3 * Clip.seconds / steps, 1e3 * seconds[0] / steps, seconds[0] / Clip.seconds, 1e3 * total / steps))
    training.close()
    c.close()
    _algorithms._Descriptor._backward = original


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--rounds", type=int, default=40)
    p.add_argument("--model", default="resnet20")
    a = p.parse_args()
    model = pare.new(a.model, (3, 32, 32), seed=1)
    pruning(model, a.rounds)
    for quantizer in (Clip, ClipInPlace):
        quantization(model, quantizer, max(3, a.rounds // 8))


if __name__ == "__main__":
    main()
