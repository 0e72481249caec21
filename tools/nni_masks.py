#!/usr/bin/env python3
"""nni_masks.py - masks of NNI for a LeNet of 'pare new', for tools/peer_weights.sh.

usage: nni_masks.py MODEL.onnx level|l1 SPARSITY OUT.npz

level prunes single weights of all layers, l1 filters of both convolutions; SPARSITY is that of each layer.  Needs NNI 2.10
(nni.algorithms.compression.v2.pytorch), PyTorch and onnx.
"""
import sys

import numpy as np
import onnx
import onnx.numpy_helper
import torch
from nni.algorithms.compression.v2.pytorch.pruning import L1NormPruner, LevelPruner
from torch import nn


class LeNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 20, 5)
        self.conv2 = nn.Conv2d(20, 50, 5)
        self.fc1 = nn.Linear(800, 500)
        self.fc2 = nn.Linear(500, 10)

    def forward(self, x):
        x = torch.max_pool2d(torch.relu(self.conv1(x)), 2)
        x = torch.max_pool2d(torch.relu(self.conv2(x)), 2)
        return self.fc2(torch.relu(self.fc1(x.flatten(1))))


def main():
    if len(sys.argv) != 5:
        sys.exit(__doc__.split("\n\n")[1])
    path, pruner, sparsity, out = sys.argv[1:]
    net = LeNet()
    state = {t.name: torch.from_numpy(onnx.numpy_helper.to_array(t).copy()) for t in onnx.load(path).graph.initializer}
    net.load_state_dict({k: state[k] for k in net.state_dict()})
    types = {"level": ["Conv2d", "Linear"], "l1": ["Conv2d"]}[pruner]
    config = [{"sparsity": float(sparsity), "op_types": types}]
    _, masks = {"level": LevelPruner, "l1": L1NormPruner}[pruner](net, config).compress()
    np.savez(out, **{f"{layer}.{name}": m.detach().numpy().astype(np.float32)
                     for layer, parts in masks.items() for name, m in parts.items() if m is not None})


main()
