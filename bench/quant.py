#!/usr/bin/env python3
"""quant.py - measure training steps of a float model and of quantized ones, in one process.

`make bench-quant` calls it.  Steps take turns, so that disturbances affect all of them; the table has the
medians of wall time of all turns, and the ratio to the float step.  Weights (per-channel scales) and inputs
of all convolutions and linear layers have 8 bits.  On a busy machine the second ratio, of processor time,
is more reliable than the first.
"""
import argparse
import os
import subprocess

NETWORKS = {"lenet": 64, "resnet18-cifar": 32}
QUANTIZERS = ("qat", "lsq", "lsq_plus")


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--build", default="build", help="build folder")
    p.add_argument("--threads", default="1 2", help="numbers of threads")
    p.add_argument("--rounds", type=int, default=15, help="turns of each")
    p.add_argument("--models", default=" ".join(NETWORKS), help="networks of 'pare new'")
    args = p.parse_args()
    print(f"{'network':16} {'threads':>7}  {'':9} {'ms':>9} {'/ float':>8} {'cpu ms':>9} {'/ float':>8}")
    for network in args.models.split():
        for threads in args.threads.split():
            rounds = args.rounds * (10 if network == "lenet" else 1)
            lines = subprocess.run([os.path.join(args.build, "bench", "bench_quant"), network,
                                    str(NETWORKS.get(network, 32)), threads, str(rounds), *QUANTIZERS],
                                   text=True, check=True, stdout=subprocess.PIPE).stdout.splitlines()
            base = [float(v) for v in lines[0].split()[1:]]
            for line in lines:
                name, wall, cpu = line.split()
                print(f"{network:16} {threads:>7}  {name:9} {float(wall):9.2f} {float(wall) / base[0]:8.2f} "
                      f"{float(cpu):9.2f} {float(cpu) / base[1]:8.2f}")
    print("For comparison, cited and not measured here: NNI, ResNet-18, 1.3 to 1.4.")


if __name__ == "__main__":
    main()
