#!/usr/bin/python3
"""nbits.py - weights of 4 and 8 bits by group in Pare and in ONNX Runtime.

usage: nbits.py BUILD_FOLDER NAME

NAME is a model of tools/export_models.py; "lenet" brings an MLP of `pare new` along.  Checked, of 4 bits
(symmetric, affine, other groups) and 8, each as DequantizeLinear and as MatMulNBits:
    Pare = ONNX Runtime   to 2e-5 of the largest output
    the preset w4         the file has the size that 4 bits, scales, and 8 bits of convolutions have
"""
import os
import shutil
import sys
import tempfile

import numpy as np

from interop import Check, files, sh
from pruned import true
from quantized import outputs

AFFINE = """[{"quant_types": ["weight"], "quant_bits": 4, "quant_dtype": "uint", "group_size": 32,
    "quant_scheme": "per_channel_affine", "op_types": ["Linear"]}]"""
EIGHT = """[{"quant_types": ["weight"], "quant_bits": 8, "quant_dtype": "int", "group_size": 128,
    "quant_scheme": "per_channel_symmetric", "op_types": ["Linear"]}]"""
HOW = {
    "w4": ("--preset", "w4"),
    "w4, groups of 16": ("--preset", "w4", "--group-size", "16"),
    "w4, affine": ("--quantizer", "group", "--config", AFFINE),
    "8 bits": ("--quantizer", "group", "--config", EIGHT),
}


def size_limit(model):
    """Bytes of the preset's file: linear weights 4.5 bits, all else of the file as int8 or float."""
    import onnx
    graph = onnx.load(model).graph
    uses = {n.input[1]: n.op_type for n in graph.node if n.op_type in ("Conv", "Gemm", "MatMul")}
    total = os.path.getsize(model)
    for t in graph.initializer:
        n, kind = int(np.prod(t.dims)), uses.get(t.name)
        if kind == "Conv":
            total -= 3 * n
        elif kind and len(t.dims) == 2:
            total -= n * (4 - 4.6 / 8)
    return 1.05 * total + 50000


def check_model(check, build, work, name, model, x):
    pare = os.path.join(build, "pare")
    for how, options in HOW.items():
        for form in ("qdq", "nbits"):
            path = os.path.join(work, form + ".onnx")
            sh(pare, "quantize", model, *options, "--format", form, "-q", "-o", path)
            check.same(f"{name}, {how}, {form}: Pare = ONNX Runtime",
                       *outputs(build, work, path, x), 2e-5)
            if how == "w4":
                size, most = os.path.getsize(path), size_limit(model)
                true(check, f"{name}, {form}: {size} bytes, {size / os.path.getsize(model):.3f} of "
                     f"the float file", size <= most)


def main():
    build, name = sys.argv[1:]
    model, cases = files(build, name)
    check = Check()
    work = tempfile.mkdtemp(prefix="nbits-", dir=build)
    try:
        check_model(check, build, work, name, model, cases[0][0])
        if name == "lenet":
            mlp, x = os.path.join(work, "mlp.onnx"), os.path.join(work, "x.npz")
            sh(os.path.join(build, "pare"), "new", "mlp", "--input", "1,9,11", "-o", mlp)
            for n in (1, 30):
                np.savez(x, input=np.random.default_rng(n).standard_normal((n, 1, 9, 11), np.float32))
                check_model(check, build, work, f"mlp, {n} rows", mlp, x)
    finally:
        shutil.rmtree(work)
    return 1 if check.failed else 0


if __name__ == "__main__":
    sys.exit(main())
