#!/usr/bin/python3
"""golden.py - write reference gradients of small networks, computed by PyTorch in float64.

    tools/golden.py [tests/golden]

writes one .npz per network.  Inputs and parameters are float32, so that both implementations start
from the same values; results and gradients are float64.  tests/unit/test_golden_*.c have the same
networks, tests/unit/golden.h describes the arrays.
"""
import os
import sys

import numpy as np
import torch
import torch.nn.functional as F


class Draw:
    """Random float32 values from a seed, as named float64 tensors, which are recorded."""

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
    """conv, batch norm, relu, max pool, linear: two training batches with accumulated gradients of
    parameters, then the first batch in evaluation mode with the resulting running statistics."""
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


def mlp():
    """linear, relu, linear, softmax cross-entropy with class weights and an ignored label."""
    draw = Draw(3)
    x = draw("x0", 6, 5)
    p = {
        "fc1.w": draw("fc1.w", 8, 5),
        "fc1.bias": draw("fc1.bias", 8),
        "fc2.w": draw("fc2.w", 4, 8),
        "fc2.bias": draw("fc2.bias", 4),
    }
    weight = draw("class.w", 4, low=0.5, high=1.5).detach()
    out = dict(draw.made)
    out["labels"] = np.array([0, 3, 2, -1, 1, 2])
    out["gy0"] = np.float32(0.5)
    y = F.relu(F.linear(x, p["fc1.w"], p["fc1.bias"]))
    y = F.linear(y, p["fc2.w"], p["fc2.bias"])
    y = F.cross_entropy(y, torch.tensor(out["labels"]), weight, ignore_index=-1)
    (y * 0.5).backward()
    out["y0"] = y.detach().numpy()
    keep(out, "grad.", {"x0": x, **p})
    return out


T, N, I, H = 4, 3, 2, 3
LENS = [4, 3, 1]                # longest first, as PyTorch requires


def recurrent(seed, layer, order, states):
    """A bidirectional layer.  `order` is the order of ONNX's gates in PyTorch's arrays; ONNX has both
    directions and both biases in one array each."""
    draw = Draw(seed)
    gates = len(order)
    leaves = {
        "x0": draw("x0", T, N, I),
        "W": draw("W", 2, gates * H, I),
        "R": draw("R", 2, gates * H, H),
        "B": draw("B", 2, 2 * gates * H),
    }
    grads = ["gy0"] + ["g%s0" % s for s in states]
    for s in states:
        leaves[s + "0"] = draw(s + "0", 2, N, H)
    g = [draw("gy0", T, 2, N, H)] + [draw(name, 2, N, H) for name in grads[1:]]
    out = dict(draw.made)
    out["lens"] = np.array(LENS, dtype=np.int32)

    def turn(t):
        return torch.cat([t[k * H : (k + 1) * H] for k in order])

    params = []
    for d in range(2):
        wb, rb = leaves["B"][d].chunk(2)
        params += [turn(leaves["W"][d]), turn(leaves["R"][d]), turn(wb), turn(rb)]
    packed = torch.nn.utils.rnn.pack_padded_sequence(leaves["x0"], torch.tensor(LENS))
    start = [leaves[s + "0"] for s in states]
    y, *last = layer(packed.data, packed.batch_sizes, start if len(start) > 1 else start[0],
                     params, True, 1, 0.0, True, True)
    packed = torch.nn.utils.rnn.PackedSequence(y, packed.batch_sizes)
    y, _ = torch.nn.utils.rnn.pad_packed_sequence(packed, total_length=T)
    y = y.reshape(T, N, 2, H).transpose(1, 2)
    sum((a * b.detach()).sum() for a, b in zip([y] + last, g)).backward()
    out["y0"] = y.detach().numpy().copy()
    keep(out, "grad.", leaves)
    return out


def lstm():
    return recurrent(4, torch._VF.lstm, [0, 2, 3, 1], "hc")         # ONNX's i o f c from PyTorch's i f c o


def gru():
    return recurrent(5, torch._VF.gru, [1, 0, 2], "h")              # ONNX's z r h from PyTorch's r z h


def attention():
    """two heads of self-attention, followed by the projection."""
    draw = Draw(6)
    x, gy = draw("x0", 2, 5, 6), draw("gy0", 2, 5, 6)
    p = {name: draw(name, 6, 6) for name in ("q.w", "k.w", "v.w", "o.w")}
    out = dict(draw.made)
    out["split"], out["join"] = np.array([2, 5, 2, 3]), np.array([2, 5, 6])
    out["scale"] = np.float32(3**-0.5)
    q, k, v = [(x @ p[name]).reshape(2, 5, 2, 3).transpose(1, 2) for name in ("q.w", "k.w", "v.w")]
    a = torch.softmax(q @ k.transpose(2, 3) * float(out["scale"]), -1)
    y = (a @ v).transpose(1, 2).reshape(2, 5, 6) @ p["o.w"]
    (y * gy.detach()).sum().backward()
    out["y0"] = y.detach().numpy()
    keep(out, "grad.", {"x0": x, **p})
    return out


def main():
    folder = sys.argv[1] if len(sys.argv) > 1 else "tests/golden"
    for make in (conv_bn, norms, mlp, lstm, gru, attention):
        np.savez_compressed(os.path.join(folder, make.__name__ + ".npz"), **make())


if __name__ == "__main__":
    main()
