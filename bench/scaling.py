#!/usr/bin/env python3
"""scaling.py - measure training steps of `pare train` in several processes, in turn.

    scaling.py --pare build/pare [--without build-without/pare] [--model resnet18-cifar] [--rounds 5]

Each variant is a whole `pare train` on random images; the time of the second epoch counts, without
start-up and planning.  Variants take turns; the table has medians, and medians of the ratios to the
first variant within a round, because disturbances affect whole rounds.

    scaling.py --predict --step 0.4 --bytes 44.7e6 --latency 2e-5 --bandwidth 1.2e9

prints the predictions of the model of docs/scaling.md for 1 to 1,024 processes.
"""
import argparse
import json
import math
import os
import statistics
import subprocess
import tempfile

import numpy as np

ENV = dict(os.environ, OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1",
           OMPI_MCA_btl_vader_single_copy_mechanism="none")


def epoch(pare, folder, args, ranks, threads, build=None):
    """Items per second in the last epoch."""
    command = [build or pare, "train", "m.onnx", "--data", "set.npz", "--valid", "none",
               "--epochs", "2", "--batch", str(args.batch), "--threads", str(threads), "--json",
               "-q", "-o", "out.onnx"] + args.more.split()
    if ranks:
        bind = ["--bind-to", "core"] if ranks * threads <= os.cpu_count() and threads == 1 else \
            ["--bind-to", "none"]
        command = ["mpirun", "-q", "--oversubscribe", *bind, "-n", str(ranks)] + command
    text = subprocess.run(command, cwd=folder, env=ENV, check=True, text=True,
                          stdout=subprocess.PIPE).stdout
    return args.items / json.loads(text)["history"][-1]["seconds"]


def predict(args):
    """Time of a step of n processes, each with a batch of the same size as a single process."""
    backward = 2 / 3 * args.step
    print(f"{'processes':>9} {'sums':>8} {'exposed':>8} {'step':>8} {'efficiency':>11}")
    for n in [1, 2, 4] + [2**k for k in range(3, 11)]:
        buckets = max(1, args.bytes / 2**20 / max(1, n / 32))
        wire = 2 * (n - 1) / n * args.bytes / args.bandwidth
        turns = 2 * (n - 1) * args.latency * buckets
        sums = wire + turns if n > 1 else 0
        waits = args.waits * 2 * math.log2(n) * args.latency
        exposed = max(sums - backward * (1 - 1 / buckets), sums / buckets) + waits
        step = args.step + exposed
        print(f"{n:9} {sums:8.3f} {exposed:8.3f} {step:8.3f} {args.step / step:10.1%}")


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pare")
    parser.add_argument("--predict", action="store_true")
    parser.add_argument("--step", type=float, help="seconds of a step of one process")
    parser.add_argument("--bytes", type=float, help="of all gradients")
    parser.add_argument("--latency", type=float, help="seconds of a message")
    parser.add_argument("--bandwidth", type=float, help="bytes per second and process")
    parser.add_argument("--waits", type=int, default=0,
                        help="blocking sums per step: 2 per layer with --sync-bn")
    parser.add_argument("--without", help="a build with -DPARE_MPI=OFF")
    parser.add_argument("--model", default="resnet18-cifar")
    parser.add_argument("--side", type=int, default=32)
    parser.add_argument("--channels", type=int, default=3)
    parser.add_argument("--items", type=int, default=256)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--more", default="", help="more options of pare train")
    args = parser.parse_args()
    if args.predict:
        return predict(args)
    pare = os.path.abspath(args.pare)
    with tempfile.TemporaryDirectory() as folder:
        rng = np.random.default_rng(0)
        x = rng.standard_normal((args.items, args.channels, args.side, args.side), np.float32)
        np.savez(os.path.join(folder, "set.npz"), x=x, y=rng.integers(0, 10, args.items))
        subprocess.run([pare, "new", args.model, "--input",
                        f"{args.channels},{args.side},{args.side}", "-o", "m.onnx"], cwd=folder,
                       check=True, stdout=subprocess.DEVNULL)
        variants = {"1 process x 2 threads": (0, 2), "2 processes x 1 thread": (2, 1),
                    "1 process x 1 thread": (0, 1), "4 processes x 1 thread": (4, 1)}
        if args.without:
            variants["1 x 2, without MPI"] = (0, 2, os.path.abspath(args.without))
        speed = {name: [] for name in variants}
        for _ in range(args.rounds):
            for name, v in variants.items():
                speed[name].append(epoch(pare, folder, args, *v))
        base = speed["1 process x 2 threads"]
        print(f"{args.model}, batch {args.batch}, {args.rounds} rounds")
        print(f"{'':24} {'items/s':>9} {'to the first':>13}")
        for name, s in speed.items():
            ratio = statistics.median(a / b for a, b in zip(s, base))
            print(f"{name:24} {statistics.median(s):9.1f} {ratio:13.3f}")


if __name__ == "__main__":
    main()
