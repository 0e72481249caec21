#!/usr/bin/env python3
"""golden_nbits.py - reference results of group-quantized weights and MatMulNBits, computed by NumPy.

usage: tools/golden_nbits.py        writes tests/golden/nbits.npz

"group|NAME|x": how = (bits, has_sign, symmetric, axis of inputs, group, mse); w, and the expected
results: scale and zero, of w's shape with the number of groups along the axis, and y, the quantized w.
"nbits|NAME|x": how = (K, N, bits, block); a, b (N, blocks, block * bits / 8), s, z (packed; none: as the
operator's default), and y = a w in float64.
"""
import numpy as np

from golden_prune import save

# name: shape, bits, has sign, symmetric, axis, group, mse
GROUPS = {
    "rows": ((5, 96), 4, 1, 1, 1, 32, 0),
    "columns": ((96, 5), 4, 1, 1, 0, 32, 0),
    "short": ((4, 75), 4, 0, 0, 1, 32, 0),
    "affine": ((70, 3), 4, 1, 0, 0, 16, 0),
    "middle": ((3, 64), 4, 0, 1, 1, 64, 0),
    "least": ((6, 128), 4, 1, 1, 1, 64, 1),
    "least_affine": ((130, 4), 4, 0, 0, 0, 64, 1),
    "eight": ((4, 64), 8, 1, 1, 1, 16, 0),
    "two": ((4, 64), 2, 1, 1, 1, 32, 1),
    "whole": ((4, 20), 4, 1, 1, 1, 1000, 0),
}
F = np.float32


def fit(x, lo, hi, middle, symmetric, part):
    """Scale and zero point for the range of x multiplied by `part`, in float32 as in C."""
    a, b = F(part) * min(x.min(), F(0)), F(part) * max(x.max(), F(0))
    if symmetric:
        s = max(b / F(hi - middle), -a / F(middle - lo))
    else:
        s = b / F(hi - lo) - a / F(hi - lo)
    s = max(F(s), F(1.1920929e-07))
    z = F(middle) if symmetric else min(max(np.rint(F(lo) - a / s), F(lo)), F(hi))
    return s, z


def rounded(x, s, z, lo, hi):
    return (np.rint(np.clip(x / s, F(lo) - z, F(hi) - z)) * s).astype(F)


def group_case(r, shape, bits, sign, symmetric, axis, size, mse):
    half = 2 ** (bits - 1)
    lo, hi = (-half, half - 1) if sign else (0, 2 * half - 1)
    if sign and bits == 8 and symmetric:
        lo = -127
    middle = 0 if sign else half
    w = (r.randn(*shape) * 0.1).astype(F)
    w[(0,) * len(shape)] = 0.9
    rows = w if axis == 1 else w.T
    y, scale, zero = np.empty_like(rows), [], []
    for i, row in enumerate(rows):
        for at in range(0, len(row), size):
            x = row[at:at + size]
            best = None
            for k in range(26 if mse else 1):
                s, z = fit(x, lo, hi, middle, symmetric, F(1) - F(0.02) * F(k))
                e = float(((rounded(x, s, z, lo, hi).astype(float) - x) ** 2).sum())
                if best is None or e < best[0] * (1 - 1e-6):
                    best = e, s, z
            scale.append(best[1])
            zero.append(best[2])
            y[i, at:at + size] = rounded(x, best[1], best[2], lo, hi)
    n = -(-rows.shape[1] // size)
    scale, zero = (np.array(v, F).reshape(len(rows), n) for v in (scale, zero))
    if axis == 0:
        y, scale, zero = y.T, scale.T, zero.T
    return dict(how=np.array([bits, sign, symmetric, axis, size, mse]), w=w, scale=scale.copy(),
                zero=zero.copy(), y=y.copy())


# name: rows of a, K, N, bits, block, zero points
PRODUCTS = {
    "one": (1, 64, 8, 4, 32, False),
    "odd": (3, 75, 7, 4, 16, True),
    "rows": (5, 256, 9, 4, 64, True),
    "eight": (2, 48, 6, 8, 16, False),
    "eight_zero": (1, 130, 5, 8, 32, True),
    "two": (2, 40, 4, 2, 16, True),
    "many": (20, 96, 33, 4, 32, True),
}


def pack(q, bits):
    """Pack values along the last axis, the first in the low bits; rows begin at a byte."""
    per = 8 // bits
    pad = -q.shape[-1] % per
    q = np.concatenate([q, np.zeros(q.shape[:-1] + (pad,), int)], -1)
    q = q.reshape(q.shape[:-1] + (-1, per))
    return sum(q[..., i] << bits * i for i in range(per)).astype(np.uint8)


def product_case(r, rows, K, N, bits, block, zeros):
    blocks = -(-K // block)
    q = r.randint(0, 2 ** bits, (N, blocks, block))
    z = r.randint(0, 2 ** bits, (N, blocks)) if zeros else np.full((N, blocks), 2 ** (bits - 1))
    s = (r.rand(N, blocks) * 0.1 + 0.01).astype(F)
    a = r.randn(rows, K).astype(F)
    w = ((q - z[..., None]) * s[..., None].astype(float)).reshape(N, -1)[:, :K]
    case = dict(how=np.array([K, N, bits, block]), a=a, b=pack(q, bits), s=s, y=a.astype(float) @ w.T)
    if zeros:
        case["z"] = pack(z, bits)
    return case


def main():
    r = np.random.RandomState(5)
    out = {}
    for kind, cases, make in (("group", GROUPS, group_case), ("nbits", PRODUCTS, product_case)):
        for name, case in cases.items():
            for key, value in make(r, *case).items():
                out[f"{kind}|{name}|{key}"] = value
    save("nbits.npz", out)


if __name__ == "__main__":
    main()
