#!/usr/bin/python3
"""train.py - measure a training step of Pare and PyTorch: same networks, weights, batch and threads.

A step is forward, loss, backward and SGD with momentum.  `make bench` and `make bench-train` call
it; README.md in this folder describes the method and the columns.
"""
import argparse
import collections
import datetime
import json
import math
import os
import statistics
import subprocess
import sys

import numpy as np
import onnx
from onnx import numpy_helper

import run

# name -> (batch, channels, side, classes); resnet18 is torchvision's, the others are Pare's own
MODELS = {
    "lenet": (64, 1, 28, 10),
    "resnet18-cifar": (32, 3, 32, 10),
    "vgg16-cifar": (32, 3, 32, 10),
    "mobilenetv2-cifar": (32, 3, 32, 10),
    "resnet18": (8, 3, 224, 1000),
    "vit-tiny": (32, 3, 32, 10),
}
STEPS = 4               # number of losses that are compared
RATE = "0.0001"          # larger ones make MobileNetV2 chaotic: PyTorch then differs from itself
TOLERANCE = {"pare": 1e-3, "bf16": 2e-2}     # of the losses
BF16 = ("resnet18", "vit-tiny")              # measured in bf16, too
PEERS = ("pare", "torch", "bf16")


class Peer(run.Peer):
    """A process that trains one model, a step at a time."""

    def __init__(self, kind, build, args, threads, layout=None):
        env = dict(os.environ, OMP_NUM_THREADS=str(threads), OPENBLAS_NUM_THREADS=str(threads))
        if kind in ("pare", "bf16"):
            command = [os.path.join(build, "bench", "peer_pare_train")]
            args = args + ["bf16" if kind == "bf16" else "f32"]
            env["GOMP_SPINCOUNT"] = "1000"
        else:
            command = [sys.executable, os.path.join(run.HERE, "peer_torch_train.py")]
            args = args + [layout]
            env["LD_LIBRARY_PATH"] = "/usr/lib/x86_64-linux-gnu/openblas-openmp"
        self.kind, self.target, self.times = kind, args[5], []
        self.process = subprocess.Popen(command + args, env=env, text=True, stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE)
        _, self.note, base = self.answer().split()
        self.base_mb = int(base) / 1024
        self.stop()

    def profile(self, k):
        """Milliseconds of a step's parts, the plan's memory in MB, and its steps."""
        os.kill(self.process.pid, run.signal.SIGCONT)
        self.process.stdin.write(f"profile {k}\n")
        self.process.stdin.flush()
        words = self.answer().split()
        self.stop()
        steps = [w.rsplit("/", 3) for w in words[5:]]
        return {"parts": dict(zip(("forward", "loss", "backward", "optimizer"), map(float, words))),
                "plan_mb": int(words[4]) / 2**20,
                "steps": [(s[0] + (" +" + s[1] if s[1] != "0" else ""), float(s[2]), float(s[3]))
                          for s in steps]}


def prepare(args, name):
    """Write the model and a file of its weights; dropout is disabled so that both compute the same."""
    channels, side, classes = MODELS[name][1:]
    path = os.path.join(args.build, "bench", name + ".onnx")
    if name == "resnet18":
        subprocess.run([sys.executable, os.path.join(run.networks.TOOLS, "export_models.py"),
                        args.models_folder, "--one", name], check=True, stdout=subprocess.DEVNULL)
        model = onnx.load(os.path.join(args.models_folder, name + ".onnx"))
    else:
        subprocess.run([os.path.join(args.build, "pare"), "new", name, "--classes", str(classes),
                        "--input", f"{channels},{side},{side}", "-o", path], check=True,
                       stdout=subprocess.DEVNULL)
        model = onnx.load(path)
    for t in model.graph.initializer:
        if t.name == "classifier.0.p":
            t.CopyFrom(numpy_helper.from_array(np.array(0, np.float32), t.name))
    onnx.save(model, path)
    np.savez(path + ".npz", **{t.name: numpy_helper.to_array(t) for t in model.graph.initializer})
    return path


def torch_peer(args, words, threads):
    """The process with the faster of the two memory formats."""
    peers = []
    try:
        for layout in ("nchw", "nhwc"):
            peers.append(Peer("torch", args.build, words, threads, layout))
        times = [[], []]
        for _ in range(4):
            for p, t in zip(peers, times):
                t += p.run(1)
        return peers.pop(0 if statistics.median(times[0]) < statistics.median(times[1]) else 1)
    finally:
        for p in peers:
            p.close()


def peers_of(args, name):
    """Those of --peers, or Pare and PyTorch, and bf16 for some networks where the CPU has it."""
    bf16 = name in BF16 and run.cpu_has("avx512_bf16")
    return [k for k in PEERS if (k in args.peers if args.peers else k != "bf16" or bf16)]


def cell(args, name, threads):
    batch, channels, side, classes = MODELS[name]
    shape = (batch, channels, side, side)
    folder = os.path.join(args.build, "bench")
    rng = np.random.default_rng(1)
    source, labels = os.path.join(folder, "batch.bin"), os.path.join(folder, "labels.bin")
    rng.standard_normal(shape, np.float32).tofile(source)
    rng.integers(0, classes, batch).astype(np.int64).tofile(labels)
    words = [prepare(args, name), ",".join(map(str, shape)), str(threads), source, labels]
    peers = []
    try:
        for kind in peers_of(args, name):
            w = words + [os.path.join(folder, kind + ".losses"), str(STEPS), RATE]
            peers.append(torch_peer(args, w, threads) if kind == "torch" else Peer(kind, args.build, w, threads))
        other = run.measure(peers, args.seconds)
        row = {"model": name, "batch": batch, "threads": threads, "time": run.now(), "other_cpu": round(other, 3)}
        for p in peers:
            losses = np.fromfile(p.target, np.float32)
            row[p.kind] = {"ms": statistics.median(p.times), "min_ms": min(p.times),
                           "runs": len(p.times), "peak_mb": p.peak_mb(), "note": p.note,
                           "own_mb": p.peak_mb() - p.base_mb, "losses": losses.tolist()}
            if p.kind == "pare":
                row["profile"] = p.profile(max(3, min(100, int(1000 / min(p.times)))))
        return row
    finally:
        for p in peers:
            p.close()


def differ(row, kind="pare"):
    """Relative differences of the first and of the last loss from PyTorch's."""
    if "torch" not in row or kind not in row:
        return [0.0, 0.0]
    a, b = row[kind]["losses"], row["torch"]["losses"]
    return [abs(a[i] - b[i]) / max(abs(b[i]), 1e-3) for i in (0, -1)]


def print_row(row):
    print(f"{row['model']:20}{row['batch']:5}{row['threads']:4}", end="")
    nothing = {"ms": math.nan, "peak_mb": math.nan, "own_mb": math.nan}
    for what, digits, width in (("ms", 2, 10), ("peak_mb", 0, 7), ("own_mb", 0, 7)):
        for kind in ("pare", "torch"):
            print(run.text(row.get(kind, nothing)[what], digits, width), end="")
        if what == "ms":
            print(run.text(run.ratio(row, "torch"), 2, 9) + run.text(run.ratio(row, "pare", "bf16"), 2, 6), end=" ")
    print("".join(f"{d:9.0e}" for d in differ(row)), end="")
    print(f"{100 * row['other_cpu']:6.0f}%", row.get("torch", {}).get("note", ""), flush=True)


def print_profile(row):
    """Time by kernel, the slowest first."""
    p = row["profile"]
    total = sum(p["parts"].values())
    print(f"\n{row['model']}, {row['threads']} threads: Pare's {total:.2f} ms by kernel "
          f"(activations and gradients {p['plan_mb']:.0f} MB)")
    parts = collections.defaultdict(lambda: [0, 0.0, 0.0])
    for name, forward, backward in p["steps"]:
        for i, v in enumerate((1, forward, backward)):
            parts[name][i] += v
    ordered = sorted(parts.items(), key=lambda kv: -kv[1][1] - kv[1][2])
    ordered += [("loss", (1, p["parts"]["loss"], 0)), ("optimizer", (1, 0, p["parts"]["optimizer"]))]
    print(f"  {'kernel/operator':44}{'steps':>6}{'forward':>10}{'backward':>10}{'part':>7}")
    for name, (n, forward, backward) in ordered:
        part = 100 * (forward + backward) / total
        if part >= 1:
            print(f"  {name:44}{n:6}{forward:10.2f}{backward:10.2f}{part:6.1f}%")


def print_means(rows):
    print()
    for threads in sorted({r["threads"] for r in rows}):
        ratios = [run.ratio(r, "torch") for r in rows if r["threads"] == threads]
        ratios = [v for v in ratios if not math.isnan(v)]
        if ratios:
            print(f"{'geometric mean of ' + str(len(ratios)):25}{threads:4}{'':20}"
                  f"{statistics.geometric_mean(ratios):11.2f}")


def parse():
    ap = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    ap.add_argument("--build", default="build", help="the build folder")
    ap.add_argument("--models", type=run.words, default=list(MODELS), help="names, in one argument")
    ap.add_argument("--models-folder", help="folder to which resnet18 is exported (default: BUILD/models)")
    ap.add_argument("--threads", type=run.words, default=["1", "2"])
    ap.add_argument("--seconds", type=float, default=2, help="for each peer in each row")
    ap.add_argument("--peers", type=run.words, default=[], help="of: pare torch bf16 (default: README.md)")
    args = ap.parse_args()
    unknown = (set(args.models) - set(MODELS)) | (set(args.peers) - set(PEERS))
    if unknown:
        ap.error(f"unknown: {' '.join(sorted(unknown))}")
    args.build = os.path.abspath(args.build)
    args.models_folder = os.path.abspath(args.models_folder or os.path.join(args.build, "models"))
    return args


def main():
    args = parse()
    rows, failed = [], []
    os.makedirs(os.path.join(args.build, "bench"), exist_ok=True)
    print("median milliseconds of one training step; of Torch: Pare's time divided by PyTorch's; bf16: divided by Pare's")
    print(f"{'':50}{'':14}{'peak':>7}{'':7}{'model':>7}{'':7}{'loss differs':>18}")
    print(f"{'model':20}{'batch':>5}{'thr':>4}{'Pare':>10}{'PyTorch':>10}{'of Torch':>9}{'bf16':>6} "
          f"{'Pare':>7}{'Torch':>7}{'Pare':>7}{'Torch':>7}{'first':>9}{'later':>9}{'other':>7}")
    for name in args.models:
        for threads in map(int, args.threads):
            try:
                rows.append(cell(args, name, threads))
                print_row(rows[-1])
            except RuntimeError as e:
                failed.append(name)
                print(f"{name:20}{MODELS[name][0]:5}{threads:4}  {e}", flush=True)
    print_means(rows)
    for row in rows:
        if "profile" in row and row["threads"] == max(r["threads"] for r in rows):
            print_profile(row)
    stamp = datetime.datetime.now().strftime("%Y%m%d-%H%M%S")
    path = os.path.join(args.build, "bench", stamp + "-train.json")
    with open(path, "w") as f:
        json.dump({"time": datetime.datetime.now().isoformat(timespec="seconds"), "rows": rows}, f,
                  indent=1)
    print(f"\nwritten to {os.path.relpath(path)}")
    wrong = [r["model"] for r in rows for kind, most in TOLERANCE.items() if max(differ(r, kind)) > most]
    if wrong or failed:
        print("losses differ:", *wrong, "failed:", *failed, file=sys.stderr)
    return 1 if wrong or failed else 0


if __name__ == "__main__":
    sys.exit(main())
