#!/usr/bin/python3
"""golden_optim.py - write reference results of PyTorch's optimizers, schedulers and losses.

usage: tools/golden_optim.py        writes tests/golden/{optim,schedule,loss}.npz

A name in the files describes the C test: "adam,beta1=0.8|..." is an optimizer with options; the tests
parse it, so cases are added only here.  Needs PyTorch and numpy.
"""
import io
import os
import zipfile

import numpy as np
import torch
import torch.nn.functional as F

OUT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tests", "golden")
STEPS = 20


def save(name, arrays):
    """numpy.savez_compressed, but the same arrays give the same bytes."""
    with zipfile.ZipFile(os.path.join(OUT, name), "w", zipfile.ZIP_DEFLATED) as z:
        for key, array in arrays.items():
            buf = io.BytesIO()
            np.lib.format.write_array(buf, np.asarray(array))
            z.writestr(zipfile.ZipInfo(key + ".npy"), buf.getvalue(), zipfile.ZIP_DEFLATED)


def parse(text):
    name, *options = text.split(",")
    return name, dict((k, eval(v, {"true": True, "false": False})) for k, v in
                      (o.split("=") for o in options))


# ---- optimizers: weights (20, n) after each step --------------------------------

OPTIMIZERS = [
    "sgd",
    "sgd,weight_decay=0.1",
    "sgd,momentum=0.9",
    "sgd,momentum=0.9,dampening=0.5,weight_decay=0.01",
    "sgd,momentum=0.9,nesterov=true,weight_decay=0.01",
    "adam",
    "adam,beta1=0.8,beta2=0.9,eps=0.001,weight_decay=0.1",
    "adamw",
    "adamw,beta1=0.7,weight_decay=0.5",
    "rmsprop",
    "rmsprop,alpha=0.9,weight_decay=0.1",
    "rmsprop,momentum=0.9",
    "rmsprop,centered=true,eps=0.01",
    "rmsprop,centered=true,momentum=0.5,weight_decay=0.01",
]


def optimizer(text, params, lr):
    name, o = parse(text)
    if name.startswith("adam"):
        o["betas"] = (o.pop("beta1", 0.9), o.pop("beta2", 0.999))
    kind = {"sgd": torch.optim.SGD, "adam": torch.optim.Adam, "adamw": torch.optim.AdamW,
            "rmsprop": torch.optim.RMSprop}[name]
    return kind(params, lr=lr, **o)


def trajectory(text, start, grads, lr, dtype, clip_norm=0.0, clip_value=0.0):
    w = torch.tensor(start, dtype=dtype, requires_grad=True)
    opt = optimizer(text, [w], lr)
    rows = []
    for g in grads:
        w.grad = torch.tensor(g, dtype=dtype)
        if clip_value:
            torch.nn.utils.clip_grad_value_([w], clip_value)
        if clip_norm:
            torch.nn.utils.clip_grad_norm_([w], clip_norm)
        opt.step()
        rows.append(w.detach().numpy().copy())
    return np.array(rows)


def optimizers():
    rng = np.random.default_rng(1)
    start = rng.normal(size=5).astype(np.float32)
    grads = rng.normal(size=(STEPS, 5)).astype(np.float32)
    grads[:, 4] = 0.25              # a constant gradient
    arrays = {"start": start, "grads": grads}
    for text in OPTIMIZERS:
        arrays[text + "|f32"] = trajectory(text, start, grads, 0.05, torch.float32)
        arrays[text + "|f64"] = trajectory(text, start, grads, 0.05, torch.float64)
    for clip in ({"clip_norm": 1.5}, {"clip_value": 0.5}, {"clip_norm": 0.8, "clip_value": 0.5}):
        text = OPTIMIZERS[2] + "".join(",%s=%g" % c for c in clip.items())
        arrays[text + "|f64"] = trajectory(OPTIMIZERS[2], start, grads, 0.05, torch.float64, **clip)
    # Two parameter groups: the second with a tenth of the learning rate and without weight decay.
    for name in ("sgd,momentum=0.9,weight_decay=0.1", "adamw,weight_decay=0.1"):
        w = [torch.tensor(start, dtype=torch.float64, requires_grad=True) for _ in range(2)]
        opt = optimizer(name, [{"params": [w[0]]},
                               {"params": [w[1]], "lr": 0.005, "weight_decay": 0}], 0.05)
        rows = []
        for g in grads:
            for p in w:
                p.grad = torch.tensor(g, dtype=torch.float64)
            opt.step()
            rows.append(np.concatenate([p.detach().numpy() for p in w]))
        arrays[name + "|groups"] = np.array(rows)
    save("optim.npz", arrays)


# ---- schedules: rates (20) ------------------------------------------------------

# epoch=E: an epoch has E steps; warmup=W,factor=F: a linear warm-up of W steps.
SCHEDULES = [
    "constant,epoch=1",
    "constant,epoch=1,warmup=5,factor=0.2",
    "step,epoch=1,step_size=3,gamma=0.5",
    "step,epoch=4,step_size=2,gamma=0.5",
    "multistep,epoch=1,milestones=4/9/15,gamma=0.3",
    "multistep,epoch=3,milestones=2/4,gamma=0.1,warmup=3,factor=0.1",
    "exponential,epoch=1,gamma=0.9",
    "exponential,epoch=5,gamma=0.9",
    "cosine,epoch=1",
    "cosine,epoch=1,t_max=8,min_lr=0.01",
    "cosine,epoch=4,by=epoch",
    "cosine,epoch=1,warmup=4,factor=0.0001,min_lr=0.001",
    "onecycle,epoch=1",
    "onecycle,epoch=4,anneal=linear,pct_start=0.4",
    "onecycle,epoch=1,three_phase=true,div_factor=10,final_div_factor=100",
]


def scheduler(name, o, opt, total):
    s = torch.optim.lr_scheduler
    if name == "constant":
        return s.LambdaLR(opt, lambda t: 1)
    if name == "step":
        return s.StepLR(opt, int(o["step_size"]), float(o["gamma"]))
    if name == "multistep":
        return s.MultiStepLR(opt, [int(m) for m in o["milestones"].split("/")], float(o["gamma"]))
    if name == "exponential":
        return s.ExponentialLR(opt, float(o["gamma"]))
    if name == "cosine":
        return s.CosineAnnealingLR(opt, int(o.get("t_max", total)), float(o.get("min_lr", 0)))
    return s.OneCycleLR(opt, max_lr=0.1, total_steps=total, cycle_momentum=False,
                        pct_start=float(o.get("pct_start", 0.3)),
                        anneal_strategy=o.get("anneal", "cos"),
                        div_factor=float(o.get("div_factor", 25)),
                        final_div_factor=float(o.get("final_div_factor", 1e4)),
                        three_phase="three_phase" in o)


def follow(opt, sched, n):
    rows = []
    for _ in range(n):
        rows.append(opt.param_groups[0]["lr"])
        opt.step()
        sched.step()
    return rows


def sgd():
    return torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=0.1)


def rates(text):
    name, *options = text.split(",")
    o = dict(p.split("=") for p in options)
    warmup = int(o.get("warmup", 0))
    by_step = name == "onecycle" or (name == "cosine" and o.get("by") != "epoch")
    hold = 1 if by_step else int(o["epoch"])        # steps for which a rate holds
    units = (STEPS - warmup + hold - 1) // hold
    opt = sgd()
    if not warmup:
        return np.repeat(follow(opt, scheduler(name, o, opt, units), units), hold)[:STEPS]
    linear = torch.optim.lr_scheduler.LinearLR(opt, float(o["factor"]), 1.0, warmup)
    if hold > 1:        # PyTorch leaves the order of the steps to the caller
        rest = sgd()
        rest = follow(rest, scheduler(name, o, rest, units), units)
        return np.concatenate([follow(opt, linear, warmup), np.repeat(rest, hold)])[:STEPS]
    first = opt.param_groups[0]["lr"]
    opt.param_groups[0]["lr"] = 0.1
    after = scheduler(name, o, opt, units)
    opt.param_groups[0]["lr"] = first
    both = torch.optim.lr_scheduler.SequentialLR(opt, [linear, after], [warmup])
    return follow(opt, both, STEPS)


def schedules():
    save("schedule.npz", {text: np.array(rates(text)) for text in SCHEDULES})


# ---- losses: x, t, loss and gradient of each ------------------------------------

def softmax_kl(x, t, T, axis):
    return F.kl_div(F.log_softmax(x / T, axis), F.softmax(t / T, axis), reduction="sum")


# name: (loss of x and t, shape of x, kind of t)
LOSSES = {
    "cross_entropy": (lambda x, t: F.cross_entropy(x, t), (4, 7), "class"),
    "cross_entropy,label_smoothing=0.1":
        (lambda x, t: F.cross_entropy(x, t, label_smoothing=0.1), (3, 40), "class"),
    "cross_entropy,label_smoothing=0.2,ignore_index=2":
        (lambda x, t: F.cross_entropy(x, t, label_smoothing=0.2, ignore_index=2), (2, 3, 3, 5),
         "class"),
    "bce": (lambda x, t: F.binary_cross_entropy_with_logits(x, t), (4, 6), "probability"),
    "mse": (lambda x, t: F.mse_loss(x, t), (4, 6), "any"),
    "l1": (lambda x, t: F.l1_loss(x, t), (4, 6), "any"),
    "smooth_l1": (lambda x, t: F.smooth_l1_loss(x, t), (4, 6), "any"),
    "smooth_l1,beta=0.5": (lambda x, t: F.smooth_l1_loss(x, t, beta=0.5), (4, 6), "any"),
    "smooth_l1,beta=0": (lambda x, t: F.smooth_l1_loss(x, t, beta=0), (4, 6), "any"),
    "kl": (lambda x, t: F.kl_div(x, t), (4, 6), "probability"),
    "kl,reduction=batchmean": (lambda x, t: F.kl_div(x, t, reduction="batchmean"), (4, 6),
                               "probability"),
    "kl,log_target=true": (lambda x, t: F.kl_div(x, t, log_target=True), (4, 6), "any"),
    # Terms that are added to a loss of 2 and a gradient of 1.
    "soft,alpha=0,beta=1,temperature=1,t_squared=false":
        (lambda x, t: softmax_kl(x, t, 1, 1) / 4, (4, 7), "any"),
    "soft,alpha=1,beta=0.8,temperature=5,t_squared=false":
        (lambda x, t: 2 + 0 * x.sum() + 0.8 * softmax_kl(x, t, 5, 1) / 4, (4, 7), "any"),
    "soft,alpha=0.5,beta=1,temperature=4,t_squared=true":
        (lambda x, t: 1 + softmax_kl(x, t, 4, 1) * 16 / 2, (2, 5, 3, 3), "any"),
    "layer,lambda=0.5": (lambda x, t: 2 + 0.5 * F.mse_loss(x, t), (2, 3, 5), "any"),
    "layer,lambda=2,method=kl":
        (lambda x, t: 2 + 2 * 4 * softmax_kl(x, t, 2, -1) / 2, (2, 3, 5), "any"),
}
# The existing gradient is multiplied by alpha.
KEPT = {"soft,alpha=0,": 0, "soft,alpha=1,": 1, "soft,alpha=0.5,": 0.5, "layer,": 1}


def losses():
    rng = np.random.default_rng(2)
    arrays = {}
    for text, (f, shape, kind) in LOSSES.items():
        x = torch.tensor(3 * rng.normal(size=shape).astype(np.float32))
        if kind == "class":
            t = torch.tensor(rng.integers(shape[1], size=shape[:1] + shape[2:]))
        elif kind == "probability":
            t = torch.tensor(rng.uniform(size=shape).astype(np.float32))
            t.view(-1)[0], t.view(-1)[1] = 0, 1
        else:
            t = torch.tensor(3 * rng.normal(size=shape).astype(np.float32))
        wide = x.double().requires_grad_()
        loss = f(wide, t if kind == "class" else t.double())
        loss.backward()
        grad = wide.grad
        for start, kept in KEPT.items():
            if text.startswith(start):
                grad = grad + kept
        arrays[text + "|x"] = x.numpy()
        arrays[text + "|t"] = t.numpy()
        arrays[text + "|loss"] = loss.detach().numpy()
        arrays[text + "|grad"] = grad.numpy()
    save("loss.npz", arrays)


optimizers()
schedules()
losses()
