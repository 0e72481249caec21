#!/usr/bin/env python3
"""speedup.py - models without their masked channels, in Pare and ONNX Runtime.

usage: speedup.py BUILD_FOLDER NAME

NAME is a model of tools/export_models.py.  At 30, 50 and 80 % of the channels, by l1:
    the model gets smaller, and passes ONNX's checker
    ONNX Runtime            gives the same with the smaller as with the masked model, to 1e-4
    Pare                    gives the same as ONNX Runtime
"""
import json
import os
import shutil
import subprocess
import sys
import tempfile

import onnx

from interop import HERE, Check, files, only, sh


def ort(build, work, path, x):
    out = os.path.join(work, "ort.npy")
    sh("node", os.path.join(HERE, "ort.mjs"), path, x, out,
       NODE_PATH=os.path.join(build, "node", "node_modules"))
    return only(out)


def main():
    build, name = sys.argv[1:]
    model, cases = files(build, name)
    pare, check = os.path.join(build, "pare"), Check()
    work = tempfile.mkdtemp(prefix="speedup-", dir=build)
    masked, small = os.path.join(work, "masked.onnx"), os.path.join(work, "small.onnx")
    out = os.path.join(work, "pare.npz")
    try:
        for sparsity in ("0.3", "0.5", "0.8"):
            sh(pare, "prune", model, "--pruner", "l1", "--sparsity", sparsity, "-o", masked,
               "--quiet")
            told = json.loads(subprocess.check_output(
                [pare, "speedup", masked, "-o", small, "--no-bench", "--json"],
                stderr=subprocess.DEVNULL))
            onnx.checker.check_model(small)
            left = told["macs_left"] / told["macs"]
            good = told["parameters_left"] < told["parameters"]
            print(f"{'ok  ' if good else 'FAIL'} {name}, {sparsity}: {100 * left:.1f} % of the MACs "
                  f"are left", flush=True)
            check.failed += not good
            for x in cases[0][0], cases[-1][0]:
                want, is_now = ort(build, work, masked, x), ort(build, work, small, x)
                check.same(f"{name}, {sparsity}: smaller = masked in ONNX Runtime", want, is_now,
                           1e-4)
                sh(pare, "run", small, "--input", x, "--output", out)
                check.same(f"{name}, {sparsity}: Pare = ONNX Runtime", only(out), is_now, 1e-4)
    finally:
        shutil.rmtree(work)
    return 1 if check.failed else 0


if __name__ == "__main__":
    sys.exit(main())
