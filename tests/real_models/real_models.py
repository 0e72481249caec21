#!/usr/bin/python3
"""real_models.py - take models that others ship through every step, and compare with ONNX Runtime.

usage: real_models.py BUILD_FOLDER [--ci | NAME ...] [--bless] [--keep]

For each model of models.json, at each of its shapes:
    inspect       exit code 0
    run           Pare = ONNX Runtime
    export        the written file = the original in ONNX Runtime
    simplify      the file of export --simplify = the original in ONNX Runtime; the column is the number of nodes left
    prune         l1, half of the filters masked: Pare = ONNX Runtime on the written file
    speedup       the same masks removed: the smaller file = the masked file in ONNX Runtime
    speedup_dep   the same, with coupled layers masked together
    int8, int8_dynamic, w8, w4, fp16
                  Pare = ONNX Runtime on the written file; the column is the signal-to-noise ratio of the
                  outputs compared with the original's, in dB; for a model that rounds the length of its result, the
                  difference of lengths in percent
A step that a model cannot have ("skip") and a difference whose cause is known ("known") are named in models.json.  must_pass.txt lists the steps that must pass;
a step that fails although it is listed there is an error, and so is one that ends with exit code 0 but a wrong result.
"""
import argparse
import fnmatch
import json
import math
import os
import shutil
import subprocess
import sys
import tempfile
import zlib

import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "..", "tools"))
import fetch_models  # noqa: E402

PRUNE = ["--pruner", "l1", "--sparsity", "0.5"]
STEPS = ("inspect", "run", "export", "simplify", "prune", "speedup", "speedup_dep", "int8", "int8_dynamic", "w8", "w4", "fp16")
PRESETS = {"int8": "int8", "int8_dynamic": "int8-dynamic", "w8": "int8-weights", "w4": "w4", "fp16": "fp16"}
SIMPLE = 1e-5           # the same for simplified models, in which few sums change
SAME = 1e-3             # relative L2 distance of outputs that differ by the order of sums only
FLOAT_VALUES = ("w8", "w4", "fp16")  # files whose activations are floats
LENGTH = 0.15           # relative difference of lengths of results that a model rounds
ROUNDED = 0.05          # the same for quantized files, where a value may be rounded the other way
FEW = 0.01              # share of integers and booleans that may differ
SMALL = 1e-3            # an output with a smaller root mean square is compared with this instead
CHAOS = 2               # results may differ by this many times what two optimization levels of ONNX Runtime differ by
TIMEOUT = 600


class Failed(Exception):
    """A step failed; `wrong`: with exit code 0, the worst kind."""

    def __init__(self, text, wrong=False):
        super().__init__(text)
        self.wrong = wrong


class Ort:
    """A process that runs models in ONNX Runtime."""

    def __init__(self, build, work):
        env = dict(os.environ, NODE_PATH=os.path.join(build, "node", "node_modules"))
        self.folder = os.path.join(work, "ort")
        os.makedirs(self.folder, exist_ok=True)
        self.process = subprocess.Popen(["node", os.path.join(HERE, "ort_server.mjs")], env=env, text=True,
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def run(self, model, feed, level="all"):
        job = {"model": model, "input": feed, "output": self.folder, "level": level}
        self.process.stdin.write(json.dumps(job) + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        reply = json.loads(line) if line else {"error": "ONNX Runtime's process ended"}
        if "error" in reply:
            raise Failed("ONNX Runtime: " + reply["error"])
        return {n: np.load(os.path.join(self.folder, f"{i}.npy")) for i, n in enumerate(reply["names"])}

    def close(self):
        self.process.stdin.close()
        self.process.wait()


def distance(a, b):
    """Relative L2 distance of two results, the largest of all outputs; integers count by the share that differs."""
    worst = 0.0
    if a.keys() != b.keys():
        raise Failed(f"outputs {sorted(a)} instead of {sorted(b)}", True)
    for name, want in b.items():
        got = a[name]
        if got.shape != want.shape:
            raise Failed(f"'{name}' is {got.shape} instead of {want.shape}", True)
        if not want.size:
            continue
        if want.dtype.kind != "f":
            worst = max(worst, float(np.mean(got != want)) / FEW * SAME)
            continue
        got, want = got.astype(np.float64), want.astype(np.float64)
        if not np.array_equal(np.isfinite(got), np.isfinite(want)):
            return math.inf
        ok = np.isfinite(want)
        least = SMALL * math.sqrt(want.size)
        worst = max(worst, float(np.linalg.norm(got[ok] - want[ok]) / max(np.linalg.norm(want[ok]), least)))
    return worst


def same(what, a, b, tolerance):
    d = distance(a, b)
    if not d <= tolerance:
        raise Failed(f"{what}: differ by {d:.1e}", True)
    return d


def decibel(d):
    return math.inf if d == 0 else -20 * math.log10(d) if math.isfinite(d) else -math.inf


class Subject:
    """One model, its inputs and the files that the steps write."""

    def __init__(self, name, spec, path, build, work, ort):
        self.name, self.spec, self.path, self.ort = name, spec, path, ort
        self.pare, self.work = os.path.join(build, "pare"), os.path.join(work, name)
        os.makedirs(self.work, exist_ok=True)
        self.same = spec.get("tolerance", SAME)
        self.inputs = self.declared()
        self.n = max(len(v["shapes"]) for v in spec["inputs"].values())
        self.feeds = [self.make_feed(k) for k in range(self.n)]

    def declared(self):
        told = json.loads(self.sh("inspect", self.path, "--json"))
        found = {}
        for i in told["inputs"]:
            for pattern, value in self.spec["inputs"].items():
                if fnmatch.fnmatch(i["name"], pattern.replace("[", "[[]")) or i["name"] == pattern:
                    found[i["name"]] = value
        return found

    def array(self, value, k, rng):
        shape = value["shapes"][k % len(value["shapes"])]
        dtype = np.dtype(value.get("type", "float32"))
        kind = value.get("kind", "normal")
        if "each" in value:
            return np.broadcast_to(np.array(value["each"], dtype), shape).copy()
        if "value" in value:
            v = value["value"]
            return np.full(shape, v[k] if isinstance(v, list) else v, dtype)
        if kind == "ids":
            return rng.integers(0, value["below"], shape).astype(dtype)
        if kind == "positions":
            return np.broadcast_to(np.arange(shape[-1]) + value["start"][k], shape).astype(dtype).copy()
        if kind == "uniform":
            return rng.random(shape, np.float32).astype(dtype)
        return (rng.standard_normal(shape, np.float32) * value.get("scale", 1)).astype(dtype)

    def make_feed(self, k):
        rng = np.random.default_rng(zlib.crc32(self.name.encode()) + k)
        path = os.path.join(self.work, f"feed{k}.npz")
        np.savez(path, **{n: self.array(v, k, rng) for n, v in self.inputs.items()})
        return path

    def calibration(self):
        """Eight items of the first shape: stacked as rows, or as whole inputs where the batch is not first; an
        input without a batch has one value for all."""
        path = os.path.join(self.work, "calibration.npz")
        items = [{n: self.array(v, 0, np.random.default_rng(100 + i)) for n, v in self.inputs.items()} for i in range(8)]
        np.savez(path, **{n: self.stack(n, [i[n] for i in items]) for n in self.inputs})
        return path

    def stack(self, name, values):
        shape, other = self.inputs[name]["shapes"][0], self.inputs[name]["shapes"][-1]
        if not shape or ("value" in self.inputs[name] and shape[0] != 1):
            return values[0]
        return np.stack([v[0] for v in values] if shape[0] == 1 or shape[0] != other[0] else values)

    def sh(self, *args):
        done = subprocess.run([self.pare, *args], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                              timeout=TIMEOUT)
        if done.returncode:
            text = (done.stderr.strip().splitlines() or ["no message"])[-1].replace(self.work + "/", "")
            raise Failed(text if done.returncode > 0 else f"killed by signal {-done.returncode}", done.returncode < 0)
        return done.stdout

    def file(self, step):
        return os.path.join(self.work, step + ".onnx")

    def run_pare(self, model, feed):
        out = os.path.join(self.work, "pare.npz")
        self.sh("run", model, "--input", feed, "--output", out)
        with np.load(out) as z:
            return dict(z)

    def original(self, k):
        """The original's results, which ONNX Runtime computes once."""
        path = os.path.join(self.work, f"original{k}.npz")
        if not os.path.exists(path):
            np.savez(path, **self.ort.run(self.path, self.feeds[k]))
        with np.load(path) as z:
            return dict(z)

    def as_in_ort(self, model, k, tolerance):
        """Compare Pare with ONNX Runtime; returns the distance and ONNX Runtime's result.

        Where a value may be rounded up or down by the last bit (dynamic quantization), ONNX Runtime's own
        optimizations change the result, too: that much is not an error."""
        ours = self.run_pare(model, self.feeds[k])
        plain = self.ort.run(model, self.feeds[k], "disabled")
        try:
            return same(f"shape {k}", ours, plain, tolerance), plain
        except Failed:
            fast = self.ort.run(model, self.feeds[k])
            most = max(tolerance, CHAOS * distance(plain, fast))
            return same(f"shape {k}", ours, fast, most), fast

    # ---- the steps: each returns what the table shows ---------------------------------------------

    def inspect(self):
        self.sh("inspect", self.path)
        return "ok"

    def run(self):
        return f"{max(self.as_in_ort(self.path, k, self.same)[0] for k in range(self.n)):.0e}"

    def export(self):
        self.sh("export", self.path, "-o", self.file("export"))
        for k, f in enumerate(self.feeds):
            same(f"shape {k}", self.ort.run(self.file("export"), f), self.original(k), SAME)
        return "ok"

    def simplify(self):
        told = json.loads(self.sh("export", self.path, "--simplify", "--json", "-o", self.file("simplify")))["simplify"]
        for k, f in enumerate(self.feeds):
            want = self.original(k)
            try:
                same(f"shape {k}", self.ort.run(self.file("simplify"), f), want, SIMPLE)
            except Failed:
                plain = self.ort.run(self.path, f, "disabled")
                most = max(SIMPLE, CHAOS * distance(plain, want))
                same(f"shape {k}", self.ort.run(self.file("simplify"), f), want, most)
        return f"{told['nodes']}>{told['nodes_left']}"

    def prune(self):
        self.sh("prune", self.path, *PRUNE, "--quiet", "-o", self.file("prune"))
        for k in range(self.n):
            self.as_in_ort(self.file("prune"), k, self.same)
        return "ok"

    def smaller(self, step, option):
        masked, small = self.file(step + "_masked"), self.file(step)
        self.sh("prune", self.path, *PRUNE, option, "--quiet", "-o", masked)
        told = json.loads(self.sh("prune", self.path, *PRUNE, option, "--speedup", "--quiet", "--json", "-o", small))
        for k, f in enumerate(self.feeds):
            want = self.ort.run(masked, f)
            try:
                same(f"shape {k}", self.ort.run(small, f), want, self.same)
            except Failed:
                plain = self.ort.run(masked, f, "disabled")
                most = max(self.same, CHAOS * distance(plain, want))
                same(f"shape {k}", self.ort.run(small, f, "disabled"), plain, most)
        told = told.get("speedup", told)
        return f"{100 * told['parameters_left'] / told['parameters']:.0f} %"

    def speedup(self):
        return self.smaller("speedup", "--no-dependency-aware")

    def speedup_dep(self):
        return self.smaller("speedup_dep", "--dependency-aware")

    def lengths(self, path, float_values):
        """For a model that rounds the length of its result: the largest relative difference of lengths between
        Pare, ONNX Runtime and the original.  Results of the same length must be the same, except where activations
        are rounded, too: in VITS one element that Pare and ONNX Runtime round differently, at a difference of 5e-7,
        changes half of the elements two layers later."""
        worst = 0.0
        for k in range(self.n):
            ours, theirs = self.run_pare(path, self.feeds[k]), self.ort.run(path, self.feeds[k], "disabled")
            sizes = [{n: v.size for n, v in x.items()} for x in (ours, theirs, self.original(k))]
            for n, size in sizes[2].items():
                worst = max([worst] + [abs(x[n] - size) / size for x in sizes])
            if worst > LENGTH:
                raise Failed(f"shape {k}: lengths differ by {100 * worst:.0f} %", True)
            if float_values and sizes[0] == sizes[1]:
                same(f"shape {k}", ours, theirs, ROUNDED)
        return worst

    def quantized(self, step, *options):
        path = self.file(step)
        self.sh("quantize", self.path, "--preset", PRESETS[step], *options, "--quiet", "-o", path)
        if "rounds_length" in self.spec:
            size = os.path.getsize(path) / os.path.getsize(self.path)
            return f"len{100 * self.lengths(path, step in FLOAT_VALUES):.0f} {100 * size:.0f}%"
        noise = 0.0
        for k in range(self.n):
            theirs = self.as_in_ort(path, k, ROUNDED)[1]
            noise = max(noise, distance(theirs, self.original(k)))
        size = os.path.getsize(path) / os.path.getsize(self.path)
        return f"{min(decibel(noise), 199):.0f}dB {100 * size:.0f}%"

    def int8(self):
        return self.quantized("int8", "--data", self.calibration(), "--valid", "none", "--batch", "1")

    def int8_dynamic(self):
        return self.quantized("int8_dynamic")

    def w8(self):
        return self.quantized("w8")

    def w4(self):
        return self.quantized("w4")

    def fp16(self):
        return self.quantized("fp16")


def must_pass():
    with open(os.path.join(HERE, "must_pass.txt")) as f:
        return {tuple(line.split()) for line in f if line.strip() and not line.startswith("#")}


def skipped(spec, step):
    if step in spec.get("skip", {}):
        return spec["skip"][step]
    if spec.get("quantized") and step not in ("inspect", "run", "export", "simplify"):
        return "the weights are integers already"
    return None


def take(subject, step):
    """'ok', what the table shows, and the reason of a failure."""
    reason = skipped(subject.spec, step)
    if reason:
        return True, "-", None, reason
    try:
        return True, getattr(subject, step)(), False, None
    except Failed as e:
        known = subject.spec.get("known", {}).get(step)
        if known:
            return False, "known", False, f"{e} ({known})"
        return False, "WRONG" if e.wrong else "fails", e.wrong, str(e)
    except subprocess.TimeoutExpired:
        return False, "slow", False, f"took more than {TIMEOUT} s"


def parse():
    ap = argparse.ArgumentParser()
    ap.add_argument("build")
    ap.add_argument("names", nargs="*", default=[])
    ap.add_argument("--ci", action="store_true", help="the models that are marked for continuous integration")
    ap.add_argument("--bless", action="store_true", help="write what passes to must_pass.txt")
    ap.add_argument("--keep", action="store_true", help="keep the written files")
    ap.add_argument("--steps", default=",".join(STEPS))
    return ap.parse_args()


def main():
    args = parse()
    build = os.path.abspath(args.build)
    folder = os.path.join(build, "real_models")
    with open(os.path.join(HERE, "models.json")) as f:
        models = json.load(f)
    steps = args.steps.split(",")
    listed, passed, problems, taken = must_pass(), set(), [], set()
    work = tempfile.mkdtemp(prefix="real-", dir=build)
    os.makedirs(folder, exist_ok=True)
    print(f"{'model':21}" + "".join(f"{s:>12}" for s in steps))
    for name, spec in models.items():
        if (args.names and name not in args.names) or (args.ci and not spec.get("ci")):
            continue
        ort = Ort(build, work)
        print(f"{name:21}", end="", flush=True)
        notes = []
        try:
            subject = Subject(name, spec, fetch_models.fetch(name, spec, folder), build, work, ort)
        except Failed as e:
            print(f"  {e}")
            problems.append(f"{name}: {e}")
            continue
        taken.add(name)
        for step in steps:
            good, shown, wrong, reason = take(subject, step)
            print(f"{shown:>12}", end="", flush=True)
            if good and not reason:
                passed.add((name, step))
            if reason:
                notes.append(f"    {step}: {reason}")
            if wrong or ((name, step) in listed and not good):
                problems.append(f"{name} {step}: {reason}")
        print()
        print("".join(n + "\n" for n in notes), end="", flush=True)
        ort.close()
        if not args.keep:
            shutil.rmtree(subject.work)
    if args.bless:
        keep = {(n, s) for n, s in listed if s not in steps or n not in taken}
        with open(os.path.join(HERE, "must_pass.txt"), "w") as f:
            f.write("# Steps of real_models.py that must pass: model, step.\n")
            f.writelines(f"{n} {s}\n" for n, s in sorted(keep | passed))
    if not args.keep:
        shutil.rmtree(work)
    for p in problems:
        print("FAIL " + p)
    print(f"{len(passed)} passed, {len(problems)} failed")
    return bool(problems)


if __name__ == "__main__":
    sys.exit(main())
