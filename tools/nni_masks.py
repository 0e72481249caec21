#!/usr/bin/env python3
"""nni_masks.py - masks of NNI for a LeNet of 'pare new', for tools/peer_weights.sh.

usage: nni_masks.py MODEL.onnx level|l1|taylor SPARSITY OUT.npz [SEED]

level prunes single weights of all layers, l1 and taylor filters of both convolutions; SPARSITY is that of each layer.  taylor
observes 20 training steps on Fashion-MNIST (the folder FASHION_MNIST), with the rate and batches of peer_weights.sh and
items in the order of SEED.  Needs NNI 2.10 (nni.algorithms.compression.v2.pytorch), PyTorch and onnx.
"""
import gzip
import os
import sys

import nni
import numpy as np
import onnx
import onnx.numpy_helper
import torch
from nni.algorithms.compression.v2.pytorch.pruning import L1NormPruner, LevelPruner, TaylorFOWeightPruner
from torch import nn

STEPS, BATCH, RATE, MOMENTUM = 20, 64, 0.02, 0.9


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


def items(name, skip):
    folder = os.environ.get("FASHION_MNIST", "/usr/share/datasets/fashion-mnist")
    with gzip.open(os.path.join(folder, name)) as f:
        return np.frombuffer(f.read()[skip:], np.uint8)


def batches(seed):
    """Training items, normalized as Pare does."""
    x = items("train-images-idx3-ubyte.gz", 16).reshape(-1, 1, 28, 28)
    y = items("train-labels-idx1-ubyte.gz", 8)
    order = np.random.default_rng(seed).permutation(len(y))[:STEPS * BATCH].reshape(STEPS, BATCH)
    for i in order:
        yield torch.from_numpy((x[i] / np.float32(255) - 0.2860) / 0.3530).float(), torch.from_numpy(y[i]).long()


def taylor(net, config, seed):
    def train(model, optimizer, criterion):
        for x, y in batches(seed):
            optimizer.zero_grad()
            criterion(model(x), y).backward()
            optimizer.step()

    sgd = nni.trace(torch.optim.SGD)(net.parameters(), lr=RATE, momentum=MOMENTUM)
    return TaylorFOWeightPruner(net, config, train, sgd, nn.functional.cross_entropy, STEPS)


def main():
    if len(sys.argv) not in (5, 6):
        sys.exit(__doc__.split("\n\n")[1])
    path, pruner, sparsity, out = sys.argv[1:5]
    seed = int(sys.argv[5]) if len(sys.argv) > 5 else 1
    net = LeNet()
    state = {t.name: torch.from_numpy(onnx.numpy_helper.to_array(t).copy()) for t in onnx.load(path).graph.initializer}
    net.load_state_dict({k: state[k] for k in net.state_dict()})
    types = ["Conv2d", "Linear"] if pruner == "level" else ["Conv2d"]
    config = [{"sparsity": float(sparsity), "op_types": types}]
    if pruner == "taylor":
        method = taylor(net, config, seed)
    else:
        method = {"level": LevelPruner, "l1": L1NormPruner}[pruner](net, config)
    _, masks = method.compress()
    np.savez(out, **{f"{layer}.{name}": m.detach().numpy().astype(np.float32)
                     for layer, parts in masks.items() for name, m in parts.items() if m is not None})


main()
