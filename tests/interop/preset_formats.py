#!/usr/bin/python3
"""preset_formats.py - presets int8-dynamic, int8-weights, fp16 and bf16 in Pare and in ONNX Runtime.

usage: preset_formats.py BUILD_FOLDER

PyTorch exports a model with convolutions, an embedding, linear layers, LSTM and GRU, and an encoder with
a mask and LayerNorm as single operators, with free dimensions.  At two sizes, with and without ONNX
Runtime's optimizations, the outputs of Pare equal those of ONNX Runtime and are near the float model's.
"""
import os
import shutil
import sys
import tempfile

import numpy as np
import torch
from torch import nn

from interop import HERE, Check, only, sh

# preset, largest difference from ONNX Runtime and from the float model, relative to the largest output
PRESETS = (("int8-dynamic", 5e-3, 0.08), ("int8-weights", 1e-5, 0.05), ("fp16", 2e-3, 4e-3),
           ("bf16", 1e-5, 0.02))


class Mixed(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 16, 3, 2, padding=1)
        self.depthwise = nn.Conv2d(16, 16, 3, padding=1, groups=16, bias=False)
        self.conv1 = nn.Conv1d(16, 24, 3, padding=2, dilation=2)
        self.table = nn.Embedding(50, 24)
        self.linear, self.plain = nn.Linear(24, 32), nn.Linear(32, 40, bias=False)
        self.lstm = nn.LSTM(40, 20, batch_first=True, bidirectional=True)
        self.gru, self.out = nn.GRU(40, 12, batch_first=True), nn.Linear(12, 5)

    def forward(self, x, t):
        x = torch.relu(self.depthwise(torch.relu(self.conv(x)))).flatten(2)
        x = torch.relu(self.conv1(x)).transpose(1, 2) + self.table(t).mean(1, keepdim=True)
        x, _ = self.lstm(self.plain(torch.relu(self.linear(x))))
        return self.out(self.gru(x)[0])


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(100, 32)
        self.q, self.k, self.v, self.o = (nn.Linear(32, 32) for _ in range(4))
        self.up, self.down = nn.Linear(32, 64), nn.Linear(64, 32)
        self.gain, self.shift = nn.Parameter(torch.rand(32)), nn.Parameter(torch.rand(32))

    def norm(self, x):
        d = x - x.mean(-1, keepdim=True)
        return d / torch.sqrt(d.pow(2).mean(-1, keepdim=True) + 1e-12) * self.gain + self.shift

    def forward(self, x, t):
        b, n = t.shape
        heads = lambda y: y.view(b, n, 4, 8).transpose(1, 2)
        mask = (1 - (t[:, None, None, :] > 5).float()) * torch.finfo(torch.float32).min
        y = self.norm(self.table(t) * 300 + x)      # the squares overflow float16
        a = torch.softmax(heads(self.q(y)) @ heads(self.k(y)).transpose(2, 3) / 3 + mask, -1)
        y = self.norm(y + self.o((a @ heads(self.v(y))).transpose(1, 2).reshape(b, n, 32)))
        y = self.norm(y + self.down(nn.functional.gelu(self.up(y))))
        return nn.functional.normalize(y.sum(1), dim=-1)


MODELS = {
    "mixed": (Mixed, {"x": {0: "B", 2: "H", 3: "W"}, "t": {0: "B", 1: "T"}}, 50,
              (((2, 3, 8, 8), (2, 7)), ((3, 3, 12, 20), (3, 4)))),
    "encoder": (Encoder, {"x": {0: "B", 1: "T"}, "t": {0: "B", 1: "T"}}, 100,
                (((2, 5, 32), (2, 5)), ((3, 12, 32), (3, 12)))),
}


def runtime(build, work, path, x, level):
    out = os.path.join(work, "ort.npy")
    sh("node", os.path.join(HERE, "ort.mjs"), path, x, out, ORT_LEVEL=level,
       NODE_PATH=os.path.join(build, "node", "node_modules"))
    return only(out)


def pare(build, work, path, x):
    out = os.path.join(work, "pare.npz")
    sh(os.path.join(build, "pare"), "run", path, "--input", x, "--output", out)
    return only(out)


def main():
    build, check = sys.argv[1], Check()
    work = tempfile.mkdtemp(prefix="formats-", dir=build)
    torch.manual_seed(0)
    for name, (make, axes, words, sizes) in MODELS.items():
        model = os.path.join(work, name + ".onnx")
        torch.onnx.export(make().eval(), (torch.randn(sizes[0][0]), torch.randint(words, sizes[0][1])),
                          model, input_names=["x", "t"], output_names=["y"], opset_version=13,
                          dynamic_axes={**axes, "y": {0: "B"}})
        for preset, to_ort, to_float in PRESETS:
            path = os.path.join(work, "small.onnx")
            sh(os.path.join(build, "pare"), "quantize", model, "--preset", preset, "-q", "-o", path)
            for size in sizes:
                x = os.path.join(work, "x.npz")
                np.savez(x, x=np.random.default_rng(1).standard_normal(size[0]).astype("f"),
                         t=np.random.default_rng(2).integers(0, words, size[1]))
                mine, float_out = pare(build, work, path, x), pare(build, work, model, x)
                for level in ("all", "disabled"):
                    check.same(f"{name} {preset} {size[0]}, ONNX Runtime {level}", mine,
                               runtime(build, work, path, x, level), to_ort)
                check.same(f"{name} {preset} {size[0]}, float model", mine, float_out, to_float)
    shutil.rmtree(work)
    return 1 if check.failed else 0


if __name__ == "__main__":
    sys.exit(main())
