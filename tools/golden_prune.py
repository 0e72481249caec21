#!/usr/bin/env python3
"""golden_prune.py - write reference scores of pruners, from an independent implementation.

usage: tools/golden_prune.py        writes tests/golden/prune_score.npz and rank.npz

A name in the file describes the C test: "l1|out_channel|conv" is the pruner, the granularity and the
weight; "nm|2|4|1|keep0" is the mask of the weight "nm|2|4|1|w0".  Everything is computed in float64
from float32 values.  Needs PyTorch and NumPy.
"""
import io
import os
import zipfile

import numpy as np
import torch

OUT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tests", "golden")


def save(name, arrays):
    """numpy.savez_compressed, but the same arrays give the same bytes."""
    with zipfile.ZipFile(os.path.join(OUT, name), "w", zipfile.ZIP_DEFLATED) as z:
        for key, array in arrays.items():
            buf = io.BytesIO()
            np.lib.format.write_array(buf, np.asarray(array))
            z.writestr(zipfile.ZipInfo(key + ".npy"), buf.getvalue(), zipfile.ZIP_DEFLATED)


# ---- scores ----------------------------------------------------------------------

# name: shape, output axis, input axis, block
SCORE_WEIGHTS = {
    "conv": ((12, 5, 3, 3), 0, 1, (1, 3)),
    "conv1x1": ((9, 33, 1, 1), 0, 1, (3, 1, 1)),
    "conv1d": ((7, 6, 5), 0, 1, (2, 5)),
    "transposed": ((5, 12, 3, 3), 1, 0, (2, 3, 3)),
    "linear": ((20, 30), 0, 1, (4, 5)),
    "linear_t": ((30, 20), 1, 0, (5, 4)),
    "near": ((24, 4, 5, 5), 0, 1, (2, 5, 5)),
    "many": ((37, 77), 0, 1, (37, 7)),
}
STEPS = 3


def score_units(x, granularity, weight):
    """(units, elements of a unit), units in the order of their grid."""
    shape, out, inp, block = SCORE_WEIGHTS[weight]
    if granularity == "element":
        return x.reshape(-1, 1)
    if granularity == "block":
        size = (1,) * (len(shape) - len(block)) + block
    else:
        axis = out if granularity == "out_channel" else inp
        size = tuple(1 if i == axis else n for i, n in enumerate(shape))
    split = [k for n, b in zip(shape, size) for k in (n // b, b)]
    order = list(range(0, 2 * len(shape), 2)) + list(range(1, 2 * len(shape), 2))
    return x.reshape(split).transpose(order).reshape(-1, int(np.prod(size)))


def score_fpgm(u):
    return np.sqrt(((u[:, None, :] - u[None, :, :]) ** 2).sum(2)).sum(1)


def score_movement(w, g, granularity, weight):
    """The scores after an Adam step for each gradient."""
    s = torch.zeros(len(score_units(w, granularity, weight)), dtype=torch.float64,
                    requires_grad=True)
    adam = torch.optim.Adam([s], lr=1e-2)
    for x in g:
        s.grad = torch.from_numpy(score_units(w * x, granularity, weight).sum(1))
        adam.step()
    return s.detach().numpy()


def score_soft(w, g, granularity, weight):
    """The same with sigmoid(s).mean() * c(t) in the loss; c(t) from step 1 to step 4."""
    s = torch.zeros(len(score_units(w, granularity, weight)), dtype=torch.float64,
                    requires_grad=True)
    adam = torch.optim.Adam([s], lr=1e-2)
    for t, x in enumerate(g):
        c = 0 if t <= 1 else 1 if t >= 4 else 1 - (1 - (t - 1) / 3) ** 3
        s.grad = None
        (2.0 * c * torch.sigmoid(s).mean()).backward()
        s.grad += torch.from_numpy(score_units(w * x, granularity, weight).sum(1))
        adam.step()
    return s.detach().numpy()


def score_admm(w, granularity, weight):
    """Two iterations with different weights; the last gradient term and the buffers."""
    u = np.zeros_like(w)
    for k in range(2):
        v = w + u
        units = np.abs(score_units(v, granularity, weight)).sum(1)
        border = np.sort(units)[int(len(units) * 0.6)]
        keep = units >= border
        ids = np.repeat(np.arange(len(units)), v.size // len(units))
        place = score_units(np.arange(v.size).reshape(v.shape), granularity, weight).reshape(-1)
        mask = np.zeros(v.size)
        mask[place] = keep[ids]
        z = v * mask.reshape(v.shape)
        u = v - z
        w = 0.5 * w + 0.25 * z if k == 0 else w
    return z, u, 0.125 * (w - z + u)


def score_activity(kind, act, x, axis):
    y = {"relu": torch.relu, "relu6": torch.nn.functional.relu6,
         "gelu": torch.nn.functional.gelu}[act](torch.from_numpy(x))
    y = np.moveaxis(y.numpy().astype(np.float64), axis, 0).reshape(x.shape[axis], -1)
    return 1 - (y == 0).mean(1) if kind == "apoz" else y.mean(1)


def score_file():
    r = np.random.RandomState(1)
    out = {}
    for name, (shape, *_) in SCORE_WEIGHTS.items():
        w = r.randn(*shape).astype(np.float32)
        if name == "near":  # all nearly equal: |a|^2 + |b|^2 - 2ab would have no digit right
            w = (r.randn(*shape[1:]) * 3 + 1e-3 * w).astype(np.float32)
        g = r.randn(STEPS, *shape).astype(np.float32)
        out["w." + name], out["g." + name] = w, g
        w, g = w.astype(np.float64), g.astype(np.float64)
        for granularity in ("out_channel", "in_channel", "block", "element"):
            if granularity == "element" and name not in ("conv", "linear_t"):
                continue
            u = score_units(w, granularity, name)
            key = f"|{granularity}|{name}"
            out["l1" + key] = np.abs(u).sum(1)
            out["l2" + key] = np.sqrt((u ** 2).sum(1))
            if granularity != "element":
                out["fpgm" + key] = score_fpgm(u)
            out["taylor" + key] = sum((score_units(w * x, granularity, name) ** 2).sum(1)
                                      for x in g)
            out["movement" + key] = score_movement(w, g, granularity, name)
            out["soft" + key] = score_soft(w, g, granularity, name)
            if name in ("conv", "linear_t"):
                for part, x in zip("zug", score_admm(w, granularity, name)):
                    out["admm." + part + key] = x
    for name, shape, axis in (("conv", (4, 12, 6, 5), 1), ("linear", (8, 20), 1),
                              ("linear_t", (3, 4, 20), 2)):
        x = (2 * r.randn(*shape)).astype(np.float32)
        x[r.rand(*shape) < 0.1] = 0
        out["x." + name] = x
        for act in ("relu", "relu6", "gelu"):
            for kind in ("apoz", "mean_rank"):
                out[f"{kind}|{act}|{name}"] = score_activity(kind, act, x, axis)
    save("prune_score.npz", {k: v if k[1] == "." else v.astype(np.float32) for k, v in out.items()})


# ---- ranking ---------------------------------------------------------------------

def rank_keep(score, k):
    """Keep all but the k lowest; among equal ones the first are removed."""
    keep = np.ones(score.size, bool)
    keep[np.argsort(score.reshape(-1), kind="stable")[:k]] = False
    return keep.reshape(score.shape)


def rank_local(w, sparsity):
    return rank_keep(np.abs(w), int(w.size * sparsity))


def rank_balance(w, sparsity, *gran):
    gran = (1,) * (w.ndim - len(gran)) + gran
    keep = np.ones(w.shape, bool)
    for at in np.ndindex(*(n // g for n, g in zip(w.shape, gran))):
        tile = tuple(slice(i * g, (i + 1) * g) for i, g in zip(at, gran))
        keep[tile] = rank_keep(np.abs(w[tile]), int(np.prod(gran) * sparsity))
    return keep


def rank_nm(w, n, m, axis):
    size = np.moveaxis(np.abs(w), axis, -1)
    keep = np.ones(size.shape, bool)
    for row in np.ndindex(size.shape[:-1]):
        for i in range(0, size.shape[-1], m):
            group = size[row][i:i + m]
            keep[row][i:i + m] = rank_keep(group, max(0, group.size - n))
    return np.moveaxis(keep, -1, axis)


def rank_global(scores, weights, sparsity, most):
    """weights: the number of weights in a unit of each layer."""
    order = sorted((s, k, i) for k, v in enumerate(scores) for i, s in enumerate(v))
    left = [int(len(v) * most) for v in scores]
    budget = int(sum(len(v) * n for v, n in zip(scores, weights)) * sparsity)
    keep = [np.ones(len(v), bool) for v in scores]
    for _, k, i in order:
        if not left[k]:
            continue
        budget -= weights[k]
        if budget < 0:
            break
        keep[k][i] = False
        left[k] -= 1
    return keep


def rank_file():
    r = np.random.RandomState(3)
    out = {}

    def add(name, w, keep):
        out[name + "|w0"], out[name + "|keep0"] = w, keep

    for i, sparsity in enumerate((0.0, 0.1, 0.29, 0.5, 0.8, 0.95, 1.0)):
        w = r.randn(6, 4, 3, 3).astype(np.float32)
        w = np.round(w * 4) / 4 if i % 2 else w
        add(f"local|{sparsity}", w, rank_local(w, sparsity))
    for case in ((0.7, 5), (0.5, 2, 4), (0.34, 3, 3), (0.9, 2, 1, 3, 1), (0.6, 8, 8)):
        shape = {(0.7, 5): (10, 5, 5, 5), (0.5, 2, 4): (6, 8), (0.34, 3, 3): (4, 5, 3, 3),
                 (0.9, 2, 1, 3, 1): (4, 5, 3, 3), (0.6, 8, 8): (16, 24)}[case]
        w = np.round(r.randn(*shape) * 8).astype(np.float32)
        add("balance|" + "|".join(map(str, case)), w, rank_balance(w, *case))
    for case in ((2, 4, 1), (1, 4, 1), (2, 4, 0), (3, 5, 2), (1, 2, 3), (4, 8, 0)):
        w = np.round(r.randn(12, 10, 3, 3) * 8).astype(np.float32)
        add("nm|" + "|".join(map(str, case)), w, rank_nm(w, *case))
    for sparsity, most in ((0.4, 0.99), (0.5, 0.5), (0.8, 0.9), (0.3, 1.0)):
        name = f"global|{sparsity}|{most}"
        ws = [r.randn(*s).astype(np.float32) * k for k, s in enumerate(
            ((8, 3, 3, 3), (16, 8, 3, 3), (20, 50), (7, 1)), 1)]
        scores = [(w.astype(np.float64) ** 2).reshape(len(w), -1).sum(1).astype(np.float32)
                  for w in ws]
        keep = rank_global(scores, [w[0].size for w in ws], sparsity, most)
        for i, w in enumerate(ws):
            out[f"{name}|w{i}"], out[f"{name}|score{i}"], out[f"{name}|keep{i}"] = (
                w, scores[i], keep[i])
    save("rank.npz", out)


if __name__ == "__main__":
    score_file()
    rank_file()
