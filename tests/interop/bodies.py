#!/usr/bin/python3
"""bodies.py - random Loop, Scan, If, NonMaxSuppression and sequence models in Pare and in ONNX Runtime.

usage: bodies.py BUILD_FOLDER [COUNT]

For COUNT seeds of each kind, opsets 11 to 21, the outputs must be the same.  Loops end by their trip count
or by their condition, some after 0 iterations; states grow, keep their size, or are sequences; scans run
forward and backward along any axis; boxes are corners or centers, some with equal scores.
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

F, I, B = T.FLOAT, T.INT64, T.BOOL


def const(name, v):
    return nh.from_array(np.asarray(v), name)


def info(name, kind=F, shape=None):
    return h.make_tensor_value_info(name, kind, shape)


def save(path, nodes, x, out, inits, opset, kind=F):
    ins = [info(k, onnx.mapping.NP_TYPE_TO_TENSOR_TYPE[v.dtype], v.shape) for k, v in x.items()]
    g = h.make_graph(nodes, "g", ins, [info(out, kind)], inits)
    onnx.save(h.make_model(g, ir_version=8, opset_imports=[h.make_opsetid("", opset)]), path)


def loop(r, path, opset):
    """State s (growing or of fixed size), optional state q (a sequence), and one stacked output."""
    grows, stops, seq = r.random() < .4, r.random() < .5, opset > 12 and r.random() < .4
    n = int(r.integers(0, 7))
    nodes = [h.make_node("Cast", ["i"], ["f"], to=F),
             h.make_node("Add", ["s", "f"], ["a"]),
             h.make_node("Mul", ["a", "w"], ["b"]),
             h.make_node("ReduceSum", ["b"], ["z"], keepdims=0),
             h.make_node("Less", ["z", "limit"], ["small"]),
             h.make_node("And", ["small", "go"] if stops else ["go", "go"], ["more"]),
             h.make_node("Concat", ["b", "x"], ["t"], axis=0) if grows else
             h.make_node("Identity", ["b"], ["t"])]
    ins = [info("i", I, []), info("go", B, []), info("s")]
    outs = [info("more", B, []), info("t")]
    if seq:
        nodes += [h.make_node("SequenceInsert", ["q", "b"], ["p"])]
        ins.append(h.make_tensor_sequence_value_info("q", F, None))
        outs.append(h.make_tensor_sequence_value_info("p", F, None))
    body = h.make_graph(nodes, "body", ins, outs + [info("z", F, [])],
                        [const("w", np.float32(r.random() + .5))])
    first = ["s0"] + (["q0"] if seq else [])
    main = [h.make_node("SequenceConstruct", ["s0"], ["q0"])] if seq else []
    main += [h.make_node("Loop", ["n", ""] + first, ["s1"] + (["q1"] if seq else []) + ["z1"],
                         body=body)]
    parts = ["flat", "z1"]
    main += [h.make_node("Reshape", ["s1", "all"], ["flat"])]
    if seq:
        main += [h.make_node("ConcatFromSequence", ["q1"], ["c"], axis=0),
                 h.make_node("Reshape", ["c", "all"], ["cf"])]
        parts.append("cf")
    main += [h.make_node("Concat", parts, ["y"], axis=0)]
    x = {"x": r.standard_normal((2, 3)).astype("f"), "s0": r.standard_normal((2, 3)).astype("f")}
    save(path, main, x, "y", [const("n", np.int64(n)), const("all", np.int64([-1])),
                              const("limit", np.float32(8))], opset)
    return x


def scan(r, path, opset):
    """A running sum along an axis, forward or backward, and a product of it as a stacked output."""
    rank, axis = 3, int(r.integers(0, 3))
    dims = r.integers(1, 5, rank)
    item = [int(d) for k, d in enumerate(dims) if k != axis]
    body = h.make_graph([h.make_node("Add", ["s", "e"], ["t"]), h.make_node("Mul", ["t", "u"], ["z"])],
                        "body", [info("s", F, item), info("e", F, item)],
                        [info("t", F, item), info("z", F, item)])
    out_axis = int(r.integers(-rank, rank)) if opset > 10 else int(r.integers(0, rank))
    main = [h.make_node("Scan", ["s0", "x"], ["s1", "z1"], body=body, num_scan_inputs=1,
                        scan_input_axes=[axis], scan_input_directions=[int(r.integers(0, 2))],
                        scan_output_axes=[out_axis], scan_output_directions=[int(r.integers(0, 2))]),
            h.make_node("ReduceMax", ["s1"], ["m"], keepdims=0), h.make_node("Add", ["z1", "m"], ["y"])]
    x = {"x": r.standard_normal(dims).astype("f"), "s0": r.standard_normal(item).astype("f"),
         "u": r.standard_normal(item).astype("f")}
    save(path, main, x, "y", [], opset)
    return x


def if_(r, path, opset):
    """Branches with outputs of different or equal shapes, a nested If, captured values."""
    def branch(name, nodes, inits=()):
        return h.make_graph(nodes, name, [], [info(name)], list(inits))
    inner = h.make_node("If", ["d"], ["v"], then_branch=branch("p", [h.make_node("Neg", ["x"], ["p"])]),
                        else_branch=branch("o", [h.make_node("Add", ["x", "k"], ["o"])],
                                           [const("k", np.float32([1, 2, 3]))]))
    then = branch("a", [inner, h.make_node("Relu", ["v"], ["a"])])
    other = branch("b", [h.make_node("Concat", ["x", "x"], ["b"], axis=0) if r.random() < .5 else
                         h.make_node("Sigmoid", ["x"], ["b"])])
    x = {"x": r.standard_normal((2, 3)).astype("f"), "c": np.array(r.random() < .5),
         "d": np.array(r.random() < .5)}
    fixed = r.random() < .3
    inits = [const("c1", x["c"])] if fixed else []
    save(path, [h.make_node("If", ["c1" if fixed else "c"], ["e"], then_branch=then, else_branch=other),
                h.make_node("Mul", ["e", "e"], ["y"])], x, "y", inits, opset)
    return x


def nms(r, path, opset):
    batch, classes, n = (int(v) for v in r.integers(1, 4, 3) * [1, 1, 12])
    boxes = r.random((batch, n, 4)).astype("f")
    x = {"boxes": boxes, "scores": (r.integers(0, 20, (batch, classes, n)) / 20).astype("f")}
    inits = [const("most", np.int64([r.integers(0, 9)])), const("iou", np.float32([r.random()])),
             const("least", np.float32([r.random() * .6]))]
    ins = ["boxes", "scores", "most", "iou"] + (["least"] if r.random() < .7 else [])
    save(path, [h.make_node("NonMaxSuppression", ins, ["y"], center_point_box=int(r.integers(0, 2)))],
         x, "y", inits, opset, I)
    return x


def main():
    build, count = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 25
    here = os.path.dirname(os.path.abspath(__file__))
    bad = ran = 0
    with tempfile.TemporaryDirectory() as tmp:
        jobs = []
        for make in (loop, scan, if_, nms):
            for seed in range(count):
                r = np.random.default_rng(seed)
                opset = int(r.choice([11, 13, 16, 17] if make is loop else [11, 13, 17, 21]))
                base = os.path.join(tmp, "%s%d" % (make.__name__, seed))
                x = make(r, base + ".onnx", opset)
                np.savez(base + ".npz", **x)
                jobs.append(base)
        args = [a for b in jobs for a in (b + ".onnx", b + ".npz", b + ".ort.npy")]
        subprocess.run(["node", os.path.join(here, "ort.mjs")] + args, check=True,
                       env=dict(os.environ, NODE_PATH=os.path.join(build, "node/node_modules")))
        for b in jobs:
            for how in ([], ["--reference"]):
                p = subprocess.run([os.path.join(build, "pare"), "run", b + ".onnx", "--input", b + ".npz",
                                    "-o", b + ".npy"] + how, capture_output=True, text=True)
                want = np.load(b + ".ort.npy")
                got = np.load(b + ".npy") if not p.returncode else None
                ran += 1
                if got is None or got.shape != want.shape or not np.allclose(got, want, 1e-5, 1e-5):
                    bad += 1
                    print(os.path.basename(b), *how, p.stderr.strip() or "differs", got, want)
    print("%d runs, %d differ" % (ran, bad))
    sys.exit(bad != 0)


main()
