#!/usr/bin/python3
"""nbits.py - weights of 4 and 8 bits with a scale per group, in Pare and in ONNX Runtime.

usage: nbits.py BUILD_FOLDER NAME

NAME is a model of tools/export_models.py; "lenet" also checks an MLP of `pare new`.  For 4 bits (symmetric,
affine, another group size) and 8 bits, each as DequantizeLinear and as MatMulNBits:
    Pare = ONNX Runtime   to 2e-5 of the largest output
    preset w4             the file is as small as 4-bit linear weights, scales and int8 filters allow
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
    """Largest size of a w4 file in bytes: 4.5 bits per linear weight, 8 per filter weight, 32 otherwise."""
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
