#!/usr/bin/python3
"""export_architectures.py - PyTorch exports of architectures whose graphs differ from plain convolutional networks.

usage: export_architectures.py FOLDER [NAME ...]

Writes FOLDER/NAME-OPSET.onnx for each architecture of ARCHITECTURES and each opset of OPSETS that PyTorch can export it
to, with fixed random weights, small widths, and free batch, height, width and length where the architecture has them.
Random weights include biases and running statistics of batch normalization: a masked channel is then a constant, not 0.
"""
import os
import sys
import warnings

import torch
import torch.nn as nn
import torch.nn.functional as F

OPSETS = (9, 11, 13, 17)


def conv_bn(cin, cout, k=3, stride=1, groups=1, act=True):
    layers = [nn.Conv2d(cin, cout, k, stride, k // 2, groups=groups, bias=False), nn.BatchNorm2d(cout)]
    return nn.Sequential(*layers, *([act if isinstance(act, nn.Module) else nn.ReLU()] if act else []))


# ---- UNet: skip connections by Concat, ConvTranspose, padding to the size of the skip connection ----------------

class UNet(nn.Module):
    def __init__(self, pad, widths=(16, 32, 64)):
        super().__init__()
        self.pad = pad
        ins = (3,) + widths[:-1]
        self.down = nn.ModuleList(nn.Sequential(conv_bn(i, o), conv_bn(o, o)) for i, o in zip(ins, widths))
        pairs = list(zip(widths[:0:-1], widths[-2::-1]))
        self.up = nn.ModuleList(nn.ConvTranspose2d(i, o, 2, 2) for i, o in pairs)
        self.merge = nn.ModuleList(nn.Sequential(conv_bn(2 * o, o), conv_bn(o, o)) for _, o in pairs)
        self.out = nn.Conv2d(widths[0], 2, 1)

    def forward(self, x):
        skips = []
        for i, block in enumerate(self.down):
            x = block(F.max_pool2d(x, 2) if i else x)
            skips.append(x)
        for up, merge, skip in zip(self.up, self.merge, skips[-2::-1]):
            x = up(x)
            if self.pad:
                h, w = skip.size(2) - x.size(2), skip.size(3) - x.size(3)
                x = F.pad(x, [w // 2, w - w // 2, h // 2, h - h // 2])
            x = merge(torch.cat([skip, x], 1))
        return self.out(x)


# ---- YOLO: SiLU, CSP blocks, two scales, decoding by Reshape and a grid of computed size ------------------------

class CSP(nn.Module):
    def __init__(self, c):
        super().__init__()
        h = c // 2
        self.a, self.b = conv_bn(c, h, 1, act=nn.SiLU()), conv_bn(c, h, 1, act=nn.SiLU())
        self.m = nn.Sequential(conv_bn(h, h, 1, act=nn.SiLU()), conv_bn(h, h, 3, act=nn.SiLU()))
        self.c = conv_bn(2 * h, c, 1, act=nn.SiLU())

    def forward(self, x):
        a = self.a(x)
        return self.c(torch.cat([a + self.m(a), self.b(x)], 1))


class Yolo(nn.Module):
    def __init__(self, classes=5, anchors=3):
        super().__init__()
        act = nn.SiLU()
        self.na, self.no = anchors, classes + 5
        self.stem = nn.Sequential(conv_bn(3, 16, 3, 2, act=act), conv_bn(16, 32, 3, 2, act=act), CSP(32))
        self.deep = nn.Sequential(conv_bn(32, 64, 3, 2, act=act), CSP(64), conv_bn(64, 64, 1, act=act))
        self.pools = nn.ModuleList(nn.MaxPool2d(k, 1, k // 2) for k in (5, 9))
        self.sppf = conv_bn(192, 64, 1, act=act)
        self.lateral = conv_bn(64, 32, 1, act=act)
        self.neck = nn.Sequential(conv_bn(64, 32, 1, act=act), CSP(32))
        self.heads = nn.ModuleList(nn.Conv2d(c, anchors * self.no, 1) for c in (32, 64))
        self.register_buffer("anchors", torch.rand(2, anchors, 2) * 40 + 8)

    def decode(self, x, head, stride, anchors):
        b, _, h, w = x.shape
        y = head(x).view(b, self.na, self.no, h, w).permute(0, 1, 3, 4, 2).contiguous().sigmoid()
        gy = torch.arange(h, dtype=torch.float32).view(1, 1, -1, 1, 1)
        gx = torch.arange(w, dtype=torch.float32).view(1, 1, 1, -1, 1)
        grid = torch.cat([gx.expand(1, 1, h, w, 1), gy.expand(1, 1, h, w, 1)], -1)
        xy = (y[..., 0:2] * 2 - 0.5 + grid) * stride
        wh = (y[..., 2:4] * 2) ** 2 * anchors.view(1, self.na, 1, 1, 2)
        return torch.cat([xy, wh, y[..., 4:]], -1).view(b, -1, self.no)

    def forward(self, x):
        fine = self.stem(x)
        deep = self.deep(fine)
        deep = self.sppf(torch.cat([deep] + [p(deep) for p in self.pools], 1))
        up = F.interpolate(self.lateral(deep), scale_factor=2.0, mode="nearest")
        fine = self.neck(torch.cat([up, fine], 1))
        return torch.cat([self.decode(x, *rest) for x, *rest in zip((fine, deep), self.heads, (4, 8), self.anchors)], 1)


# ---- SE-ResNeXt: grouped convolutions, squeeze and excitation, residual sums ------------------------------------

class SEBlock(nn.Module):
    def __init__(self, cin, cout, stride, groups=4):
        super().__init__()
        mid = cout // 2
        self.body = nn.Sequential(conv_bn(cin, mid, 1), conv_bn(mid, mid, 3, stride, groups), conv_bn(mid, cout, 1, act=None))
        self.squeeze = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Conv2d(cout, cout // 4, 1), nn.ReLU(),
                                     nn.Conv2d(cout // 4, cout, 1), nn.Sigmoid())
        self.short = conv_bn(cin, cout, 1, stride, act=None) if stride > 1 or cin != cout else nn.Identity()

    def forward(self, x):
        y = self.body(x)
        return F.relu(y * self.squeeze(y) + self.short(x))


class SEResNeXt(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Sequential(conv_bn(3, 32, 3, 2), nn.MaxPool2d(3, 2, 1))
        self.body = nn.Sequential(SEBlock(32, 64, 1), SEBlock(64, 64, 1), SEBlock(64, 128, 2), SEBlock(128, 128, 1))
        self.head = nn.Linear(128, 10)

    def forward(self, x):
        return self.head(F.adaptive_avg_pool2d(self.body(self.stem(x)), 1).flatten(1))


# ---- recurrent: embedding and two bidirectional LSTM layers; 1-D convolutions and a GRU -------------------------

class LSTMTagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(100, 32)
        self.lstm = nn.LSTM(32, 48, 2, bidirectional=True, batch_first=True)
        self.hidden, self.head = nn.Linear(96, 64), nn.Linear(64, 9)

    def forward(self, ids):
        y, _ = self.lstm(self.embed(ids))
        return self.head(F.relu(self.hidden(y)))


class GRUSpeech(nn.Module):
    def __init__(self):
        super().__init__()
        self.front = nn.Sequential(nn.Conv1d(20, 48, 5, 2, 2), nn.BatchNorm1d(48), nn.ReLU(),
                                   nn.Conv1d(48, 64, 3, 1, 1), nn.BatchNorm1d(64), nn.ReLU())
        self.gru = nn.GRU(64, 48, 1, batch_first=True)
        self.hidden, self.head = nn.Linear(48, 64), nn.Linear(64, 12)

    def forward(self, x):
        y, _ = self.gru(self.front(x).transpose(1, 2))
        return F.log_softmax(self.head(F.relu(self.hidden(y))), -1)


# ---- transformers -----------------------------------------------------------------------------------------------

class Attention(nn.Module):
    """Heads by view() with computed sizes, as most PyTorch code writes them."""

    def __init__(self, d, heads):
        super().__init__()
        self.h, self.d = heads, d // heads
        self.q, self.k, self.v, self.o = (nn.Linear(d, d) for _ in range(4))

    def split(self, x):
        return x.view(x.size(0), -1, self.h, self.d).transpose(1, 2)

    def forward(self, x, mask, past=None):
        b, t, d = x.size()
        q, k, v = self.split(self.q(x)), self.split(self.k(x)), self.split(self.v(x))
        if past is not None:
            k, v = torch.cat([past[0], k], 2), torch.cat([past[1], v], 2)
        s = q @ k.transpose(-2, -1) / self.d ** 0.5 + mask
        y = (s.softmax(-1) @ v).transpose(1, 2).contiguous().view(b, t, d)
        return self.o(y), k, v


class Block(nn.Module):
    def __init__(self, d, heads, act, pre=True):
        super().__init__()
        self.pre, self.act, self.att = pre, act, Attention(d, heads)
        self.n1, self.n2 = nn.LayerNorm(d), nn.LayerNorm(d)
        self.up, self.down = nn.Linear(d, 4 * d), nn.Linear(4 * d, d)

    def forward(self, x, mask, past=None):
        if self.pre:
            y, k, v = self.att(self.n1(x), mask, past)
            x = x + y
            return x + self.down(self.act(self.up(self.n2(x)))), k, v
        y, k, v = self.att(x, mask, past)
        x = self.n1(x + y)
        return self.n2(x + self.down(self.act(self.up(x)))), k, v


class Encoder(nn.Module):
    """BERT: the mask of padding is an input, normalization after each sum."""

    def __init__(self, d=64, heads=4):
        super().__init__()
        self.token, self.position = nn.Embedding(50, d), nn.Embedding(64, d)
        self.norm = nn.LayerNorm(d)
        self.blocks = nn.ModuleList(Block(d, heads, F.gelu, False) for _ in range(2))
        self.pool, self.head = nn.Linear(d, d), nn.Linear(d, 3)

    def forward(self, ids, mask):
        m = (1.0 - mask[:, None, None, :].float()) * -10000.0
        x = self.norm(self.token(ids) + self.position(torch.arange(ids.size(1))[None]))
        for b in self.blocks:
            x = b(x, m)[0]
        return self.head(torch.tanh(self.pool(x[:, 0])))


def gelu_tanh(x):
    return 0.5 * x * (1.0 + torch.tanh(0.7978845608028654 * (x + 0.044715 * torch.pow(x, 3.0))))


class GPT(nn.Module):
    """Causal mask from a buffer, tied embedding, optional cache of keys and values.

    `compared`: the mask is compared positions instead; opset 9 has no Slice of computed size."""

    def __init__(self, cache, compared, d=64, heads=4, length=64):
        super().__init__()
        self.cache, self.compared = cache, compared
        self.token, self.position = nn.Embedding(50, d), nn.Embedding(length, d)
        self.blocks = nn.ModuleList(Block(d, heads, gelu_tanh) for _ in range(2))
        self.norm = nn.LayerNorm(d)
        self.register_buffer("causal", torch.full((length, length), -1e9).triu(1))

    def forward(self, ids, *past):
        p = past[0].size(2) if past else 0
        t = ids.size(1)
        at = torch.arange(t) + p
        x = self.token(ids) + self.position(at)
        mask = (torch.arange(p + t)[None] > at[:, None]).float() * -1e9 if self.compared else self.causal[p:p + t, :p + t]
        out = []
        for i, b in enumerate(self.blocks):
            x, k, v = b(x, mask, past[2 * i:2 * i + 2] if past else None)
            out += [k, v]
        logits = self.norm(x) @ self.token.weight.t()
        return (logits, *out) if self.cache else logits


def swin():
    from torchvision.models.swin_transformer import SwinTransformer
    return SwinTransformer([4, 4], 32, [2, 2], [2, 4], [4, 4], num_classes=10, stochastic_depth_prob=0.0)


def maxvit():
    from torchvision.models.maxvit import MaxVit
    return MaxVit((32, 32), 16, 4, [32, 64], [1, 1], 16, 0.0, num_classes=10)


def vit():
    """A class token and positions, which are neither layers nor embeddings; attention in one module."""
    from torchvision.models.vision_transformer import VisionTransformer
    model = VisionTransformer(32, 4, 2, 4, 64, 128, num_classes=10)
    nn.init.normal_(model.heads.head.weight)
    nn.init.normal_(model.class_token)
    return model


# ---- style transfer: reflection padding, instance or group normalization, residual blocks, upsampling ------------

class Style(nn.Module):
    def __init__(self, norm):
        super().__init__()

        def layer(i, o, k, s=1, relu=True):
            return [nn.ReflectionPad2d(k // 2), nn.Conv2d(i, o, k, s), norm(o)] + ([nn.ReLU()] if relu else [])
        self.head = nn.Sequential(*layer(3, 16, 9), *layer(16, 32, 3, 2), *layer(32, 64, 3, 2))
        self.res = nn.ModuleList(nn.Sequential(*layer(64, 64, 3), *layer(64, 64, 3, relu=False)) for _ in range(2))
        self.tail = nn.Sequential(nn.Upsample(scale_factor=2.0), *layer(64, 32, 3), nn.Upsample(scale_factor=2.0),
                                  *layer(32, 16, 3), nn.ReflectionPad2d(4), nn.Conv2d(16, 3, 9))

    def forward(self, x):
        x = self.head(x)
        for r in self.res:
            x = x + r(x)
        return self.tail(x)


# ---- the list -----------------------------------------------------------------------------------------------------

def images(*sizes):
    return {"x": {"shapes": [[b, 3, h, w] for b, h, w in sizes]}}


def tokens(name, *sizes):
    return {name: {"shapes": [list(s) for s in sizes], "kind": "ids", "below": 50, "type": "int64"}}


def cached(*sizes):
    past = {f"past{i}": {"shapes": [[b, 4, p, 16] for b, _, p in sizes]} for i in range(4)}
    return {**tokens("ids", *((b, t) for b, t, _ in sizes)), **past}


BHW = {"x": {0: "batch", 2: "height", 3: "width"}}
BT = {0: "batch", 1: "length"}
PAST = {f"past{i}": {0: "batch", 2: "past"} for i in range(4)}

# name: constructor for an opset, inputs at three shapes that differ in every free dimension (the first is traced), free dimensions
ARCHITECTURES = {
    "unet": (lambda opset: UNet(opset > 9), images((2, 24, 40), (3, 56, 32), (5, 72, 88)), BHW),
    "yolo": (lambda opset: Yolo(), images((2, 64, 96), (3, 104, 72), (5, 120, 136)), BHW),
    "seresnext": (lambda opset: SEResNeXt(), images((2, 48, 64), (3, 72, 56), (5, 40, 88)), BHW),
    "lstm": (lambda opset: LSTMTagger(), tokens("x", (2, 7), (3, 19), (5, 11)), {"x": BT}),
    "gru": (lambda opset: GRUSpeech(), {"x": {"shapes": [[2, 20, 30], [3, 20, 46], [5, 20, 22]]}}, {"x": {0: "batch", 2: "length"}}),
    "encoder": (lambda opset: Encoder(), {**tokens("ids", (2, 7), (3, 19), (5, 13)),
                                          "mask": {"shapes": [[2, 7], [3, 19], [5, 13]], "kind": "ids", "below": 2, "type": "int64"}},
                {"ids": BT, "mask": BT}),
    "gpt": (lambda opset: GPT(False, opset == 9), tokens("ids", (2, 7), (3, 19), (5, 13)), {"ids": BT}),
    "gpt_cache": (lambda opset: GPT(True, opset == 9), cached((2, 3, 5), (3, 6, 11), (5, 4, 9)), {"ids": BT, **PAST}),
    "swin": (lambda opset: swin(), images((2, 32, 32), (3, 32, 32), (5, 32, 32)), {"x": {0: "batch"}}),
    "maxvit": (lambda opset: maxvit(), images((2, 32, 32), (3, 32, 32), (5, 32, 32)), {"x": {0: "batch"}}),
    "vit": (lambda opset: vit(), images((2, 32, 32), (3, 32, 32), (5, 32, 32)), {"x": {0: "batch"}}),
    "style": (lambda opset: Style(lambda c: nn.InstanceNorm2d(c, affine=True)), images((2, 32, 48), (3, 64, 40), (5, 56, 72)), BHW),
    "style_groups": (lambda opset: Style(lambda c: nn.GroupNorm(4, c)), images((2, 32, 48), (3, 64, 40), (5, 56, 72)), BHW),
}

# What PyTorch cannot export.
IMPOSSIBLE = {
    ("swin", 9): "torchvision pads by computed sizes, which Pad takes from opset 11",
    ("maxvit", 9): "torch.onnx exports einsum, which its attention uses, from opset 12",
    ("maxvit", 11): "torch.onnx exports einsum, which its attention uses, from opset 12",
}


def randomize(model):
    """Biases, scales and running statistics that a trained network may have."""
    for module in model.modules():
        for name, p in list(module.named_parameters(recurse=False)) + list(module.named_buffers(recurse=False)):
            norm = isinstance(module, (nn.BatchNorm1d, nn.BatchNorm2d, nn.LayerNorm, nn.GroupNorm, nn.InstanceNorm2d))
            if name == "running_var" or (norm and name == "weight"):
                p.data = torch.rand_like(p) + 0.5
            elif name in ("bias", "running_mean"):
                p.data = torch.randn_like(p) * 0.2


def sample(spec):
    shape = spec["shapes"][0]
    return torch.randint(0, spec["below"], shape) if spec.get("kind") == "ids" else torch.randn(shape)


def export(name, opset, path):
    """Write the file unless it exists."""
    if os.path.exists(path):
        return
    make, inputs, axes = ARCHITECTURES[name]
    torch.manual_seed(1)
    model = make(opset).eval()
    randomize(model)
    args = tuple(sample(v) for v in inputs.values())
    n = 5 if name == "gpt_cache" else 1
    names = ["y"] + [f"present{i}" for i in range(n - 1)]
    # Without gradients nn.MultiheadAttention is one operator, which cannot be exported.
    with warnings.catch_warnings(), torch.set_grad_enabled(name == "vit"):
        warnings.simplefilter("ignore")
        torch.onnx.export(model, args, path + ".part", opset_version=opset, input_names=list(inputs), output_names=names,
                          dynamic_axes=dict(axes))
    os.rename(path + ".part", path)


def main():
    folder, names = sys.argv[1], sys.argv[2:] or list(ARCHITECTURES)
    os.makedirs(folder, exist_ok=True)
    for name in names:
        for opset in OPSETS:
            path = os.path.join(folder, f"{name}-{opset}.onnx")
            if (name, opset) in IMPOSSIBLE:
                print(f"{name}-{opset}: {IMPOSSIBLE[name, opset]}")
                continue
            export(name, opset, path)
            print(path)


if __name__ == "__main__":
    main()
