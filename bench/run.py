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

HERE = os.path.dirname(os.path.abspath(__file__))
TOOLS = os.path.join(HERE, "..", "tools")
FLOATS = ("lenet resnet18 resnet50 vgg16_bn mobilenet_v2 mobilenet_v3_small efficientnet_b0 "
          "shufflenet_v2_x1_0 densenet121 squeezenet1_1 googlenet inception_v3 regnet_y_400mf "
          "convnext_tiny vit_b_16")
INT8 = "-int8"          # suffix of models quantized by `pare quantize --preset int8`
MODELS = " ".join([FLOATS] + [name + INT8 for name in FLOATS.split()])
DIRECT = ("resnet18", "resnet50", "vgg16_bn")   # int8 compared with float32 without Winograd's algorithm
SIDES = {"lenet": (1, 28), "inception_v3": (3, 299)}
PEERS = ("pare", "ort", "torch")
TITLES = {"pare": "Pare", "ort": "ONNX Runtime", "torch": "PyTorch"}
TURN_MS = 60            # a short run is repeated until a turn takes about this long
TICK = os.sysconf("SC_CLK_TCK")


def busy_seconds():
    """CPU time that everything on this machine has used."""
    with open("/proc/stat") as f:
        user, nice, system, _, _, irq, soft, steal = map(int, f.readline().split()[1:9])
    return (user + nice + system + irq + soft + steal) / TICK


class Peer:
    """A process that loads one model and, on request, runs it and prints the time."""

    def __init__(self, kind, build, model, shape, threads, source, target, choices=None):
        args = [model, ",".join(map(str, shape)), str(threads), source, target]
        args += [choices] if choices else []
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
        self.kind, self.target, self.times = kind, target, []
        self.process = subprocess.Popen(command + args, env=env, text=True, stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE)
        self.note = self.answer()
        self.stop()

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
    """Do float32 outputs differ?  make test-interop checks int8 networks, in which a single value that
    is rounded differently affects many others (docs/quantization.md)."""
    return (not row["model"].endswith(INT8) and
            max(row[k]["difference"] for k in PEERS if k in row) > 1e-4)


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


def shape_of(name, batch):
    channels, side = SIDES.get(name.removesuffix(INT8), (3, 224))
    return (batch, channels, side, side)


def export(args, name):
    """Export the model if necessary; an int8 model is quantized from the float model."""
    base = name.removesuffix(INT8)
    subprocess.run([sys.executable, os.path.join(TOOLS, "export_models.py"),
                    args.models_folder, "--one", base], check=True, stdout=subprocess.DEVNULL)
    path, data = (os.path.join(args.build, "bench", name + end) for end in (".onnx", ".npz"))
    if base == name or os.path.exists(path):
        return
    rng = np.random.default_rng(1)
    np.savez(data, x=rng.standard_normal(shape_of(name, 8), np.float32) * np.float32(0.3),
             y=np.zeros(8, np.int64))
    subprocess.run([os.path.join(args.build, "pare"), "quantize",
                    os.path.join(args.models_folder, base + ".onnx"), "--preset", "int8", "--data",
                    data, "--valid", "none", "--batch", "8", "-q", "-o", path], check=True)


def direct_peer(args, name, shape, threads, source):
    """Pare's float32 network with direct convolutions, selected by a file of choices."""
    folder = os.path.join(args.build, "bench")
    model = os.path.join(args.models_folder, name + ".onnx")
    choices = os.path.join(folder, "direct.txt")
    if os.path.exists(choices):
        os.remove(choices)
    subprocess.run([os.path.join(args.build, "pare"), "bench", model, "--batch", str(shape[0]),
                    "--threads", str(threads), "--repeat", "1", "--choices", choices], check=True,
                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    with open(choices) as f:
        lines = f.read().replace("conv_winograd\t", "conv_onednn\t")
    with open(choices, "w") as f:
        f.write(lines)
    return Peer("direct", args.build, model, shape, threads, source,
                os.path.join(folder, "direct.bin"), choices)


def cell(args, name, batch, threads):
    shape = shape_of(name, batch)
    folder = os.path.join(args.build, "bench")
    source = os.path.join(folder, "input.bin")
    rng = np.random.default_rng(batch)
    # The scale of the images with which the random networks were calibrated; far from it some networks
    # are chaotic, and any two correct programs differ.
    (rng.standard_normal(shape, np.float32) * np.float32(0.3)).tofile(source)
    integers = name.endswith(INT8)
    model = os.path.join(folder if integers else args.models_folder, name + ".onnx")
    peers = []
    try:
        for kind in args.peers:
            if integers and kind == "torch":
                continue
            peers.append(Peer(kind, args.build, model, shape, threads, source,
                              os.path.join(folder, kind + ".bin")))
        if integers and name.removesuffix(INT8) in DIRECT:
            peers.append(direct_peer(args, name.removesuffix(INT8), shape, threads, source))
        other = measure(peers, args.seconds)
        row = {"model": name, "batch": batch, "threads": threads, "other_cpu": round(other, 3)}
        for p in peers:
            row[p.kind] = {"ms": statistics.median(p.times), "min_ms": min(p.times),
                           "runs": len(p.times), "peak_mb": round(p.peak_mb(), 1), "note": p.note,
                           "difference": difference(peers[0], p)}
        if integers and "ort" in row:
            row["steps"] = steps(*peers[:2], output_scale(model))
        return row
    finally:
        for p in peers:
            p.close()


def ratio(row, kind):
    return row[kind]["ms"] / row["pare"]["ms"] if kind in row and "pare" in row else math.nan


def text(value, digits, width):
    return ("-" if math.isnan(value) else f"{value:.{digits}f}").rjust(width)


def print_row(row):
    print(f"{row['model']:20}{row['batch']:5}{row['threads']:4}", end="")
    for kind in PEERS:
        print(text(row[kind]["ms"] if kind in row else math.nan, 2, 10), end="")
    print(text(ratio(row, "ort"), 2, 10) + text(ratio(row, "torch"), 2, 11), end="  ")
    for kind in PEERS:
        print(text(row[kind]["peak_mb"] if kind in row else math.nan, 0, 6), end="")
    worst = max(row[kind]["difference"] for kind in PEERS if kind in row)
    print(f"{row['steps']:4.1f} steps" if "steps" in row else f"{worst:10.0e}", end="")
    print(f"{100 * row['other_cpu']:6.0f}%", flush=True)


def print_means(rows):
    print()
    for batch, threads in sorted({(r["batch"], r["threads"]) for r in rows}):
        group = [r for r in rows if (r["batch"], r["threads"]) == (batch, threads)
                 and not r["model"].endswith(INT8)]
        if not group:
            continue
        means = []
        for kind in ("ort", "torch"):
            values = [ratio(r, kind) for r in group if not math.isnan(ratio(r, kind))]
            means.append(statistics.geometric_mean(values) if values else math.nan)
        print(f"{'geometric mean of ' + str(len(group)):20}{batch:5}{threads:4}{'':30}"
              f"{text(means[0], 2, 10)}{text(means[1], 2, 11)}")


def print_int8(rows):
    """Pare's int8 time as a fraction of its float32 time and of ONNX Runtime's int8 time."""
    ms = {(r["model"], r["batch"], r["threads"]): r["pare"]["ms"] for r in rows if "pare" in r}
    ratios = {"float32": [], "direct": [], "ort": []}
    for r in rows:
        if r["model"].endswith(INT8) and "pare" in r:
            base = ms.get((r["model"].removesuffix(INT8), r["batch"], r["threads"]))
            ratios["float32"] += [r["pare"]["ms"] / base] if base else []
            for kind in ("direct", "ort"):
                ratios[kind] += [r["pare"]["ms"] / r[kind]["ms"]] if kind in r else []
    for what, title in (("float32", "Pare's float32"), ("direct", "Pare's direct float32"),
                        ("ort", "ONNX Runtime's int8")):
        if ratios[what]:
            print(f"int8 takes {statistics.geometric_mean(ratios[what]):.2f} of {title} time "
                  f"(geometric mean of {len(ratios[what])})")


def start_up(args):
    """Wall time of whole commands, and of `true` as the cost of starting any process."""
    pare = os.path.join(args.build, "pare")
    commands = {"true": ["true"], "pare --version": [pare, "--version"]}
    for name in ("resnet50", "vgg16_bn"):
        path = os.path.join(args.models_folder, name + ".onnx")
        if os.path.exists(path):
            size = os.path.getsize(path) / 1e6
            commands[f"pare inspect {name}.onnx ({size:.0f} MB)"] = [pare, "inspect", path]
    result = {}
    print()
    for title, command in commands.items():
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
    ap.add_argument("--models", type=words, default=words(MODELS), help="names, in one argument")
    ap.add_argument("--models-folder", help="folder to which they are exported (default: BUILD/models)")
    ap.add_argument("--batch", type=words, default=["1", "8"])
    ap.add_argument("--threads", type=words, default=["1", "2"])
    ap.add_argument("--seconds", type=float, default=3, help="for each peer in each row")
    ap.add_argument("--peers", type=words, default=list(PEERS), help="of: pare ort torch")
    ap.add_argument("--no-start-up", action="store_true")
    args = ap.parse_args()
    unknown = (set(args.models) - set(words(MODELS))) | (set(args.peers) - set(PEERS))
    if unknown:
        ap.error(f"unknown: {' '.join(sorted(unknown))}")
    args.build = os.path.abspath(args.build)
    args.models_folder = os.path.abspath(args.models_folder or os.path.join(args.build, "models"))
    return args


def main():
    args = parse()
    rows, failed = [], []
    os.makedirs(os.path.join(args.build, "bench"), exist_ok=True)
    print("median milliseconds of one run; ratios: the other's time divided by Pare's")
    print(f"{'model':20}{'batch':>5}{'thr':>4}{'Pare':>10}{'ORT':>10}{'PyTorch':>10}"
          f"{'ORT/Pare':>10}{'Torch/Pare':>11}  {'MB':>6}{'MB':>6}{'MB':>6}{'differ':>10}{'other':>7}")
    for name in args.models:
        export(args, name)
        for batch in map(int, args.batch):
            for threads in map(int, args.threads):
                try:
                    rows.append(cell(args, name, batch, threads))
                    print_row(rows[-1])
                except RuntimeError as e:
                    failed.append(name)
                    print(f"{name:20}{batch:5}{threads:4}  {e}", flush=True)
    print_means(rows)
    print_int8(rows)
    result = {"time": datetime.datetime.now().isoformat(timespec="seconds"), "rows": rows}
    if not args.no_start_up:
        result["start_up_ms"] = start_up(args)
    stamp = datetime.datetime.now().strftime("%Y%m%d-%H%M%S")
    path = os.path.join(args.build, "bench", stamp + ".json")
    with open(path, "w") as f:
        json.dump(result, f, indent=1)
    print(f"\nwritten to {os.path.relpath(path)}")
    wrong = [r["model"] for r in rows if is_wrong(r)]
    if wrong or failed:
        print("outputs differ:", *wrong, "failed:", *failed, file=sys.stderr)
    return 1 if wrong or failed else 0


if __name__ == "__main__":
    sys.exit(main())
