#!/usr/bin/python3
"""run.py - measure Pare, ONNX Runtime and PyTorch with the same networks, weights, inputs and threads.

`make bench` calls it; README.md in this folder describes the method and the columns.
"""
import argparse
import datetime
import fnmatch
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
import summary
from networks import INT8
from summary import ratio, start_ratio

HERE = os.path.dirname(os.path.abspath(__file__))
DIRECT = ("resnet18", "resnet50", "vgg16_bn")   # int8 compared with float32 without Winograd's algorithm
BF16 = ("resnet50", "vgg16_bn", "vit_b_16", "convnext_tiny")    # measured in bf16, too
PEERS = ("pare", "ort", "torch", "avx2", "bf16")    # avx2 and bf16: Pare, limited to AVX2 or in that precision
CHECKED = ("pare", "ort", "torch", "avx2")          # whose outputs must agree
TITLES = {"pare": "Pare", "ort": "ONNX Runtime", "torch": "PyTorch", "avx2": "Pare with AVX2", "bf16": "Pare in bf16",
          "direct": "Pare with direct convolutions"}
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

    def __init__(self, kind, build, model, inputs, threads, target, choices=None):
        command, env = Peer.command(kind, build, threads)
        args = [model, inputs, str(threads), target] + ([choices] if choices else [])
        if kind == "bf16":
            args += ["-", "bf16"]
        self.kind, self.target, self.times = kind, target, []
        self.process = subprocess.Popen(command + args, env=env, text=True, stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE)
        self.note = self.answer()
        self.stop()

    @staticmethod
    def command(kind, build, threads):
        env = dict(os.environ, OMP_NUM_THREADS=str(threads), OPENBLAS_NUM_THREADS=str(threads))
        if kind == "avx2":
            env["PARE_ISA"] = "avx2"
        if kind in ("pare", "direct", "avx2", "bf16"):
            command = [os.path.join(build, "bench", "peer_pare")]
            env["GOMP_SPINCOUNT"] = "1000"         # as the pare command sets it
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
            max(row[k]["difference"] for k in CHECKED if k in row) > row["tolerance"])


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
        for kind in ("pare", "ort"):
            if args.peers and kind not in args.peers:
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


def cpu_has(flag):
    with open("/proc/cpuinfo") as f:
        return any(flag in line.split() for line in f if line.startswith("flags"))


def peers_of(args, network, batch):
    """The peers of a row: those of --peers, or Pare and ONNX Runtime, and PyTorch, AVX2 and bf16 where README.md says so."""
    wanted = {"pare": True, "ort": True, "torch": True,
              "avx2": batch == 1 and cpu_has("avx512f"),
              "bf16": network.name in BF16 and cpu_has("avx512_bf16")}
    return [k for k in PEERS if (k in args.peers if args.peers else wanted[k]) and (k != "torch" or network.torch)]


def cell(args, network, batch, threads):
    folder = os.path.join(args.build, "bench")
    inputs = os.path.join(folder, "inputs.npz")
    np.savez(inputs, **network.inputs(batch))
    base = network.name.removesuffix(INT8)
    peers = []
    try:
        for kind in peers_of(args, network, batch):
            peers.append(Peer(kind, args.build, network.path, inputs, threads, os.path.join(folder, kind + ".bin")))
        if base != network.name and base in DIRECT:
            peers.append(direct_peer(args, base, inputs, batch, threads))
        other = measure(peers, args.seconds)
        row = {"model": network.name, "group": network.group, "batch": batch, "threads": threads,
               "tolerance": network.tolerance, "time": now(), "other_cpu": round(other, 3)}
        for p in peers:
            row[p.kind] = {"ms": statistics.median(p.times), "min_ms": min(p.times),
                           "runs": len(p.times), "peak_mb": round(p.peak_mb(), 1), "note": p.note,
                           "difference": difference(peers[0], p)}
        if base != network.name and network.group == "torchvision" and "ort" in row:
            row["steps"] = steps(*peers[:2], output_scale(network.path))
        row["start"] = {} if args.no_start_up or batch > 1 else start_up(args, network, inputs, threads)
        return row
    finally:
        for p in peers:
            p.close()


def text(value, digits, width):
    return summary.text(value, digits).rjust(width)


def print_row(row):
    print(f"{row['model']:25}{row['batch']:5}{row['threads']:4}", end="")
    for kind in ("pare", "ort", "torch"):
        print(text(row[kind]["ms"] if kind in row else math.nan, 2, 10), end="")
    start = row["start"].get("pare", {"ms": math.nan, "mb": math.nan})
    for value, digits, width in ((ratio(row, "ort"), 2, 7), (ratio(row, "torch"), 2, 9),
                                 (ratio(row, "pare", "avx2"), 2, 6), (ratio(row, "pare", "bf16"), 2, 6),
                                 (start["ms"], 1, 8), (start_ratio(row, "ms"), 2, 7),
                                 (start["mb"], 0, 6), (start_ratio(row, "mb"), 2, 7)):
        print(text(value, digits, width), end="")
    worst = max(row[kind]["difference"] for kind in CHECKED if kind in row)
    print(f"{row['steps']:4.1f} steps" if "steps" in row else f"{worst:10.0e}", end="")
    print(f"{100 * row['other_cpu']:6.0f}%", flush=True)


def print_means(rows):
    """Geometric means of ratios, and what else the rows show."""
    lines = summary.table(rows)
    widths = [max(map(len, column)) for column in zip(*lines)]
    print("\ngeometric means")
    for line in lines:
        print("  ".join(t.ljust(w) if i == 0 else t.rjust(w) for i, (t, w) in enumerate(zip(line, widths))))
    for line in summary.sentences(rows):
        print(line)


def now():
    return datetime.datetime.now().isoformat(timespec="seconds")


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


def model_names(value):
    """Names, patterns of names (yolo*) and groups of networks.GROUPS, in one argument."""
    names = []
    for word in words(value):
        found = networks.GROUPS.get(word) or fnmatch.filter(networks.NAMES, word)
        if not found:
            raise argparse.ArgumentTypeError(f"unknown: {word}; groups: {' '.join(networks.GROUPS)}")
        names += found
    return list(dict.fromkeys(names))


def parse():
    ap = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    ap.add_argument("--build", default="build", help="the build folder")
    ap.add_argument("--models", type=model_names, default=networks.NAMES,
                    help=f"names, patterns such as yolo*, or groups: {' '.join(networks.GROUPS)}")
    ap.add_argument("--batch", type=words, default=[], help="(default: 1 and 8, for real models 1 and 4)")
    ap.add_argument("--threads", type=words, default=["1", "2"])
    ap.add_argument("--seconds", type=float, default=1, help="for each peer in each row")
    ap.add_argument("--peers", type=words, default=[], help=f"of: {' '.join(PEERS)} (default: README.md)")
    ap.add_argument("--no-start-up", action="store_true")
    args = ap.parse_args()
    unknown = set(args.peers) - set(PEERS)
    if unknown:
        ap.error(f"unknown: {' '.join(sorted(unknown))}")
    args.build = os.path.abspath(args.build)
    return args


def rows_of(args, name):
    """The rows of one network; a peer that ends early is printed and counts as a failure."""
    try:
        network = networks.make(args.build, name)
    except (OSError, subprocess.CalledProcessError) as e:
        print(f"{name:25}  {e}", flush=True)
        yield None
        return
    for batch in [int(b) for b in args.batch if int(b) in network.batches] if args.batch else network.batches:
        for threads in map(int, args.threads):
            try:
                row = cell(args, network, batch, threads)
                print_row(row)
                yield row
            except (RuntimeError, subprocess.CalledProcessError) as e:
                print(f"{name:25}{batch:5}{threads:4}  {e}", flush=True)
                yield None


def write(path, rows, more):
    """Called after each network: an interrupted run leaves its rows."""
    with open(path + ".tmp", "w") as f:
        json.dump({"time": now(), "rows": rows, **more}, f, indent=1)
    os.replace(path + ".tmp", path)


def main():
    args = parse()
    os.makedirs(os.path.join(args.build, "bench"), exist_ok=True)
    path = os.path.join(args.build, "bench", datetime.datetime.now().strftime("%Y%m%d-%H%M%S") + ".json")
    begin = time.monotonic()
    print("median milliseconds of one run; 'of X': Pare's time divided by X's; avx2, bf16: divided by Pare's time; "
          "start: load, plan, first run")
    print(f"{'model':25}{'batch':>5}{'thr':>4}{'Pare':>10}{'ORT':>10}{'PyTorch':>10}{'of ORT':>7}{'of Torch':>9}"
          f"{'avx2':>6}{'bf16':>6}{'start':>8}{'of ORT':>7}{'MB':>6}{'of ORT':>7}{'differ':>10}{'other':>7}")
    found = []
    for name in args.models:
        found += rows_of(args, name)
        write(path, [row for row in found if row], {})
    rows = [row for row in found if row]
    print_means(rows)
    if not args.no_start_up:
        write(path, rows, {"commands_ms": commands(args)})
    print(f"\n{len(rows)} rows in {(time.monotonic() - begin) / 60:.1f} minutes, written to {os.path.relpath(path)}")
    wrong = [r["model"] for r in rows if is_wrong(r)]
    if wrong or len(rows) < len(found):
        print("outputs differ:", *wrong, "failed:", len(found) - len(rows), file=sys.stderr)
    return 1 if wrong or len(rows) < len(found) else 0


if __name__ == "__main__":
    sys.exit(main())
