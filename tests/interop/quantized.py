#!/usr/bin/python3
"""quantized.py - quantized models in Pare and in ONNX Runtime.

usage: quantized.py BUILD_FOLDER NAME

NAME is a model of tools/export_models.py.  Checked:
    integer weights only      Pare = ONNX Runtime to 1e-4 of the largest output
    int8, both formats        the outputs differ by at most one quantization step; or, where ONNX
                              Runtime itself differs more with and without its optimizations, Pare is
                              as near to the float64 outputs as ONNX Runtime
    int8, both formats        every integer of every layer equals the one computed in float64 from the
                              layer's integer inputs (float64_reference.py), except for values halfway
                              between two integers
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

import float64_reference
from interop import HERE, Check, files, only, sh
from pruned import true

ITEMS = 4
HALFWAY = 1e-3          # distance from a half, in steps, below which float32 may round either way


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
    """Is Pare as near to the float64 outputs as ONNX Runtime is?  Each program rounds a few values that
    are about halfway differently, and a deep network amplifies that.  True only if ONNX Runtime differs by
    more than a step from itself without optimizations, so that no result can be within one step of both;
    layer_by_layer() then checks Pare's integers.  Returns a text with distances in steps and the result,
    which compares root mean squares because these do not depend on a single output."""
    expected = float64_reference.run(path, dict(np.load(x)))
    theirs = [runtime(build, work, path, x, level) for level in ("all", "basic", "disabled")]
    off = [np.abs(y - expected) / step(path, expected) for y in [mine] + theirs]
    most = [float(d.max()) for d in off]
    rms = [float(np.sqrt((d ** 2).mean())) for d in off]
    distance = float(np.abs(theirs[0] - theirs[2]).max()) / step(path, expected)
    text = (f"Pare differs from float64 by {most[0]:.2g} steps (rms {rms[0]:.3f}), ONNX Runtime by "
            + ", ".join(f"{m:.2g} (rms {r:.3f})" for m, r in zip(most[1:], rms[1:]))
            + f"; ONNX Runtime differs from itself without optimizations by {distance:.2g}")
    return text, distance > 1.001 and rms[0] <= 1.1 * max(rms[1:])


def step(path, y):
    """The scale of the output; for a float output, 1/255 of its range."""
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
    """The number of nodes with integer inputs and outputs."""
    return sum(n.op_type.startswith("QLinear") or n.op_type == "QGemm"
               for n in onnx.load(path).graph.node)


def layer_by_layer(build, work, path, x):
    """The number of Pare's integers, of those that differ from float64, and their largest distance from a
    half."""
    tap, out = os.path.join(work, "tap.onnx"), os.path.join(work, "tap.npz")
    float64_reference.expose_quantized(path, tap)
    sh(os.path.join(build, "pare"), "run", tap, "--input", x, "--output", out)
    mine = np.load(out)
    count, different, farthest = 0, 0, 0.0

    def seen(name, y, distance):
        nonlocal count, different, farthest
        q = torch.from_numpy(mine[name])
        wrong = q != y
        count, different = count + q.numel(), different + int(wrong.sum())
        if wrong.any():
            farthest = max(farthest, float(distance[wrong].max()),
                           float((q[wrong].int() - y[wrong].int()).abs().max() > 1))
        return q

    float64_reference.run(path, dict(np.load(x)), seen)
    return count, different, farthest


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
                 f"{integers(path)} integer nodes; {100 * part:.1f} % of the size", part < 0.34)
            if not same:
                true(check, *as_near(build, work, path, x, a))
            count, different, farthest = layer_by_layer(build, work, path, x)
            true(check, f"{name}, {kind}: {different} of {count} integers differ from float64, "
                 f"all within {farthest:.1g} steps of a half", farthest < HALFWAY)
    finally:
        shutil.rmtree(work)
    return 1 if check.failed else 0


if __name__ == "__main__":
    sys.exit(main())
