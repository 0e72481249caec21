#!/usr/bin/python3
"""peer_torch_train.py - PyTorch's peer of the training benchmark; README.md describes the protocol.

usage: peer_torch_train.py MODEL.onnx SHAPE THREADS INPUT LABELS LOSSES STEPS RATE nchw|nhwc

The networks are torchvision's modules, with the same changes for small images as Pare's, and the
weights of the ONNX file, which train.py wrote to MODEL.onnx.npz under the same names.
"""
import os
import sys
import time

import numpy as np
import torch
import torchvision
from torch import nn


def resident_kb():
    with open("/proc/self/status") as f:
        return next(int(line.split()[1]) for line in f if line.startswith("VmRSS:"))


class LeNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1, self.conv2 = nn.Conv2d(1, 20, 5), nn.Conv2d(20, 50, 5)
        self.fc1, self.fc2 = nn.Linear(800, 500), nn.Linear(500, 10)

    def forward(self, x):
        x = nn.functional.max_pool2d(self.conv1(x).relu_(), 2)
        x = nn.functional.max_pool2d(self.conv2(x).relu_(), 2)
        return self.fc2(self.fc1(x.flatten(1)).relu_())


class VGG(nn.Module):
    def __init__(self):
        super().__init__()
        self.features = torchvision.models.vgg.make_layers(torchvision.models.vgg.cfgs["D"], True)
        self.classifier = nn.Linear(512, 10)

    def forward(self, x):
        return self.classifier(self.features(x).mean((2, 3)))


def resnet18_cifar():
    m = torchvision.models.resnet18(num_classes=10)
    m.conv1, m.maxpool = nn.Conv2d(3, 64, 3, 1, 1, bias=False), nn.Identity()
    return m


def mobilenetv2_cifar():
    stages = [[1, 16, 1, 1], [6, 24, 2, 1], [6, 32, 3, 2], [6, 64, 4, 2], [6, 96, 3, 1],
              [6, 160, 3, 2], [6, 320, 1, 1]]
    m = torchvision.models.mobilenet_v2(num_classes=10, inverted_residual_setting=stages)
    m.features[0][0].stride = (1, 1)
    m.classifier[0].p = 0.0             # random dropout would make the two differ
    return m


class Block(nn.Module):
    """A transformer's block under timm's names."""

    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(dim, 1e-6), nn.LayerNorm(dim, 1e-6)
        self.attn = nn.ModuleDict({"qkv": nn.Linear(dim, 3 * dim), "proj": nn.Linear(dim, dim)})
        self.mlp = nn.ModuleDict({"fc1": nn.Linear(dim, 4 * dim), "fc2": nn.Linear(4 * dim, dim)})

    def forward(self, x):
        n, t, c = x.shape
        q, k, v = self.attn["qkv"](self.norm1(x)).reshape(n, t, 3, self.heads, -1).permute(
            2, 0, 3, 1, 4)
        y = ((q * (c // self.heads) ** -0.5) @ k.transpose(-2, -1)).softmax(-1) @ v
        x = x + self.attn["proj"](y.transpose(1, 2).reshape(n, t, c))
        return x + self.mlp["fc2"](nn.functional.gelu(self.mlp["fc1"](self.norm2(x))))


class VisionTransformer(nn.Module):
    def __init__(self, dim=192, depth=12, heads=3, patch=4, patches=64):
        super().__init__()
        self.patch_embed = nn.ModuleDict({"proj": nn.Conv2d(3, dim, patch, patch)})
        self.cls_token = nn.Parameter(torch.zeros(1, 1, dim))
        self.pos_embed = nn.Parameter(torch.zeros(1, patches + 1, dim))
        self.blocks = nn.ModuleList(Block(dim, heads) for _ in range(depth))
        self.norm, self.head = nn.LayerNorm(dim, 1e-6), nn.Linear(dim, 10)

    def forward(self, x):
        x = self.patch_embed["proj"](x).flatten(2).transpose(1, 2)
        x = torch.cat((self.cls_token.expand(len(x), -1, -1), x), 1) + self.pos_embed
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x)[:, 0])


NETWORKS = {"lenet": LeNet, "vgg16-cifar": VGG, "resnet18-cifar": resnet18_cifar,
            "mobilenetv2-cifar": mobilenetv2_cifar, "resnet18": torchvision.models.resnet18,
            "vit-tiny": VisionTransformer}


def load(path):
    model = NETWORKS[os.path.basename(path)[:-len(".onnx")]]()
    with np.load(path + ".npz") as weights, torch.no_grad():
        for name, value in model.state_dict().items():
            if not name.endswith("num_batches_tracked"):
                value.copy_(torch.from_numpy(weights[name]))
    return model.train()


def main():
    path, shape, threads, source, labels, target, steps, rate, layout = sys.argv[1:]
    torch.set_num_threads(int(threads))
    base = resident_kb()
    layout = torch.channels_last if layout == "nhwc" else torch.contiguous_format
    model = load(path).to(memory_format=layout)
    x = torch.from_numpy(np.fromfile(source, np.float32).reshape([int(d) for d in shape.split(",")]))
    x = x.contiguous(memory_format=layout)
    y = torch.from_numpy(np.fromfile(labels, np.int64))
    optimizer = torch.optim.SGD(model.parameters(), float(rate), 0.9)
    criterion = nn.CrossEntropyLoss()

    def step():
        optimizer.zero_grad(set_to_none=True)
        loss = criterion(model(x), y)
        loss.backward()
        optimizer.step()
        return loss.item()

    def timed():
        start = time.perf_counter()
        step()
        return (time.perf_counter() - start) * 1e3

    np.array([step() for _ in range(int(steps))], np.float32).tofile(target)
    print("ready", sys.argv[-1], base, flush=True)
    for line in sys.stdin:
        print(*(f"{timed():.4f}" for _ in range(int(line.split()[1]))), flush=True)


if __name__ == "__main__":
    main()
