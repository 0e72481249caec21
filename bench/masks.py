#!/usr/bin/python3
"""masks.py - measure exact masks and scores of Pare, PyTorch and NumPy, on one thread.

`make bench-masks` calls it.  Level masks: 25 million normally distributed float32 weights, 80 % of them
removed; PyTorch by topk and by kthvalue, numpy by partition, each from the weights to the mask.  Scores: the
L1 and L2 norms of the filters and of the input channels of a convolution.  The peers take turns, so
that disturbances affect all of them; the table has the medians of all turns and the ratio to Pare's.  The
masks may differ only among equal weights.
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
    """The process of bench_masks, which measures one turn per input line."""

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
    threshold = torch.topk(size, k, largest=False)[0].max()
    return size.gt(threshold)


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
    show(f"level mask of {WEIGHTS} weights, {SPARSITY:.0%} removed", times)
    print(f"  removed exactly {k}: {'yes' if same else 'NO'}; {len(differ)} weights equal to the threshold"
          " are removed only by the others")
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


def torch_steps(rounds):
    """Median times of optimizer steps on WEIGHTS weights, without and with a mask."""
    times = {}
    for name, kind, options in (("sgd", torch.optim.SGD, {"momentum": 0.9}), ("adam", torch.optim.Adam, {})):
        w = torch.zeros(WEIGHTS, requires_grad=True)
        w.grad = torch.full((WEIGHTS,), 1e-3)
        mask = (torch.rand(WEIGHTS) < 0.1).float()
        step = kind([w], lr=0.01, **options).step
        step()

        def masked():
            w.grad.mul_(mask)
            step()
            with torch.no_grad():
                w.mul(mask)
        for what, f in ((name, step), (name + "-masked", masked)):
            times[what] = statistics.median(timed(f)[0] for _ in range(rounds))
    return times


def training(args):
    """The optimizer with masks, the training hooks of a compression, and the whole command."""
    build, torch_ms = args.build, torch_steps(args.rounds)
    lines = subprocess.run([os.path.join(build, "bench", "bench_train_hooks"), "1", str(args.rounds)], text=True,
                           check=True, stdout=subprocess.PIPE).stdout.splitlines()
    ms = {name: float(t) for name, t in (line.split() for line in lines)}
    print("\nupdate of 25 M weights        Pare ms   PyTorch / Pare")
    for name, title in (("sgd", "SGD with momentum"), ("sgd-masked", "... masked"), ("adam", "Adam"),
                        ("adam-masked", "... masked")):
        print(f"{title:28s} {ms[name]:8.1f} {torch_ms[name] / ms[name]:10.1f}")
    print(f"\nLeNet, batch 64: a step {ms['step']:.3f} ms, with masks {ms['step-masked']:.3f} ms; "
          f"the hooks alone {100 * ms['hooks'] / ms['step']:.3f} % of a step")
    model = os.path.join(build, "models", "resnet50.onnx")
    if os.path.exists(model):
        for pruner in ("level", "l1", "fpgm"):
            out = os.path.join(build, "bench", "pruned.onnx")
            run = ["/usr/bin/time", "-f", "%e %M", os.path.join(build, "pare"), "prune", model, "--pruner", pruner,
                   "--sparsity", "0.5", "-q", "-o", out]
            runs = [subprocess.run(run, text=True, check=True, stderr=subprocess.PIPE).stderr.split()[-2:]
                    for _ in range(3)]
            print(f"pare prune resnet50, {pruner}: {min(float(t) for t, _ in runs):.2f} s, "
                  f"{max(int(m) for _, m in runs) / 1024:.0f} MB, file to file")
            os.remove(out)


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--build", default="build", help="build folder")
    p.add_argument("--rounds", type=int, default=5, help="turns of each slow peer")
    args = p.parse_args()
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        same = level(args, folder)
        scores(args, folder)
    training(args)
    return 0 if same else 1


if __name__ == "__main__":
    sys.exit(main())
