#!/usr/bin/python3
"""functions.py - random models with local functions in Pare and in ONNX Runtime.

usage: functions.py BUILD_FOLDER [COUNT]

Functions call functions, refer to attributes of their call, have weights in Constant nodes and as inputs, omit
inputs, contain If bodies that capture their values, and are called inside of bodies; some import another opset
than the model.  For COUNT seeds: the model in Pare, what 'pare export --intake' and 'pare prune' write, and
an int8 and a w8 file are the same in Pare and in ONNX Runtime; half of the filters removed, the result equals the
masked model.
"""
import os
import subprocess
import sys
import tempfile

import numpy as np
import onnx
from onnx import TensorProto as T
from onnx import helper as h
from onnx import numpy_helper as nh

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "real_models"))
from real_models import Failed, Ort  # noqa: E402

D = "local"
C = 6  # channels


def ref(node, name, kind, of):
    """Attribute `name` of the node is attribute `of` of the call."""
    a = node.attribute.add()
    a.name, a.ref_attr_name, a.type = name, of, kind
    return node


def constant(name, v):
    return h.make_node("Constant", [], [name], value=nh.from_array(v, name + "_t"))


def info(name):
    return h.make_tensor_value_info(name, T.FLOAT, None)


def function(name, ins, outs, nodes, opset, attrs=()):
    return h.make_function(D, name, ins, outs, nodes, [h.make_opsetid("", opset), h.make_opsetid(D, 1)], list(attrs))


def functions(r, opset):
    """Act (attribute alpha), Conv (kernel attributes by reference, its weight an input), Block (calls both, an own
    weight), Choose (an If whose bodies call Act), Pass (nothing but Identity)."""
    def w(*shape):
        return (r.standard_normal(shape) / 4).astype("f")
    other = opset - 1 if r.random() < .3 else opset
    act = function("Act", ["x"], ["y"], [ref(h.make_node("LeakyRelu", ["x"], ["t"]), "alpha", onnx.AttributeProto.FLOAT, "a"),
                                         h.make_node("Sigmoid", ["x"], ["s"]),
                                         h.make_node("Mul", ["t", "s"], ["y"])], other, ["a"])
    conv = function("Conv3", ["x", "w", "b"], ["y"], [ref(h.make_node("Conv", ["x", "w", "b"], ["y"]), "pads",
                                                          onnx.AttributeProto.INTS, "pads")], opset, ["pads"])
    block = function("Block", ["x", "w"], ["y", "t"], [
        h.make_node("Conv3", ["x", "w"], ["t"], domain=D, name="first", pads=[1, 1, 1, 1]),
        ref(h.make_node("Act", ["t"], ["u"], domain=D), "a", onnx.AttributeProto.FLOAT, "slope"),
        constant("v", w(C, C, 1, 1)), constant("c", w(C)),
        h.make_node("Conv3", ["u", "v", "c"], ["y"], domain=D, name="second", pads=[0, 0, 0, 0])], opset, ["slope"])

    def branch(name, nodes):
        return h.make_graph(nodes, name, [], [info("out")])
    choose = function("Choose", ["x", "c"], ["y"], [
        h.make_node("Neg", ["x"], ["n"]),
        h.make_node("If", ["c"], ["y"],
                    then_branch=branch("a", [h.make_node("Act", ["n"], ["out"], domain=D, a=.3)]),
                    else_branch=branch("b", [h.make_node("Add", ["x", "n"], ["s"]), h.make_node("Sub", ["s", "x"], ["out"])]))],
        opset)
    same = function("Pass", ["x"], ["z"], [h.make_node("Identity", ["x"], ["z"])], opset)
    return [act, conv, block, choose, same]


def model(r, path):
    opset = int(r.choice([13, 15, 17]))
    nodes, x = [], "x"
    inits = [nh.from_array((r.standard_normal((C, C, 3, 3)) / 6).astype("f"), "w0"),
             nh.from_array((r.standard_normal((C, C, 3, 3)) / 6).astype("f"), "w1")]
    for i in range(int(r.integers(2, 6))):
        kind, y = int(r.integers(0, 6)), "v%d" % i
        name = "call%d" % i if r.random() < .6 else ""
        if kind < 2:
            nodes.append(h.make_node("Block", [x, "w%d" % kind], [y, "t%d" % i], domain=D,
                                     name=name, slope=float(r.random())))
        elif kind == 2:
            nodes.append(h.make_node("Choose", [x, "c"], [y], domain=D, name=name))
        elif kind == 3:
            nodes.append(h.make_node("Pass", [x], [y], domain=D, name=name))
        elif kind == 4:
            nodes.append(h.make_node("Conv3", [x, "w0"], [y], domain=D, name=name, pads=[1, 1, 1, 1]))
        else:
            def branch(tag, w):
                return h.make_graph([h.make_node("Block", [x, w], ["o", "p"], domain=D, slope=.1)], tag, [], [info("o")])
            nodes.append(h.make_node("If", ["c"], [y], name=name, then_branch=branch("t", "w0"), else_branch=branch("e", "w1")))
        x = y
    nodes.append(h.make_node("Conv3", [x, "w1"], ["z"], domain=D, name="last", pads=[1, 1, 1, 1]))
    nodes.append(h.make_node("Tanh", ["z"], ["y"]))
    ins = [h.make_tensor_value_info("x", T.FLOAT, ["N", C, 5, 5]), h.make_tensor_value_info("c", T.BOOL, [])]
    g = h.make_graph(nodes, "g", ins, [h.make_tensor_value_info("y", T.FLOAT, ["N", C, 5, 5])], inits)
    onnx.save(h.make_model(g, ir_version=8, functions=functions(r, opset),
                           opset_imports=[h.make_opsetid("", opset), h.make_opsetid(D, 1)]), path)
    return {"x": r.standard_normal((2, C, 5, 5)).astype("f"), "c": np.array(r.random() < .5)}


def main():
    build, count = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 20
    pare = os.path.join(build, "pare")
    bad = ran = 0

    def sh(*args):
        p = subprocess.run([pare, *args], capture_output=True, text=True)
        return p.returncode, p.stderr.strip()

    with tempfile.TemporaryDirectory() as tmp:
        jobs = []
        for seed in range(count):
            r = np.random.default_rng(seed)
            base = os.path.join(tmp, "f%d" % seed)
            np.savez(base + ".npz", **model(r, base + ".onnx"))
            half = ["--pruner", "l1", "--sparsity", "0.5", "--dependency-aware", "-q"]
            steps = {"plain": None,
                     "export": ["export", base + ".onnx", "--intake", "-o", base + ".export.onnx"],
                     "prune": ["prune", base + ".onnx", *half, "-o", base + ".prune.onnx"],
                     "speedup": ["prune", base + ".onnx", *half, "--speedup", "-o", base + ".speedup.onnx"],
                     "w8": ["quantize", base + ".onnx", "--preset", "int8-weights", "-q", "-o", base + ".w8.onnx"],
                     "raise": ["export", base + ".onnx", "--opset", "21", "-o", base + ".raise.onnx"]}
            for step, args in steps.items():
                ran += 1
                code, text = sh(*args) if args else (0, "")
                if code and not (step in ("prune", "speedup") and ("has no layer" in text or "no channel" in text)):
                    bad += 1
                    print(os.path.basename(base), step, text)
                elif not code:
                    jobs.append((base, step, base + (".onnx" if not args else ".%s.onnx" % step)))
        ort = Ort(build, tmp)
        for base, step, path in jobs:
            code, text = sh("run", path, "--input", base + ".npz", "-o", path + ".npy")
            try:
                want = ort.run(path, base + ".npz")["y"]
            except Failed as e:
                bad += 1
                print(os.path.basename(base), step, e)
                continue
            np.save(path + ".ort.npy", want)
            ok = not code and np.allclose(np.load(path + ".npy"), want, 1e-4, 1e-5)
            first = np.load(base + ".onnx.ort.npy")
            if step in ("export", "w8") and any(n.op_type == "Block" for n in onnx.load(path).graph.node):
                ok = False
            if step in ("export", "raise"):
                ok &= np.allclose(want, first, 1e-4, 1e-5)
            if step == "speedup":
                ok &= np.allclose(want, np.load(base + ".prune.onnx.ort.npy"), 1e-3, 1e-4)
            if not ok:
                bad += 1
                print(os.path.basename(base), step, text or "differs")
        ort.close()
    print("%d files, %d bad" % (ran, bad))
    sys.exit(bad != 0)


main()
