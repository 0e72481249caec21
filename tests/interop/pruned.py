#!/usr/bin/python3
"""pruned.py - pruned models and masks in Pare, PyTorch and ONNX Runtime.

usage: pruned.py BUILD_FOLDER NAME

NAME is a model of tools/export_models.py.  Checked:
    the masked .onnx has the same outputs in ONNX Runtime and Pare, to 1e-4
    torch.load reads the files of --masks and --model-out; state = original weights * masks, bit by bit
    `pare apply` applies masks written by torch.save, and the .onnx has these zeros
"""
import os
import shutil
import sys
import tempfile

import numpy as np
import onnx
import onnx.numpy_helper
import torch

from interop import HERE, Check, files, only, sh


def weights(path):
    return {t.name: onnx.numpy_helper.to_array(t) for t in onnx.load(path).graph.initializer}


def same_outputs(check, build, work, name, kind, path, x):
    out, ort = os.path.join(work, "pare.npz"), os.path.join(work, "ort.npy")
    sh(os.path.join(build, "pare"), "run", path, "--input", x, "--output", out)
    sh("node", os.path.join(HERE, "ort.mjs"), path, x, ort,
       NODE_PATH=os.path.join(build, "node", "node_modules"))
    check.same(f"{name}, {kind}: Pare = ONNX Runtime", only(out), only(ort), 1e-4)


def true(check, what, good):
    print(f"{'ok  ' if good else 'FAIL'} {what}", flush=True)
    check.failed += not good


def main():
    build, name = sys.argv[1:]
    model, cases = files(build, name)
    pare, check = os.path.join(build, "pare"), Check()
    work = tempfile.mkdtemp(prefix="pruned-", dir=build)
    try:
        for pruner in ("level", "l1"):
            path, masks, state = (os.path.join(work, f"{pruner}.{end}")
                                  for end in ("onnx", "masks.pth", "state.pth"))
            sh(pare, "prune", model, "--pruner", pruner, "--sparsity", "0.4", "-o", path,
               "--masks", masks, "--model-out", state)
            same_outputs(check, build, work, name, pruner, path, cases[0][0])
            before, masks, state = weights(model), torch.load(masks), torch.load(state)
            good = True
            for layer, m in masks.items():
                key = layer + ".weight"
                if key in before:
                    w = torch.from_numpy(before[key].copy())
                    good &= torch.equal(torch.where(m["weight"] > 0, w, torch.zeros(())),
                                        state[key])
            true(check, f"{name}, {pruner}: state = weights * masks in {len(masks)} layers", good)
        random_masks = {layer: {"weight": (torch.rand_like(m["weight"]) > 0.3).float(), "bias": None}
                 for layer, m in list(masks.items())[:3]}
        torch.save(random_masks, os.path.join(work, "torch.pth"))
        path = os.path.join(work, "applied.onnx")
        sh(pare, "apply", model, "--masks", os.path.join(work, "torch.pth"), "-o", path)
        after = weights(path)
        for layer, m in random_masks.items():
            key = layer + ".weight"
            if key in before:
                true(check, f"{name}: masks of torch.save in {layer}",
                     np.array_equal(before[key] * m["weight"].numpy(), after[key]))
        same_outputs(check, build, work, name, "applied", path, cases[0][0])
    finally:
        shutil.rmtree(work)
    return 1 if check.failed else 0


if __name__ == "__main__":
    sys.exit(main())
