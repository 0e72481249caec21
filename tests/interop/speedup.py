#!/usr/bin/env python3
"""speedup.py - compare models after speedup in Pare and ONNX Runtime.

usage: speedup.py BUILD_FOLDER NAME

NAME is a model of tools/export_models.py, with random biases and statistics; masked channels keep their
biases.  In ViT, attention heads with their biases and the hidden channels of each MLP are masked.  At
30, 50 and 80 % sparsity, by l1:
    the model gets smaller and passes ONNX's checker
    ONNX Runtime computes the same with the smaller model as with the masked one, to 1e-4
    Pare computes the same as ONNX Runtime
"""
import json
import os
import shutil
import subprocess
import sys
import tempfile

import numpy as np
import onnx

from interop import HERE, Check, files, only, sh


def ort(build, work, path, x):
    out = os.path.join(work, "ort.npy")
    sh("node", os.path.join(HERE, "ort.mjs"), path, x, out,
       NODE_PATH=os.path.join(build, "node", "node_modules"))
    return only(out)


def prune_options(name, sparsity, work):
    """Prune all layers, or the heads and hidden channels of a transformer."""
    if not name.startswith("vit"):
        return ["--sparsity", sparsity]
    path = os.path.join(work, "config.json")
    with open(path, "w") as f:
        json.dump([{"op_names": [r"re:.*self_attention"], "granularity": "head", "heads": 12,
                    "parts": 3, "sparsity": float(sparsity)},
                   {"op_names": [r"re:.*mlp\.0"], "sparsity": float(sparsity)}], f)
    return ["--config", path]


def keep_biases(path):
    masks = np.load(path)
    np.savez(path, **{k: v for k, v in masks.items() if not k.endswith(".bias")})


def main():
    build, name = sys.argv[1:]
    model, cases = files(build, name)
    pare, check = os.path.join(build, "pare"), Check()
    work = tempfile.mkdtemp(prefix="speedup-", dir=build)
    masked, small = os.path.join(work, "masked.onnx"), os.path.join(work, "small.onnx")
    masks, out = os.path.join(work, "masks.npz"), os.path.join(work, "pare.npz")
    try:
        for sparsity in ("0.3", "0.5", "0.8"):
            sh(pare, "prune", model, "--pruner", "l1", *prune_options(name, sparsity, work), "--quiet",
               "-o", masked, "--masks", masks)
            if not name.startswith("vit"):
                keep_biases(masks)
                sh(pare, "apply", model, "--masks", masks, "-o", masked)
            report = json.loads(subprocess.check_output(
                [pare, "speedup", model, "--masks", masks, "-o", small, "--no-bench", "--json"],
                stderr=subprocess.DEVNULL))
            onnx.checker.check_model(small)
            good = report["parameters_left"] < report["parameters"]
            print(f"{'ok  ' if good else 'FAIL'} {name}, {sparsity}: "
                  f"{100 * report['macs_left'] / report['macs']:.1f} % of the MACs are left, "
                  f"{100 * report['parameters_left'] / report['parameters']:.1f} % of the parameters",
                  flush=True)
            check.failed += not good
            for x in cases[0][0], cases[-1][0]:
                want, got = ort(build, work, masked, x), ort(build, work, small, x)
                check.same(f"{name}, {sparsity}: smaller = masked in ONNX Runtime", want, got,
                           1e-4)
                sh(pare, "run", small, "--input", x, "--output", out)
                check.same(f"{name}, {sparsity}: Pare = ONNX Runtime", only(out), got, 1e-4)
    finally:
        shutil.rmtree(work)
    return 1 if check.failed else 0


if __name__ == "__main__":
    sys.exit(main())
