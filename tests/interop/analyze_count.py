#!/usr/bin/python3
"""analyze_count.py - compare `pare analyze count` with NNI's counter for ResNet-50.

usage: analyze_count.py BUILD_FOLDER

Parameters and multiply-accumulates of every convolution and linear layer must also equal those computed
from PyTorch's model.
"""
import json
import subprocess
import sys

import torch

from interop import files


def main():
    build = sys.argv[1]
    path, _ = files(build, "resnet50")
    out = subprocess.run([f"{build}/pare", "analyze", "count", path, "--json"], check=True,
                         stdout=subprocess.PIPE, text=True).stdout
    count = json.loads(out)["count"]
    got = (count["flops"], count["params"])
    print("resnet50:", got)
    if got != (4089184256, 25503912):
        raise SystemExit("expected (4089184256, 25503912), as NNI counts")

    import torchvision
    model = torchvision.models.resnet50().eval()
    want = {}

    def hook(name):
        def seen(module, inputs, output):
            weight = module.weight
            each = weight.numel() // weight.shape[0]
            want[name] = (output.numel() * each, sum(p.numel() for p in module.parameters()))
        return seen
    for name, module in model.named_modules():
        if isinstance(module, (torch.nn.Conv2d, torch.nn.Linear)):
            module.register_forward_hook(hook(name))
    with torch.no_grad():
        model(torch.zeros(1, 3, 224, 224))
    rows = {r["name"]: (r["flops"], r["params"]) for r in count["layers"]}
    if rows != want:
        raise SystemExit(f"layers differ: {set(rows.items()) ^ set(want.items())}")
    print(len(rows), "layers agree with PyTorch")


main()
