#!/usr/bin/python3
"""nbits.py - measure MatMul with 4-bit and 8-bit weights in Pare and ONNX Runtime, alternately.

usage: nbits.py --build FOLDER [--size 2048] [--layers 6] [--batch "1 4 64"] [--threads 1] [--seconds 2]

The model is a sequence of MatMul with square weights, quantized by `pare quantize` to MatMulNBits with
groups of 64; both run the same files, ONNX Runtime in float32 too (no accuracy_level).  Times are
medians of interleaved turns (README.md); MB is the peak of the process.
"""
import argparse
import os
import statistics
import subprocess

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from run import Peer, difference, measure

KINDS = {"float32": None, "8 bits": 8, "4 bits": 4}
CONFIG = """[{"quant_types": ["weight"], "quant_bits": %d, "quant_dtype": "int", "group_size": 64,
              "quant_scheme": "per_channel_symmetric", "op_types": ["Linear"]}]"""


def make(folder, size, layers):
    """The files, by kind."""
    rng = np.random.default_rng(1)
    weights = [numpy_helper.from_array(
        rng.standard_normal((size, size), np.float32) / np.float32(size ** 0.5), f"w{i}")
        for i in range(layers)]
    nodes = [helper.make_node("MatMul", [f"x{i}", f"w{i}"], [f"x{i + 1}"], name=f"layer{i}")
             for i in range(layers)]
    io = [helper.make_tensor_value_info(n, TensorProto.FLOAT, ["N", size])
          for n in ("x0", f"x{layers}")]
    graph = helper.make_graph(nodes, "products", io[:1], io[1:], weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=7)
    paths = {kind: os.path.join(folder, f"products-{bits or 32}.onnx") for kind, bits in KINDS.items()}
    onnx.save(model, paths["float32"])
    return paths


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", required=True)
    parser.add_argument("--size", type=int, default=2048)
    parser.add_argument("--layers", type=int, default=6)
    parser.add_argument("--batch", default="1 4 64")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=2)
    args = parser.parse_args()
    folder = os.path.join(args.build, "bench")
    paths = make(folder, args.size, args.layers)
    for kind, bits in KINDS.items():
        if bits:
            subprocess.run([os.path.join(args.build, "pare"), "quantize", paths["float32"],
                            "--quantizer", "group", "--config", CONFIG % bits, "--format", "nbits",
                            "-q", "-o", paths[kind]], check=True)
    print("rows  weights   Pare ms      MB   ONNX Runtime ms      MB  ratio  differ   others' CPU")
    for batch in map(int, args.batch.split()):
        inputs = os.path.join(folder, "inputs.npz")
        np.savez(inputs, x0=np.random.default_rng(batch).standard_normal((batch, args.size), np.float32))
        for kind, path in paths.items():
            peers = []
            try:
                for peer in ("pare", "ort"):
                    peers.append(Peer(peer, args.build, path, inputs, args.threads,
                                      os.path.join(folder, peer + ".bin")))
                other = measure(peers, args.seconds)
                ms = [statistics.median(p.times) for p in peers]
                print(f"{batch:4}  {kind:8} {ms[0]:8.3f} {peers[0].peak_mb():7.0f}   {ms[1]:15.3f} "
                      f"{peers[1].peak_mb():7.0f}  {ms[1] / ms[0]:5.2f}  {difference(*peers):.0e}"
                      f"  {other:8.1f}", flush=True)
            finally:
                for p in peers:
                    p.close()
    for path in paths.values():
        os.remove(path)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
