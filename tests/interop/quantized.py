#!/usr/bin/python3
"""quantized.py - quantized models in Pare and in ONNX Runtime.

usage: quantized.py BUILD_FOLDER NAME

NAME is a model of tools/export_models.py.  Checked:
    integer weights alone     Pare = ONNX Runtime to 1e-4 of the largest output
    int8, both formats        the outputs differ by no more than one step of the last layer, or, in
                              deep networks, by no more than rounding itself changes them: a sum that
                              is added up in another order rounds to a neighbour now and then, and
                              each such step moves numbers over the edge in all layers behind
    int8                      the file has a third of the size or less
"""
import os
import shutil
import sys
import tempfile

import numpy as np
import onnx
import onnx.numpy_helper

from interop import HERE, Check, files, only, sh
from pruned import true

ITEMS = 8


def outputs(build, work, path, x):
    pare, ort = os.path.join(work, "pare.npz"), os.path.join(work, "ort.npy")
    sh(os.path.join(build, "pare"), "run", path, "--input", x, "--output", pare)
    sh("node", os.path.join(HERE, "ort.mjs"), path, x, ort,
       NODE_PATH=os.path.join(build, "node", "node_modules"))
    return only(pare), only(ort)


def step(path):
    """The scale of the output; 0 when it is not rounded."""
    graph = onnx.load(path).graph
    scales = {t.name: t for t in graph.initializer}
    for node in graph.node:
        if node.op_type == "DequantizeLinear" and node.output[0] == graph.output[0].name:
            return float(onnx.numpy_helper.to_array(scales[node.input[1]]))
    return 0.0


def count(path, *types):
    return sum(n.op_type in types for n in onnx.load(path).graph.node)


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
        wanted = only(cases[0][1])
        for kind in ("qdq", "qoperator"):
            path = os.path.join(work, kind + ".onnx")
            sh(pare, "quantize", model, "--preset", "int8", "--data", data, "--valid", "none",
               "--batch", str(ITEMS), "--format", kind, "-q", "-o", path)
            a, b = outputs(build, work, path, x)
            apart, most = float(np.abs(a - b).max()), 1.001 * step(path)
            noise = float(np.abs(b - wanted).max())
            part = os.path.getsize(path) / os.path.getsize(model)
            true(check, f"{name}, {kind}: differ by {apart:.2g}, a step is {most:.2g}, rounding "
                 f"changes {noise:.2g} of {np.abs(wanted).max():.2g}; "
                 f"{count(path, 'QLinearConv', 'QLinearMatMul')} nodes of integers; "
                 f"{100 * part:.1f} % of the size", apart <= max(most, 1.5 * noise) and part < 0.34)
    finally:
        shutil.rmtree(work)
    return 1 if check.failed else 0


if __name__ == "__main__":
    sys.exit(main())
