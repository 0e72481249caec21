#!/usr/bin/env python3
"""golden_quant.py - write reference results and gradients of quantizers, by PyTorch's autograd.

usage: tools/golden_quant.py        writes tests/golden/quant.npz and tests/golden/fold_bn.npz

"lsq|w4|x" is the quantizer, the case and the array: how = (bits, has_sign, axis, site), x, gy, scale,
zero, and the expected results: y, gx, and ds, dz or da of learned parameters.  Needs PyTorch.

fold_bn.npz has one training step of a convolution that is quantized together with the following
BatchNormalization, as by torch.nn.intrinsic.qat.ConvBn2d, but in float64: how = (bits, axis), the
parameters before, x, gy; then y, the gradients and the running moments.
"""
import numpy as np
import torch

from golden_prune import save

# name: shape, bits, has sign, axis of channels, site (0 weight, 1 input, 2 output)
CASES = {
    "w8": ((6, 3, 3, 3), 8, 1, -1, 0),
    "w4": ((6, 3, 3, 3), 4, 1, -1, 0),
    "w3channels": ((5, 4, 3, 3), 3, 1, 0, 0),
    "w4last": ((7, 5), 4, 0, 1, 0),
    "u8": ((4, 3, 5, 7), 8, 0, -1, 1),
    "u2": ((4, 33), 2, 0, -1, 2),
    "i5": ((3, 4, 3, 3), 5, 1, -1, 2),
}
LEARNED = ("lsq", "lsq_plus")


def ste_round(x):
    return x + (x.round() - x).detach()


def make(name, r):
    shape, bits, sign, axis, site = CASES[name]
    half = 2 ** (bits - 1)
    lo, hi = (-half + 1, half - 1) if sign else (0, 2 * half - 1)
    n = 1 if axis < 0 else shape[axis]
    x = r.randn(*shape).astype(np.float32)
    return dict(how=np.array([bits, sign, axis, site]), x=x, gy=r.randn(*shape).astype(np.float32),
                scale=((0.6 + 0.4 * r.rand(n)) * 3 / (hi - lo)).astype(np.float32),
                zero=np.full(n, 0 if sign else half, np.float32)), lo, hi, axis


def along(v, shape, axis):
    return v.reshape([-1 if i == axis else 1 for i in range(len(shape))])


def learned(quantizer, c, lo, hi, axis):
    x = torch.tensor(c["x"], dtype=torch.float64, requires_grad=True)
    s = torch.tensor(c["scale"], dtype=torch.float64, requires_grad=True)
    z = torch.tensor(c["zero"], dtype=torch.float64, requires_grad=True)
    n = len(c["scale"])
    g = 1 / torch.sqrt((hi - z.detach()) * (x.numel() / n))
    ss = along((s - s * g).detach() + s * g, x.shape, axis)
    zz = along(z if quantizer == "lsq_plus" else z.detach(), x.shape, axis)
    y = (ste_round(torch.clamp(x / ss + zz, lo, hi)) - zz) * ss
    y.backward(torch.tensor(c["gy"], dtype=torch.float64))
    c.update(y=y.detach().numpy(), gx=x.grad.numpy(), ds=s.grad.numpy())
    if quantizer == "lsq_plus":
        c["dz"] = z.grad.numpy()


def qat(c, lo, hi, axis):
    x = torch.tensor(c["x"], requires_grad=True)
    s = torch.tensor(c["scale"])
    z = torch.tensor(c["zero"]).int()
    if axis < 0:
        y = torch.fake_quantize_per_tensor_affine(x, float(s[0]), int(z[0]), lo, hi)
    else:
        y = torch.fake_quantize_per_channel_affine(x, s, z, axis, lo, hi)
    y.backward(torch.tensor(c["gy"]))
    c.update(y=y.detach().numpy(), gx=x.grad.numpy())


def pact(c, lo, hi):
    x = torch.tensor(c["x"], dtype=torch.float64, requires_grad=True)
    a = torch.tensor([1.25], dtype=torch.float64, requires_grad=True)
    steps = hi - lo
    y = torch.where(x < 0, torch.zeros_like(x), torch.where(x >= a, a.expand_as(x), x))
    y = y + (torch.round(y * steps / a) * a / steps - y).detach()
    y.backward(torch.tensor(c["gy"], dtype=torch.float64))
    c.update(alpha=a.detach().numpy(), y=y.detach().numpy(), gx=x.grad.numpy(), da=a.grad.numpy())


def rounded(w, s, z, lo, hi):
    """Fake quantization in float64: the gradient is that of the identity inside of the range."""
    v = w / s + z
    inside = ((v.round() >= lo) & (v.round() <= hi)).detach()
    q = (torch.clamp(v.round(), lo, hi) - z) * s
    return torch.where(inside, w + (q - w).detach(), q.detach())


def conv_bn(r, quantizer, bits, axis, gamma, eps=1e-5, momentum=0.1):
    n = len(gamma)
    c = dict(how=np.array([bits, axis]), gamma=np.array(gamma), beta=r.randn(n), bias=r.randn(n) * 0.3,
             weight=r.randn(n, 3, 3, 3) * 0.4, mean=r.randn(n) * 0.5, var=0.3 + 2 * r.rand(n),
             x=r.randn(4, 3, 6, 6), gy=r.randn(4, n, 6, 6))
    c = {k: v if k == "how" else v.astype(np.float32) for k, v in c.items()}
    p = {k: torch.tensor(c[k], dtype=torch.float64, requires_grad=True)
         for k in ("weight", "bias", "gamma", "beta", "x")}
    mean, var = (torch.tensor(c[k], dtype=torch.float64) for k in ("mean", "var"))
    top = 2 ** (bits - 1) - 1
    factor = (p["gamma"] / torch.sqrt(var + eps)).reshape(-1, 1, 1, 1)
    product = p["weight"] * factor
    if quantizer == "qat":
        size = product.detach().abs()
        scale = (size.amax((1, 2, 3), keepdim=True) if axis == 0 else size.max()) / top
        scale = torch.clamp(scale, min=1.1920929e-07)
        w = rounded(product, scale, 0, -top, top)
    else:
        c["scale"] = np.array([0.07], np.float32)
        s = torch.tensor(c["scale"], dtype=torch.float64, requires_grad=True)
        g = 1 / np.sqrt(top * product.numel())
        ss = (s - s * g).detach() + s * g
        w = ste_round(torch.clamp(product / ss, -top, top)) * ss
    y = torch.nn.functional.conv2d(p["x"], w, padding=1) / factor.reshape(1, -1, 1, 1)
    y = y + p["bias"].reshape(1, -1, 1, 1)
    y = torch.nn.functional.batch_norm(y, mean, var, p["gamma"], p["beta"], True, momentum, eps)
    y.backward(torch.tensor(c["gy"], dtype=torch.float64))
    c.update({"d" + k: v.grad.numpy() for k, v in p.items() if k != "x"})
    c.update(y=y.detach().numpy(), new_mean=mean.numpy(), new_var=var.numpy())
    if quantizer != "qat":
        c["ds"] = s.grad.numpy()
    return c


def fold_bn():
    r, out = np.random.RandomState(11), {}
    for name, case in {
            "qat|channels8": (8, 0, [1, 0.5, 2, -0.7, 1.3]),
            "qat|channels3": (3, 0, [1, 0.5, 2, -0.7, 1.3]),
            "qat|whole4": (4, -1, [0.9, 0.6, 1.5, -1, 1.2]),
            "qat|small": (4, 0, [1e-9, 1, 2, -1e-12, 3]),
            "lsq|whole4": (4, -1, [0.9, 0.6, 1.5, -1, 1.2])}.items():
        for k, v in conv_bn(r, name.split("|")[0], *case).items():
            out[f"{name}|{k}"] = np.asarray(v).astype(np.int64 if k == "how" else np.float32)
    save("fold_bn.npz", out)


def main():
    fold_bn()
    r = np.random.RandomState(5)
    out = {}
    for quantizer in ("lsq", "lsq_plus", "qat", "pact"):
        for name in CASES:
            c, lo, hi, axis = make(name, r)
            if quantizer in LEARNED:
                learned(quantizer, c, lo, hi, axis)
            elif quantizer == "qat":
                qat(c, lo, hi, axis)
            elif c["how"][3]:
                pact(c, lo, hi)
            else:
                continue
            for k, v in c.items():
                v = np.asarray(v)
                out[f"{quantizer}|{name}|{k}"] = v.astype(np.int64 if k == "how" else np.float32)
    save("quant.npz", out)


if __name__ == "__main__":
    main()
