#!/usr/bin/python3
"""run.py - measure Pare, ONNX Runtime and PyTorch with the same networks, weights, inputs and threads.

`make bench` calls it; README.md in this folder describes the method and the columns.
"""
import argparse
import datetime
import json
import math
import os
import signal
import statistics
import subprocess
import sys
import time

import numpy as np
import onnx
from onnx import numpy_helper

import networks
from networks import INT8

HERE = os.path.dirname(os.path.abspath(__file__))
DIRECT = ("resnet18", "resnet50", "vgg16_bn")   # int8 compared with float32 without Winograd's algorithm
PEERS = ("pare", "ort", "torch")
TITLES = {"pare": "Pare", "ort": "ONNX Runtime", "torch": "PyTorch"}
TURN_MS = 60            # a short run is repeated until a turn takes about this long
STARTS = 3              # processes that are started to measure the start
TICK = os.sysconf("SC_CLK_TCK")


def busy_seconds():
    """CPU time that everything on this machine has used."""
    with open("/proc/stat") as f:
        user, nice, system, _, _, irq, soft, steal = map(int, f.readline().split()[1:9])
    return (user + nice + system + irq + soft + steal) / TICK


class Peer:
    """A process that loads one model and, on request, runs it and prints the time."""

    def __init__(self, kind, build, model, inputs, threads, target, choices=None, precision=None):
        command, env = Peer.command(kind, build, threads)
        args = [model, inputs, str(threads), target] + ([choices] if choices else [])
        if kind == "pare" and precision == "bf16":
            args = args[:4] + [choices or "-", precision]
        self.kind, self.target, self.times = kind, target, []
        self.process = subprocess.Popen(command + args, env=env, text=True, stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE)
        self.note = self.answer()
        self.stop()

    @staticmethod
    def command(kind, build, threads):
        env = dict(os.environ, OMP_NUM_THREADS=str(threads), OPENBLAS_NUM_THREADS=str(threads))
        if kind in ("pare", "direct"):
            command = [os.path.join(build, "bench", "peer_pare")]
            env["GOMP_SPINCOUNT"] = "10000"         # as the pare command sets it
        elif kind == "ort":
            command = ["node", os.path.join(HERE, "peer_ort.mjs")]
            env["NODE_PATH"] = os.path.join(build, "node", "node_modules")
        else:
            command = [sys.executable, os.path.join(HERE, "peer_torch.py")]
            # The OpenBLAS that shares PyTorch's OpenMP threads; with the other one, two pools compete.
            env["LD_LIBRARY_PATH"] = "/usr/lib/x86_64-linux-gnu/openblas-openmp"
        return command, env

    def answer(self):
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(f"{TITLES[self.kind]} ended with code {self.process.wait()}")
        return line.strip()

    def stop(self):
        """Stop the process, so that its threads do not spin while another peer is measured."""
        os.kill(self.process.pid, signal.SIGSTOP)

    def run(self, k):
        os.kill(self.process.pid, signal.SIGCONT)
        self.process.stdin.write(f"run {k}\n")
        self.process.stdin.flush()
        times = [float(t) for t in self.answer().split()]
        self.stop()
        return times

    def cpu_seconds(self):
        with open(f"/proc/{self.process.pid}/stat") as f:
            fields = f.read().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / TICK

    def peak_mb(self):
        with open(f"/proc/{self.process.pid}/status") as f:
            for line in f:
                if line.startswith("VmHWM:"):
                    return int(line.split()[1]) / 1024
        return math.nan

    def close(self):
        if self.process.poll() is None:
            os.kill(self.process.pid, signal.SIGCONT)
            self.process.kill()
        self.process.wait()


def difference(a, b):
    a, b = (np.fromfile(p.target, np.float32) for p in (a, b))
    return float(np.abs(a - b).max() / np.abs(b).max()) if a.shape == b.shape else math.inf


def steps(a, b, scale):
    """The largest difference in quantization steps of the output."""
    a, b = (np.fromfile(p.target, np.float32) for p in (a, b))
    return float(np.abs(a - b).max() / scale) if a.shape == b.shape else math.inf


def output_scale(path):
    """The scale of the last DequantizeLinear before the first output."""
    graph = onnx.load(path).graph
    producers = {name: n for n in graph.node for name in n.output}
    node = producers[graph.output[0].name]
    while node.op_type != "DequantizeLinear":
        node = producers[node.input[0]]
    return float(numpy_helper.to_array([t for t in graph.initializer
                                        if t.name == node.input[1]][0]))


def is_wrong(row):
    """Do float32 outputs differ?  make test-interop and make test-models check int8 networks, in which a single value
    that is rounded differently affects many others (docs/quantization.md)."""
    return (row["tolerance"] is not None and
            max(row[k]["difference"] for k in PEERS if k in row) > row["tolerance"])


def measure(peers, seconds):
    """Take turns: a, b, c, a, b, c, ...; returns the CPU time of other programs, as a fraction of a core."""
    repeat = {p: max(1, min(2000, int(TURN_MS / min(p.run(2))))) for p in peers}
    start, busy = time.monotonic(), busy_seconds()
    own = sum(p.cpu_seconds() for p in peers) + time.process_time()
    turns = 0
    while turns < 3 or time.monotonic() - start < seconds * len(peers):
        for p in peers:
            p.times += p.run(repeat[p])
        turns += 1
    own = sum(p.cpu_seconds() for p in peers) + time.process_time() - own
    wall = time.monotonic() - start
    return max(0.0, (busy_seconds() - busy - own) / wall)


def start_up(args, network, inputs, threads):
    """Load, plan and run once, in new processes that take turns: medians of milliseconds and of megabytes needed."""
    found = {}
    for _ in range(STARTS):
        for kind in args.peers:
            if kind == "torch":
                continue
            command, env = Peer.command(kind, args.build, threads)
            done = subprocess.run(command + [network.path, inputs, str(threads), "start"], env=env, check=True, text=True,
                                  stdout=subprocess.PIPE)
            found.setdefault(kind, []).append([float(v) for v in done.stdout.split()])
    return {kind: {"ms": statistics.median(v[0] for v in values), "mb": statistics.median(v[1] for v in values) / 1024}
            for kind, values in found.items()}


def direct_peer(args, name, inputs, batch, threads):
    """Pare's float32 network with direct convolutions, selected by a file of choices."""
    folder = os.path.join(args.build, "bench")
    model = networks.Exported(args.build, name).path
    choices = os.path.join(folder, "direct.txt")
    if os.path.exists(choices):
        os.remove(choices)
    subprocess.run([os.path.join(args.build, "pare"), "bench", model, "--batch", str(batch),
                    "--threads", str(threads), "--repeat", "1", "--choices", choices], check=True,
                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    with open(choices) as f:
        lines = f.read().replace("conv_winograd\t", "conv_onednn\t")
    with open(choices, "w") as f:
        f.write(lines)
    return Peer("direct", args.build, model, inputs, threads, os.path.join(folder, "direct.bin"), choices)


def cell(args, network, batch, threads):
    folder = os.path.join(args.build, "bench")
    inputs = os.path.join(folder, "inputs.npz")
    np.savez(inputs, **network.inputs(batch))
    base = network.name.removesuffix(INT8)
    peers = []
    try:
        for kind in args.peers:
            if kind != "torch" or network.torch:
                peers.append(Peer(kind, args.build, network.path, inputs, threads, os.path.join(folder, kind + ".bin"),
                                  precision=args.precision))
        if base != network.name and base in DIRECT:
            peers.append(direct_peer(args, base, inputs, batch, threads))
        other = measure(peers, args.seconds)
        row = {"model": network.name, "group": network.group, "batch": batch, "threads": threads,
               "tolerance": network.tolerance if args.precision == "f32" else None, "other_cpu": round(other, 3)}
        for p in peers:
            row[p.kind] = {"ms": statistics.median(p.times), "min_ms": min(p.times),
                           "runs": len(p.times), "peak_mb": round(p.peak_mb(), 1), "note": p.note,
                           "difference": difference(peers[0], p)}
        if base != network.name and network.group == "torchvision" and "ort" in row:
            row["steps"] = steps(*peers[:2], output_scale(network.path))
        row["start"] = {} if args.no_start_up else start_up(args, network, inputs, threads)
        return row
    finally:
        for p in peers:
            p.close()


def ratio(row, kind):
    """Pare's time divided by the other's."""
    return row["pare"]["ms"] / row[kind]["ms"] if kind in row and "pare" in row else math.nan


def start_ratio(row, what):
    start = row["start"]
    return start["pare"][what] / start["ort"][what] if "ort" in start and "pare" in start else math.nan


def text(value, digits, width):
    return ("-" if math.isnan(value) else f"{value:.{digits}f}").rjust(width)


def print_row(row):
    print(f"{row['model']:25}{row['batch']:5}{row['threads']:4}", end="")
    for kind in PEERS:
        print(text(row[kind]["ms"] if kind in row else math.nan, 2, 10), end="")
    print(text(ratio(row, "ort"), 2, 7) + text(ratio(row, "torch"), 2, 9), end="")
    print(text(row["start"]["pare"]["ms"] if row["start"] else math.nan, 1, 8), end="")
    print(text(start_ratio(row, "ms"), 2, 7), end="")
    print(text(row["start"]["pare"]["mb"] if row["start"] else math.nan, 0, 6), end="")
    print(text(start_ratio(row, "mb"), 2, 7), end="")
    worst = max(row[kind]["difference"] for kind in PEERS if kind in row)
    print(f"{row['steps']:4.1f} steps" if "steps" in row else f"{worst:10.0e}", end="")
    print(f"{100 * row['other_cpu']:6.0f}%", flush=True)


def group_of(row):
    return "torchvision int8" if row["group"] == "torchvision" and row["model"].endswith(INT8) else row["group"]


def mean_text(values, width):
    values = [v for v in values if not math.isnan(v)]
    return text(statistics.geometric_mean(values) if values else math.nan, 2, width)


def print_means(rows):
    """Geometric means of Pare's time divided by the other's, and the worst row."""
    print(f"\n{'geometric means':25}{'batch':>5}{'thr':>4}{'rows':>6}{'of ORT':>8}{'worst':>7}{'of Torch':>9}"
          f"{'start':>7}{'memory':>8}")
    keys = {(group_of(r), b, t) for r in rows for b in (r["batch"], 0) for t in (r["threads"], 0) if (b == 0) == (t == 0)}
    for group, batch, threads in sorted(keys):
        part = [r for r in rows if group_of(r) == group and (not batch or (r["batch"], r["threads"]) == (batch, threads))]
        worst = max((ratio(r, "ort") for r in part if not math.isnan(ratio(r, "ort"))), default=math.nan)
        print(f"{group:25}{batch or 'all':>5}{threads or 'all':>4}{len(part):6}"
              f"{mean_text([ratio(r, 'ort') for r in part], 8)}{text(worst, 2, 7)}"
              f"{mean_text([ratio(r, 'torch') for r in part], 9)}{mean_text([start_ratio(r, 'ms') for r in part], 7)}"
              f"{mean_text([start_ratio(r, 'mb') for r in part], 8)}")


def print_int8(rows):
    """Pare's int8 time as a fraction of its float32 time, and two threads compared with one."""
    ms = {(r["model"], r["batch"], r["threads"]): r["pare"]["ms"] for r in rows if "pare" in r}
    ratios = {"float32": [], "direct": []}
    for (model, batch, threads), value in ms.items():
        base = ms.get((model.removesuffix(INT8), batch, threads))
        ratios["float32"] += [value / base] if base and model.endswith(INT8) else []
    ratios["direct"] = [ratio(r, "direct") for r in rows if "direct" in r]
    for what, title in (("float32", "Pare's float32"), ("direct", "Pare's direct float32")):
        if ratios[what]:
            print(f"int8 takes {statistics.geometric_mean(ratios[what]):.2f} of {title} time "
                  f"(geometric mean of {len(ratios[what])})")
    slower = [f"{m} {b} ({v / ms[m, b, 1]:.2f})" for (m, b, t), v in ms.items()
              if t == 2 and (m, b, 1) in ms and v > ms[m, b, 1]]
    if any(t == 2 for _, _, t in ms):
        print("slower with 2 threads than with 1:", ", ".join(slower) or "none")


def commands(args):
    """Wall time of whole commands, and of `true` as the cost of starting any process."""
    pare = os.path.join(args.build, "pare")
    found = {"true": ["true"], "pare --version": [pare, "--version"]}
    for name in ("resnet50", "vgg16_bn"):
        path = os.path.join(args.build, "models", name + ".onnx")
        if os.path.exists(path):
            size = os.path.getsize(path) / 1e6
            found[f"pare inspect {name}.onnx ({size:.0f} MB)"] = [pare, "inspect", path]
    result = {}
    print()
    for title, command in found.items():
        times = []
        for _ in range(15):
            begin = time.perf_counter()
            subprocess.run(command, stdout=subprocess.DEVNULL, check=True)
            times.append((time.perf_counter() - begin) * 1e3)
        result[title] = statistics.median(times)
        print(f"{title:44}{result[title]:8.1f} ms")
    return result


def words(value):
    return value.replace(",", " ").split()


def parse():
    ap = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    ap.add_argument("--build", default="build", help="the build folder")
    ap.add_argument("--models", type=words, default=networks.NAMES, help="names, in one argument")
    ap.add_argument("--batch", type=words, default=[], help="(default: 1 and 8, for real models 1 and 4)")
    ap.add_argument("--threads", type=words, default=["1", "2"])
    ap.add_argument("--seconds", type=float, default=3, help="for each peer in each row")
    ap.add_argument("--peers", type=words, default=list(PEERS), help="of: pare ort torch")
    ap.add_argument("--precision", default="f32", choices=["f32", "bf16"],
                    help="of Pare; the differences of bf16 are printed, not checked")
    ap.add_argument("--no-start-up", action="store_true")
    args = ap.parse_args()
    unknown = (set(args.models) - set(networks.NAMES)) | (set(args.peers) - set(PEERS))
    if unknown:
        ap.error(f"unknown: {' '.join(sorted(unknown))}")
    args.build = os.path.abspath(args.build)
    return args


def rows_of(args, name):
    """The rows of one network; a peer that ends early is printed and counts as a failure."""
    network = networks.make(args.build, name)
    for batch in [int(b) for b in args.batch if int(b) in network.batches] if args.batch else network.batches:
        for threads in map(int, args.threads):
            try:
                row = cell(args, network, batch, threads)
                print_row(row)
                yield row
            except (RuntimeError, subprocess.CalledProcessError) as e:
                print(f"{name:25}{batch:5}{threads:4}  {e}", flush=True)
                yield None


def main():
    args = parse()
    os.makedirs(os.path.join(args.build, "bench"), exist_ok=True)
    print("median milliseconds of one run; 'of X': Pare's time divided by X's; start: load, plan, first run")
    print(f"{'model':25}{'batch':>5}{'thr':>4}{'Pare':>10}{'ORT':>10}{'PyTorch':>10}{'of ORT':>7}{'of Torch':>9}"
          f"{'start':>8}{'of ORT':>7}{'MB':>6}{'of ORT':>7}{'differ':>10}{'other':>7}")
    found = [row for name in args.models for row in rows_of(args, name)]
    rows = [row for row in found if row]
    print_means(rows)
    print_int8(rows)
    result = {"time": datetime.datetime.now().isoformat(timespec="seconds"), "rows": rows}
    if not args.no_start_up:
        result["commands_ms"] = commands(args)
    stamp = datetime.datetime.now().strftime("%Y%m%d-%H%M%S")
    path = os.path.join(args.build, "bench", stamp + ".json")
    with open(path, "w") as f:
        json.dump(result, f, indent=1)
    print(f"\nwritten to {os.path.relpath(path)}")
    wrong = [r["model"] for r in rows if is_wrong(r)]
    if wrong or len(rows) < len(found):
        print("outputs differ:", *wrong, "failed:", len(found) - len(rows), file=sys.stderr)
    return 1 if wrong or len(rows) < len(found) else 0


if __name__ == "__main__":
    sys.exit(main())
