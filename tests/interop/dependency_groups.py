#!/usr/bin/python3
"""dependency_groups.py - check `pare inspect --groups` on torchvision's networks: layers that share channels.

usage: dependency_groups.py BUILD_FOLDER

The expected groups are those of NNI's own tests, which leave out depthwise convolutions: they have the
channels of their input.
"""
import json
import os
import subprocess
import sys
import tempfile

import torch
import torchvision


def residual(counts, last, first_has_shortcut):
    """The groups of a ResNet: the last convolutions of a stage's blocks, and its shortcut."""
    sets = []
    for stage, blocks in enumerate(counts, 1):
        s = {f"layer{stage}.{b}.{last}" for b in range(blocks)}
        if stage > 1 or first_has_shortcut:
            s.add(f"layer{stage}.0.downsample.0")
        else:
            s.add("conv1")
        sets.append(s)
    return sets


def chain(*ranges):
    return [{f"features.{i}.conv.2" for i in range(a, b + 1)} for a, b in ranges]


WANT = {
    "alexnet": [],
    "vgg11": [],
    "vgg13": [],
    "vgg19": [],
    "vgg11_bn": [],
    "squeezenet1_1": [],
    "resnet18": residual([2, 2, 2, 2], "conv2", False),
    "resnet34": residual([3, 4, 6, 3], "conv2", False),
    "wide_resnet50_2": residual([3, 4, 6, 3], "conv3", True),
    "mobilenet_v2": chain((2, 3), (4, 6), (7, 10), (11, 13), (14, 16)),
}


def groups(pare, name, folder):
    path = os.path.join(folder, f"{name}.onnx")
    model = getattr(torchvision.models, name)(weights=None).eval()
    torch.onnx.export(model, torch.zeros(1, 3, 224, 224), path, opset_version=13,
                      do_constant_folding=False, training=torch.onnx.TrainingMode.PRESERVE)
    text = subprocess.run([pare, "inspect", "--groups", "--json", path], check=True,
                          stdout=subprocess.PIPE).stdout
    os.remove(path)
    depthwise = {n for n, m in model.named_modules()
                 if isinstance(m, torch.nn.Conv2d) and m.groups > 1}
    sets = [set(g["made_by"]) - depthwise for g in json.loads(text)["groups"]]
    return [s for s in sets if len(s) > 1]


def main():
    pare, failed = os.path.join(sys.argv[1], "pare"), 0
    with tempfile.TemporaryDirectory() as folder:
        for name, want in WANT.items():
            got = groups(pare, name, folder)
            good = sorted(map(sorted, got)) == sorted(map(sorted, want))
            print(f"{'ok  ' if good else 'FAIL'} {name}: {len(got)} sets", flush=True)
            if not good:
                print("  found", got, "\n  expected", want)
            failed += not good
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
