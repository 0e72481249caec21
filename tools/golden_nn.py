#!/usr/bin/python3
"""golden_nn.py - gradients of two small convolutional networks, by PyTorch in float64.

    tools/golden_nn.py [tests/golden]

writes conv_bn.npz and norms.npz.  Inputs and parameters are float32 numbers, so that both sides
start from the same; results and gradients are float64.  tests/unit/test_golden_nn.c has the same
networks and says what the arrays are.
"""
import os
import sys

import numpy as np
import torch
import torch.nn.functional as F


class Draw:
    """Named float32 numbers from a seed, as float64 tensors; what is drawn is kept."""

    def __init__(self, seed):
        self.rng = np.random.RandomState(seed)
        self.made = {}

    def __call__(self, name, *shape, low=-1.0, high=1.0):
        self.made[name] = self.rng.uniform(low, high, shape).astype(np.float32)
        return torch.tensor(self.made[name].astype(np.float64), requires_grad=True)


def keep(out, prefix, named):
    for name, t in named.items():
        out[prefix + name] = t.grad.numpy().copy()
        t.grad = None


def conv_bn():
    """conv, batch norm, relu, max pool, linear: two batches in training, the gradients of
    parameters added up; then the first again with the running moments that they left."""
    draw = Draw(1)
    x = [draw("x0", 3, 2, 6, 6), draw("x1", 3, 2, 6, 6)]
    gy = [draw("gy0", 3, 5), draw("gy1", 3, 5)]
    p = {
        "conv.w": draw("conv.w", 3, 2, 3, 3),
        "bn.scale": draw("bn.scale", 3, low=0.5, high=1.5),
        "bn.bias": draw("bn.bias", 3),
        "fc.w": draw("fc.w", 5, 27),
        "fc.bias": draw("fc.bias", 5),
    }
    mean = draw("bn.mean", 3).detach()
    var = draw("bn.var", 3, low=0.5, high=2.0).detach()
    out = dict(draw.made)

    def net(x, train):
        y = F.conv2d(x, p["conv.w"], padding=1)
        y = F.batch_norm(y, mean, var, p["bn.scale"], p["bn.bias"], train, 0.1, 1e-5)
        y = F.max_pool2d(F.relu(y), 2)
        return F.linear(y.flatten(1), p["fc.w"], p["fc.bias"])

    for i in range(2):
        y = net(x[i], True)
        (y * gy[i].detach()).sum().backward()
        out["y%d" % i] = y.detach().numpy()
        keep(out, "grad.", {"x%d" % i: x[i]})
    keep(out, "grad.", p)
    out["after.bn.mean"], out["after.bn.var"] = mean.numpy().copy(), var.numpy().copy()
    y = net(x[0], False)
    (y * gy[0].detach()).sum().backward()
    out["eval.y0"] = y.detach().numpy()
    keep(out, "eval.grad.", {"x0": x[0], **p})
    return out


def norms():
    """depthwise conv, group norm, tanh, transposed conv, instance norm, average pool, layer norm."""
    draw = Draw(2)
    x, gy = draw("x0", 2, 4, 6, 6), draw("gy0", 2, 18)
    p = {
        "dw.w": draw("dw.w", 4, 1, 3, 3),
        "dw.bias": draw("dw.bias", 4),
        "gn.scale": draw("gn.scale", 4, low=0.5, high=1.5),
        "gn.bias": draw("gn.bias", 4),
        "up.w": draw("up.w", 4, 1, 2, 2),
        "in.scale": draw("in.scale", 2, low=0.5, high=1.5),
        "in.bias": draw("in.bias", 2),
        "ln.scale": draw("ln.scale", 18, low=0.5, high=1.5),
        "ln.bias": draw("ln.bias", 18),
    }
    out = dict(draw.made)
    y = F.conv2d(x, p["dw.w"], p["dw.bias"], stride=2, padding=1, groups=4)
    y = torch.tanh(F.group_norm(y, 2, p["gn.scale"], p["gn.bias"]))
    y = F.conv_transpose2d(y, p["up.w"], stride=2, groups=2)
    y = F.instance_norm(y, weight=p["in.scale"], bias=p["in.bias"])
    y = F.avg_pool2d(y, 3, stride=2, padding=1, count_include_pad=False)
    y = F.layer_norm(y.flatten(1), (18,), p["ln.scale"], p["ln.bias"])
    (y * gy.detach()).sum().backward()
    out["y0"] = y.detach().numpy()
    keep(out, "grad.", {"x0": x, **p})
    return out


def main():
    folder = sys.argv[1] if len(sys.argv) > 1 else "tests/golden"
    for make in (conv_bn, norms):
        np.savez_compressed(os.path.join(folder, make.__name__ + ".npz"), **make())


if __name__ == "__main__":
    main()
