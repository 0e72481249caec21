#!/usr/bin/python3
"""golden_pth.py - write .pth files with torch.save, and their expected contents.

Writes tests/golden/*.pth, and tests/golden/pth.npz with the tensors of each, as
<file>/<name> (bfloat16 as the float32 of the same values).  tests/unit/test_pth.c compares.  One of
the files is also written to tests/models.
"""
import collections
import os

import numpy as np
import torch

HERE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tests", "golden")


def state():
    """One tensor of each type, a number, None, and the state dict of a module."""
    torch.manual_seed(0)
    module = torch.nn.Sequential(torch.nn.Conv2d(1, 2, 3), torch.nn.BatchNorm2d(2))
    tensors = module.state_dict()
    for name in "half double bfloat16 int64 int32 int16 int8 uint8".split():
        tensors[f"type.{name}"] = torch.arange(6).reshape(2, 3).to(getattr(torch, name))
    tensors["type.bool"] = torch.tensor([True, False, True])
    tensors["scalar"] = torch.tensor(2.5)
    tensors["empty"] = torch.zeros(0, 3)
    return tensors


def views():
    """Storages that are shared, transposed, sliced, expanded, and larger than their tensors."""
    base = torch.arange(24.0)
    image = torch.arange(60.0).reshape(1, 3, 4, 5)
    return {
        "base": base,
        "same": base.view(4, 6),
        "tail": base[20:],
        "every_third": base[1::3],
        "transposed": base.view(4, 6).t(),
        "permuted": base.view(2, 3, 4).permute(2, 0, 1),
        "corner": base.view(4, 6)[1:3, 2:5],
        "last": image.to(memory_format=torch.channels_last),
        "expanded": torch.tensor([[1.0], [2.0]]).expand(2, 3),
        "one": torch.tensor(3.0).expand(2, 2, 2),
        "bytes": torch.arange(6, dtype=torch.uint8).view(2, 3).t(),
        "halves": torch.arange(6).half().view(2, 3).t(),
        "longs": torch.arange(6).view(2, 3).t(),
        "ones": torch.ones(3, 1, 2).permute(1, 2, 0),
    }


def flat(x, prefix=""):
    """The tensors in nested dicts and lists, by dotted names."""
    if isinstance(x, torch.Tensor):
        return {prefix: x.detach()}
    items = x.items() if isinstance(x, dict) else enumerate(x) if isinstance(x, (list, tuple)) else ()
    out = {}
    for k, v in items:
        out.update(flat(v, f"{prefix}.{k}" if prefix else str(k)))
    return out


def main():
    weight = torch.arange(4.0).reshape(2, 2)
    masks = {
        "features.0": {"weight": (weight > 1).float(), "bias": torch.ones(2)},
        "classifier": {"weight": (weight > 0).float(), "bias": None},
    }
    nested = {
        "net": collections.OrderedDict(a=weight, b=torch.nn.Parameter(weight + 1)),
        "optimizer": {"state": {0: {"step": 7, "exp_avg": weight + 2}},
                      "param_groups": [{"lr": 1e-3, "betas": (0.9, 0.999), "params": [0, 1]}]},
        "list": [weight + 3, (weight + 4, None)],
        "epoch": 3, "best": 0.5, "note": "größer", "done": True, "big": 1 << 40, "less": -70000,
        "many": list(range(300)),
    }
    files = {"state": state(), "views": views(), "masks": masks, "nested": nested,
             "parameter": {"w": torch.nn.Parameter(weight)}}
    expected = {}
    for name, what in files.items():
        torch.save(what, os.path.join(HERE, name + ".pth"))
        for key, t in flat(what).items():
            t = t.float() if t.dtype == torch.bfloat16 else t
            expected[f"{name}/{key}"] = t.contiguous().numpy()
    torch.save({"state_dict": {"w": weight}, "epoch": 3}, os.path.join(HERE, "checkpoint.pth"))
    expected["checkpoint/w"] = weight.numpy()
    torch.save(collections.OrderedDict(w=weight, v=weight.t()),
               os.path.join(HERE, "protocol4.pth"), pickle_protocol=4)
    expected["protocol4/w"], expected["protocol4/v"] = weight.numpy(), weight.t().numpy()
    torch.save({"w": weight}, os.path.join(HERE, "legacy.pth"),
               _use_new_zipfile_serialization=False)
    torch.jit.script(torch.nn.ReLU()).save(os.path.join(HERE, "script.pth"))
    torch.save(masks, os.path.join(HERE, "..", "models", "masks.pth"))  # for tests/cli
    np.savez_compressed(os.path.join(HERE, "pth.npz"), **expected)


if __name__ == "__main__":
    main()
