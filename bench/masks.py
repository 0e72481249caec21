#!/usr/bin/python3
"""masks.py - time exact masks and scores of Pare, PyTorch and numpy, on one thread.

`make bench-masks` calls it.  Level masks: 25 million normally distributed float32 weights of which 80 %
go; PyTorch by topk and by kthvalue, numpy by partition, each from the weights to the mask.  Scores: the
L1 and L2 norms of the filters and of the input channels of a convolution.  The peers take turns, so that
whatever slows the machine slows all of them; the table has the medians of all turns, and how many
times as long as Pare the other takes.  The masks are compared too: they may differ only among equal
weights.
"""
import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time

import numpy as np
import torch

WEIGHTS = 25_000_000
SPARSITY = 0.8
CONV = (2048, 512, 3, 3)


class Pare:
    """The other process, one turn a line."""

    def __init__(self, build, weight, folder):
        source, self.mask = os.path.join(folder, "weight.npy"), os.path.join(folder, "mask.npy")
        np.save(source, weight)
        self.p = subprocess.Popen([os.path.join(build, "bench", "bench_masks"), source, self.mask],
                                  stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def turn(self, what):
        self.p.stdin.write(what + "\n")
        self.p.stdin.flush()
        answer = self.p.stdout.readline()
        if not answer:
            sys.exit("masks.py: bench_masks has ended")
        return float(answer)

    def last_mask(self):
        self.turn("write")
        return np.load(self.mask)

    def end(self):
        self.p.stdin.close()
        self.p.wait()


def timed(f):
    start = time.perf_counter()
    result = f()
    return (time.perf_counter() - start) * 1e3, result


def by_topk(w, k):
    size = w.abs().view(-1)
    border = torch.topk(size, k, largest=False)[0].max()
    return size.gt(border)


def by_kthvalue(w, k):
    size = w.abs().view(-1)
    return size.gt(torch.kthvalue(size, k)[0])


def by_partition(w, k):
    size = np.abs(w).reshape(-1)
    return size > np.partition(size, k - 1)[k - 1]


def show(title, times):
    print(title)
    mine = statistics.median(times["Pare"])
    for name, ms in times.items():
        print(f"  {name:<18} {statistics.median(ms):10.2f} ms {statistics.median(ms) / mine:8.1f} x")


def level(args, folder):
    w = (np.random.RandomState(1).standard_normal(WEIGHTS) * 0.05).astype(np.float32)
    k = int(w.size * SPARSITY)
    t = torch.from_numpy(w)
    peers = {"torch.topk": lambda: by_topk(t, k).numpy(),
             "torch.kthvalue": lambda: by_kthvalue(t, k).numpy(),
             "numpy.partition": lambda: by_partition(w, k)}
    pare = Pare(args.build, w, folder)
    times = {name: [] for name in ["Pare", *peers]}
    pare.turn(f"level {SPARSITY}")
    for _ in range(args.rounds):
        for name, f in peers.items():
            times["Pare"].append(pare.turn(f"level {SPARSITY}"))
            ms, mask = timed(f)
            times[name].append(ms)
    mine = pare.last_mask()
    pare.end()
    differ = np.nonzero(mine != mask)[0]
    same = (mine.size - np.count_nonzero(mine) == k
            and len(np.unique(np.abs(w[differ]))) <= 1 and len(differ) < 1000)
    show(f"level mask of {WEIGHTS} weights, {SPARSITY:.0%} go", times)
    print(f"  removed exactly {k}: {'yes' if same else 'NO'}; {len(differ)} equal weights at the border"
          " that the others remove too")
    return same


def scores(args, folder):
    w = np.random.RandomState(2).standard_normal(CONV).astype(np.float32)
    t = torch.from_numpy(w)
    pare = Pare(args.build, w, folder)
    for power in (1, 2):
        for name, axes in (("out_channel", (1, 2, 3)), ("in_channel", (0, 2, 3))):
            times = {"Pare": [], "torch.norm": []}
            pare.turn(f"l{power} {name}")
            torch.norm(t, p=power, dim=axes)
            for _ in range(5 * args.rounds):
                times["Pare"].append(pare.turn(f"l{power} {name}"))
                times["torch.norm"].append(timed(lambda: torch.norm(t, p=power, dim=axes))[0])
            show(f"L{power} by {name} of {CONV}", times)
            speed = w.nbytes / statistics.median(times["Pare"]) / 1e6
            print(f"  Pare reads {speed:.1f} GB/s")
    pare.end()


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--build", default="build", help="where bench/bench_masks is")
    p.add_argument("--rounds", type=int, default=5, help="turns of each slow peer")
    args = p.parse_args()
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        same = level(args, folder)
        scores(args, folder)
    return 0 if same else 1


if __name__ == "__main__":
    sys.exit(main())
