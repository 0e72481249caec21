#!/usr/bin/python3
"""quantized.py - quantized models in Pare and in ONNX Runtime.

usage: quantized.py BUILD_FOLDER NAME

NAME is a model of tools/export_models.py.  Checked:
    integer weights alone     Pare = ONNX Runtime to 1e-4 of the largest output
    int8, both formats        the outputs differ by no more than one step of the output; or, where
                              ONNX Runtime itself is further from the float64 outputs than that, Pare
                              is as near to these as ONNX Runtime with or without its optimizations
    int8, both formats        every integer of every layer is what float64 makes of the integers
                              before it (exact.py), but for numbers halfway between two
    int8                      the file has a third of the size or less
"""
import os
import shutil
import sys
import tempfile

import numpy as np
import onnx
import onnx.numpy_helper
import torch

import exact
from interop import HERE, Check, files, only, sh
from pruned import true

ITEMS = 4
HALFWAY = 1e-3          # so near to a half, in steps, float32 may decide either way


def runtime(build, work, path, x, level="all"):
    ort = os.path.join(work, "ort.npy")
    sh("node", os.path.join(HERE, "ort.mjs"), path, x, ort, ORT_LEVEL=level,
       NODE_PATH=os.path.join(build, "node", "node_modules"))
    return only(ort)


def outputs(build, work, path, x):
    pare = os.path.join(work, "pare.npz")
    sh(os.path.join(build, "pare"), "run", path, "--input", x, "--output", pare)
    return only(pare), runtime(build, work, path, x)


def as_near(build, work, path, x, mine):
    """Is Pare as near to the file's float64 outputs as ONNX Runtime is?  Each program rounds a few
    numbers that are about halfway the other way, and a deep network makes more of it.  Yes only where
    ONNX Runtime is more than a step from itself without optimizations, so that no result can be within
    one of both; layer_by_layer() then says whether Pare's integers are right.  In steps: a sentence,
    and yes or no by the root of the mean square, which does not hang on one output."""
    right = exact.run(path, dict(np.load(x)))
    theirs = [runtime(build, work, path, x, level) for level in ("all", "basic", "disabled")]
    off = [np.abs(y - right) / step(path, right) for y in [mine] + theirs]
    most = [float(d.max()) for d in off]
    rms = [float(np.sqrt((d ** 2).mean())) for d in off]
    distance = float(np.abs(theirs[0] - theirs[2]).max()) / step(path, right)
    text = (f"from float64 Pare is {most[0]:.2g} steps off (rms {rms[0]:.3f}), ONNX Runtime "
            + ", ".join(f"{m:.2g} (rms {r:.3f})" for m, r in zip(most[1:], rms[1:]))
            + f" and {distance:.2g} from itself without optimizations")
    return text, distance > 1.001 and rms[0] <= 1.1 * max(rms[1:])


def step(path, y):
    """The scale of the output; a float output has none: 255 steps between its least and its largest."""
    graph = onnx.load(path).graph
    scales = {t.name: t for t in graph.initializer}
    made = {o: n for n in graph.node for o in n.output}
    node = made[graph.output[0].name]
    while node.op_type in ("Flatten", "Reshape"):
        node = made[node.input[0]]
    if node.op_type != "DequantizeLinear":
        return float(y.max() - y.min()) / 255
    return float(onnx.numpy_helper.to_array(scales[node.input[1]]))


def integers(path):
    """Nodes that take integers and give integers."""
    return sum(n.op_type.startswith("QLinear") or n.op_type == "QGemm"
               for n in onnx.load(path).graph.node)


def layer_by_layer(build, work, path, x):
    """How many integers Pare rounds, how many not as float64, and how far from a half at most."""
    tap, out = os.path.join(work, "tap.onnx"), os.path.join(work, "tap.npz")
    exact.tapped(path, tap)
    sh(os.path.join(build, "pare"), "run", tap, "--input", x, "--output", out)
    mine = np.load(out)
    count, other, far = 0, 0, 0.0

    def seen(name, y, distance):
        nonlocal count, other, far
        q = torch.from_numpy(mine[name])
        wrong = q != y
        count, other = count + q.numel(), other + int(wrong.sum())
        if wrong.any():
            far = max(far, float(distance[wrong].max()),
                      float((q[wrong].int() - y[wrong].int()).abs().max() > 1))
        return q

    exact.run(path, dict(np.load(x)), seen)
    return count, other, far


def int8(build, work, model, kind, data):
    path = os.path.join(work, kind + ".onnx")
    sh(os.path.join(build, "pare"), "quantize", model, "--preset", "int8", "--data", data, "--valid",
       "none", "--batch", str(ITEMS), "--format", kind, "-q", "-o", path)
    return path


def main():
    build, name = sys.argv[1:]
    model, cases = files(build, name)
    pare, check = os.path.join(build, "pare"), Check()
    work = tempfile.mkdtemp(prefix="quantized-", dir=build)
    try:
        x, data = cases[0][0], os.path.join(work, "data.npz")
        shape = np.load(x)["input"].shape[1:]
        rng = np.random.default_rng(1)
        items = np.concatenate([np.load(x)["input"],
                                rng.standard_normal((ITEMS - 1,) + shape, np.float32)])
        np.savez(data, x=items, y=np.zeros(ITEMS, np.int64))
        path = os.path.join(work, "weights.onnx")
        sh(pare, "quantize", model, "--preset", "int8-weights", "-q", "-o", path)
        check.same(f"{name}, integer weights: Pare = ONNX Runtime", *outputs(build, work, path, x),
                   1e-4)
        for kind in ("qdq", "qoperator"):
            path = int8(build, work, model, kind, data)
            a, b = outputs(build, work, path, x)
            distance = float(np.abs(a - b).max()) / step(path, b)
            part = os.path.getsize(path) / os.path.getsize(model)
            same = distance < 1.001
            true(check, f"{name}, {kind}: Pare = ONNX Runtime to {distance:.2g} steps; "
                 f"{integers(path)} nodes of integers; {100 * part:.1f} % of the size", part < 0.34)
            if not same:
                true(check, *as_near(build, work, path, x, a))
            count, other, far = layer_by_layer(build, work, path, x)
            true(check, f"{name}, {kind}: of {count} integers {other} are not those of float64, "
                 f"all within {far:.1g} steps of a half", far < HALFWAY)
    finally:
        shutil.rmtree(work)
    return 1 if check.failed else 0


if __name__ == "__main__":
    sys.exit(main())
