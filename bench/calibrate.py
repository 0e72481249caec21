#!/usr/bin/python3
"""calibrate.py - time and memory of calibration compared with running the model on the same images.

`make bench-calibrate` calls it.  A model of build/models (default: resnet50) gets random images; one
process only runs it, another calibrates it for 8 bits, in turns, so that disturbances affect both.  The
table has the medians of wall time and processor time, their ratios, the peaks of resident memory, and
their difference.
"""
import argparse
import os
import statistics
import subprocess
import sys
import tempfile

import numpy as np


def once(args, data, images, observer):
    command = [os.path.join(args.build, "bench", "bench_calibrate"),
               os.path.join(args.models, args.model + ".onnx"), data, str(args.batch),
               str(images // args.batch), str(args.threads), observer]
    r = subprocess.run(command, capture_output=True, text=True)
    if r.returncode:
        sys.exit("calibrate.py: " + r.stderr.strip())
    return [float(v) for v in r.stdout.split()]


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--build", default="build")
    p.add_argument("--models", help="folder of models (default: BUILD/models)")
    p.add_argument("--model", default="resnet50")
    p.add_argument("--images", default="64 256", help="numbers of images")
    p.add_argument("--batch", type=int, default=8)
    p.add_argument("--threads", type=int, default=os.cpu_count())
    p.add_argument("--rounds", type=int, default=3)
    p.add_argument("--observers", default="minmax entropy")
    p.add_argument("--size", type=int, default=224)
    args = p.parse_args()
    args.models = args.models or os.path.join(args.build, "models")

    print(f"{args.model}, batches of {args.batch}, {args.threads} threads")
    print(f"{'images':>6}  {'observer':8}  {'run':>8}  {'calibrate':>9}  {'times':>5}  {'processor':>9}"
          f"  {'run':>7}  {'calibrate':>9}  {'more':>7}")
    for images in map(int, args.images.split()):
        with tempfile.TemporaryDirectory() as folder:
            data = os.path.join(folder, "images.npz")
            rng = np.random.default_rng(1)
            np.savez(data, x=rng.integers(0, 256, (images, 3, args.size, args.size), dtype=np.uint8),
                     y=np.arange(images) % 10)
            results = {"none": [], **{o: [] for o in args.observers.split()}}
            for _ in range(args.rounds):
                for observer in results:
                    results[observer].append(once(args, data, images, observer))
        median = {o: [statistics.median(c) for c in zip(*r)] for o, r in results.items()}
        wall, cpu, kb = median.pop("none")
        for o, (w, c, k) in median.items():
            print(f"{images:6}  {o:8}  {wall:6.2f} s  {w:7.2f} s  {w / wall:5.2f}  {c / cpu:9.2f}"
                  f"  {kb / 1024:4.0f} MB  {k / 1024:6.0f} MB  {(k - kb) / 1024:4.0f} MB")


main()
