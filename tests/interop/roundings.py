#!/usr/bin/python3
"""roundings.py - files of every rounding method in Pare and in ONNX Runtime.

usage: roundings.py BUILD_FOLDER

Each method of `pare list roundings` rounds the weights of a LeNet to 4 bits, symmetric (int4) and affine
(uint4) in groups of 16, written as DequantizeLinear and as MatMulNBits, and in 3 bits per channel with
quantized inputs (convolutions with int4 weights, too).  Then presets with scaled inputs (--smooth, --awq).
    Pare = ONNX Runtime   to 2e-5 of the largest output; with quantized inputs to 1e-3, since a value may be
                          rounded to the neighboring integer
"""
import os
import shutil
import sys
import tempfile

import numpy as np

from interop import Check, sh
from quantized import outputs

RULE = """[{"quant_types": ["weight"], "quant_bits": 4, "quant_dtype": "%s", "group_size": 16,
    "quant_scheme": "per_channel_%s", "op_types": ["Linear"]}]"""
HOW = {
    "symmetric": ("--quantizer", "group", "--config", RULE % ("int", "symmetric")),
    "affine": ("--quantizer", "group", "--config", RULE % ("uint", "affine")),
    "preset w3": ("--preset", "w3"),
}

SCALED = {
    "preset w4, awq": ("--preset", "w4", "--group-size", "16", "--awq"),
    "preset int8, smooth": ("--preset", "int8", "--smooth"),
}


def main():
    build = sys.argv[1]
    pare = os.path.join(build, "pare")
    check = Check()
    work = tempfile.mkdtemp(prefix="roundings-", dir=build)
    try:
        model, x = os.path.join(work, "model.onnx"), os.path.join(work, "x.npz")
        sh(pare, "new", "lenet", "--input", "1,8,8", "--seed", "1", "-o", model)
        np.savez(x, input=np.random.default_rng(1).random((3, 1, 8, 8), np.float32))
        methods = [line.split()[0] for line in sh(pare, "list", "roundings").splitlines()[1:]]
        for method in methods:
            for how, options in HOW.items():
                for form in ("qdq", "nbits")[:1 if how == "preset w3" else 2]:
                    path = os.path.join(work, form + ".onnx")
                    sh(pare, "quantize", model, *options, "--rounding", method, "--rounding-items", "64", "--data",
                       "digits", "--limit", "200", "--rounding-passes", "2", "--rounding-steps", "10", "--threads", "1", "--format", form,
                       "-q", "-o", path)
                    check.same(f"{method}, {how}, {form}: Pare = ONNX Runtime",
                               *outputs(build, work, path, x), 1e-3 if how == "preset w3" else 2e-5)
        for how, options in SCALED.items():
            path = os.path.join(work, "scaled.onnx")
            sh(pare, "quantize", model, *options, "--data", "digits", "--limit", "200", "--threads", "1", "-q", "-o", path)
            check.same(f"{how}: Pare = ONNX Runtime", *outputs(build, work, path, x), 1e-3 if "int8" in how else 2e-5)
    finally:
        shutil.rmtree(work)
    return 1 if check.failed else 0


if __name__ == "__main__":
    sys.exit(main())
