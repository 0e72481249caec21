#!/usr/bin/python3
"""body_weights.py - weights in bodies of If that Cast, Reshape and Transpose nodes change; quantized values in bodies.

usage: body_weights.py BUILD_FOLDER

A weight in a Constant node with a Cast, an initializer of the body with a Reshape, and a weight of the main
graph with a Transpose in both bodies are layers that are pruned and quantized; what is written is the same in Pare
and in ONNX Runtime, for both bodies.  The same for a value that is quantized in the main graph and captured by bodies.
"""
import json
import os
import subprocess
import sys
import tempfile

import numpy as np
import onnx
from onnx import TensorProto as T
from onnx import helper as h
from onnx import numpy_helper as nh

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "real_models"))
from real_models import Ort  # noqa: E402


def info(name, kind=T.FLOAT, shape=None):
    return h.make_tensor_value_info(name, kind, shape)


def body(name, first, inits=()):
    """`first` makes the filter a1 of a convolution; then a linear layer with the transposed weight w3."""
    nodes = first + [h.make_node("Conv", ["x", "a1"], ["y1"], pads=[1, 1, 1, 1]),
                     h.make_node("Relu" if name == "then" else "Tanh", ["y1"], ["r1"]),
                     h.make_node("GlobalAveragePool", ["r1"], ["g1"]), h.make_node("Flatten", ["g1"], ["f1"]),
                     h.make_node("Transpose", ["w3"], ["t1"], perm=[1, 0]), h.make_node("MatMul", ["f1", "t1"], ["o"])]
    return h.make_graph(nodes, name, [], [info("o")], list(inits))


def model(r, path):
    w = [(r.standard_normal(s) / 4).astype("f") for s in ((8, 4, 3, 3), (8, 4, 9), (8, 8))]
    then = body("then", [h.make_node("Constant", [], ["a0"], value=nh.from_array(w[0].astype("float16"), "t")),
                         h.make_node("Cast", ["a0"], ["a1"], to=T.FLOAT)])
    other = body("else", [h.make_node("Reshape", ["b0", "shape"], ["a1"])],
                 [nh.from_array(w[1], "b0"), nh.from_array(np.int64([8, 4, 3, 3]), "shape")])
    g = h.make_graph([h.make_node("If", ["c"], ["y"], then_branch=then, else_branch=other, name="pick")], "g",
                     [info("x", T.FLOAT, ["N", 4, 6, 6]), info("c", T.BOOL, [])], [info("y")], [nh.from_array(w[2], "w3")])
    onnx.save(h.make_model(g, ir_version=8, opset_imports=[h.make_opsetid("", 13)]), path)


def captured(r, path):
    """The result of a layer is read by a layer of the main graph and in both bodies."""
    w = [(r.standard_normal((4, 4, 3, 3)) / 4).astype("f") for _ in range(2)]
    then = h.make_graph([h.make_node("Neg", ["h"], ["o"])], "then", [], [info("o")])
    other = h.make_graph([h.make_node("Add", ["h", "h"], ["o"])], "else", [], [info("o")])
    g = h.make_graph([h.make_node("Conv", ["x", "w0"], ["h0"], pads=[1, 1, 1, 1]), h.make_node("Relu", ["h0"], ["h"]),
                      h.make_node("If", ["c"], ["z"], then_branch=then, else_branch=other, name="pick"),
                      h.make_node("Conv", ["h", "w1"], ["v"], pads=[1, 1, 1, 1]), h.make_node("Add", ["z", "v"], ["y"])], "g",
                     [info("x", T.FLOAT, ["N", 4, 6, 6]), info("c", T.BOOL, [])], [info("y")],
                     [nh.from_array(v, "w%d" % i) for i, v in enumerate(w)])
    onnx.save(h.make_model(g, ir_version=8, opset_imports=[h.make_opsetid("", 13)]), path)


def main():
    build = sys.argv[1]
    r = np.random.default_rng(1)
    bad = 0

    def pare(*args):
        return subprocess.run([os.path.join(build, "pare"), *args], check=True, capture_output=True, text=True).stdout

    def check(ok, what):
        nonlocal bad
        bad += not ok
        if not ok:
            print("FAIL", what)

    with tempfile.TemporaryDirectory() as tmp:
        path, feed = os.path.join(tmp, "m.onnx"), os.path.join(tmp, "x.npz")
        model(r, path)
        layers = [(l["name"].split("/")[1], l["type"]) for l in json.loads(pare("inspect", path, "--json"))["layers"]]
        check(sorted(layers) == [("else", "Conv"), ("else", "MatMul"), ("then", "Conv"), ("then", "MatMul")], layers)
        steps = {"export": ["export", "--intake"], "prune": ["prune", "--pruner", "level", "--sparsity", "0.5"],
                 "w8": ["quantize", "--preset", "int8-weights"],
                 "dynamic": ["quantize", "--preset", "int8-dynamic"]}
        for step, args in steps.items():
            pare(*args, "-q", path, "-o", os.path.join(tmp, step + ".onnx"))
        kinds = {i.data_type for i in onnx.load(os.path.join(tmp, "w8.onnx")).graph.initializer if len(i.dims) > 1}
        check(kinds == {T.INT8}, kinds)
        ort = Ort(build, tmp)
        for condition in (True, False):
            np.savez(feed, x=r.standard_normal((2, 4, 6, 6)).astype("f"), c=np.array(condition))
            first = ort.run(path, feed)["y"]
            for step in ("m", *steps):
                out = os.path.join(tmp, "y.npy")
                want = ort.run(os.path.join(tmp, step + ".onnx"), feed)["y"]
                pare("run", os.path.join(tmp, step + ".onnx"), "--input", feed, "-o", out)
                check(np.allclose(np.load(out), want, 1e-5, 1e-6), (step, condition))
                limit = {"m": 1e-6, "export": 1e-6, "w8": .02, "dynamic": .05}.get(step, 10)
                check(abs(want - first).max() < limit, (step, condition, "differs from the original"))
        data, path = os.path.join(tmp, "data.npz"), os.path.join(tmp, "captured.onnx")
        captured(r, path)
        np.savez(data, x=r.standard_normal((8, 4, 6, 6)).astype("f"), c=np.array(True))
        pare("quantize", path, "--preset", "int8", "--data", data, "--valid", "none", "-q", "-o", path + ".q.onnx")
        for condition in (True, False):
            np.savez(feed, x=r.standard_normal((2, 4, 6, 6)).astype("f"), c=np.array(condition))
            first, want = ort.run(path, feed)["y"], ort.run(path + ".q.onnx", feed)["y"]
            pare("run", path + ".q.onnx", "--input", feed, "-o", out)
            check(np.allclose(np.load(out), want, 1e-4, .1), ("captured", condition))
            check(np.linalg.norm(want - first) < .03 * np.linalg.norm(first), ("captured differs", condition))
        ort.close()
    print("%d wrong" % bad)
    sys.exit(bad != 0)


main()
