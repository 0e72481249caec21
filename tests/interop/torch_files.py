#!/usr/bin/python3
"""torch_files.py - round trip of tensor files between PyTorch and Pare.

usage: torch_files.py BUILD_FOLDER

Pare reads files of torch.save and writes .pth, .npz and .safetensors, then writes a .pth from each of
these.  torch.load, with and without weights_only, must give the tensors that were saved,
bit for bit.  Checked for the state of a resnet18, and for masks in NNI's shape.
"""
import collections
import os
import shutil
import subprocess
import sys
import tempfile

import numpy as np
import torch
import torchvision


def same(a, b):
    """Types, names, order, shapes and bits."""
    if isinstance(a, dict):
        return type(a) is type(b) and list(a) == list(b) and all(same(a[k], b[k]) for k in a)
    if a is None or b is None:
        return a is b
    return a.dtype == b.dtype and a.shape == b.shape and torch.equal(a, b) and b.is_contiguous()


def state():
    torch.manual_seed(0)
    tensors = torchvision.models.resnet18().state_dict()
    tensors["half"] = torch.randn(3, 5).half()
    tensors["bool"] = torch.randn(7) > 0
    tensors["scalar"] = torch.tensor(1 << 40)
    tensors["empty"] = torch.zeros(2, 0)
    tensors["transposed"] = torch.randn(4, 6).t()
    tensors["tied"] = tensors["fc.weight"]
    return collections.OrderedDict(tensors)


def masks():
    torch.manual_seed(0)
    out = {}
    for name, m in torchvision.models.resnet18().named_modules():
        if isinstance(m, (torch.nn.Conv2d, torch.nn.Linear)):
            keep = (torch.rand(len(m.weight)) > 0.5).float()
            out[name] = {"weight": keep.view(-1, *[1] * (m.weight.dim() - 1)).expand_as(m.weight),
                         "bias": keep if m.bias is not None else None}
    return out


def main():
    build = sys.argv[1]
    resave = os.path.join(build, "tests", "interop", "resave_tensors")
    work = tempfile.mkdtemp(prefix="torch-files-", dir=build)
    failed = 0

    def check(what, good):
        nonlocal failed
        print(f"{'ok  ' if good else 'FAIL'} {what}", flush=True)
        failed += not good

    def at(name):
        return os.path.join(work, name)

    try:
        for what, saved, more in (("state", state(), ()), ("masks", masks(), ("--masks",))):
            torch.save(saved, at("torch.pth"))
            for via in ("pth", "npz", "safetensors"):
                subprocess.run([resave, at("torch.pth"), at("pare." + via), *more], check=True)
                subprocess.run([resave, at("pare." + via), at("back.pth"), *more], check=True)
                for only in (False, True):
                    back = torch.load(at("back.pth"), weights_only=only)
                    check(f"{what} by .{via}, weights_only={only}", same(saved, back))
            arrays = np.load(at("pare.npz"))
            if what == "state":
                check("numpy.load of the state", arrays.files == list(saved) and all(
                    np.array_equal(arrays[k], saved[k].numpy()) for k in saved))
            else:
                check("numpy.load of the masks", arrays.files == [
                    f"{k}.{p}" for k in saved for p in saved[k] if saved[k][p] is not None])
    finally:
        shutil.rmtree(work)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
