#!/usr/bin/python3
"""opset_upgrade.py - raise the opset of old models; ONNX Runtime must compute the same before and after.

usage: opset_upgrade.py BUILD_FOLDER [MODEL.onnx ...]

Without models: the small ones of tests/models/opsets.pack, and PyTorch exports of opsets 7 to 12.  Each is raised to
13, 18, 21 and 25 (pare export --opset) where that is higher.
"""
import os
import struct
import subprocess
import sys
import tempfile

import numpy as np
import onnx

os.environ["PARE_CACHE"] = ""

HERE = os.path.dirname(os.path.abspath(__file__))
PACK = os.path.join(HERE, "..", "models", "opsets.pack")
TARGETS = (13, 18, 21, 25)


def unpack(folder):
    """Write the models of the pack as files."""
    data = open(PACK, "rb").read()
    at, parts = 0, []
    while at < len(data):
        size = struct.unpack_from("<I", data, at)[0]
        parts.append(data[at + 4:at + 4 + size])
        at += 4 + size
    for name, model in zip(parts[::2], parts[1::2]):
        if b"_pare" not in name:
            path = os.path.join(folder, name.decode() + ".onnx")
            open(path, "wb").write(model)
            yield path


def exported(folder):
    """A network as PyTorch exports it with each old opset."""
    import torch
    from torch import nn

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv, self.norm = nn.Conv2d(3, 8, 3, stride=2, padding=1), nn.BatchNorm2d(8)
            self.pool, self.up = nn.AvgPool2d(2), nn.Upsample(scale_factor=2)
            self.line, self.drop = nn.Linear(8, 5), nn.Dropout(0.2)

        def forward(self, x):
            x = nn.functional.relu6(self.norm(self.conv(x)))
            x = nn.functional.pad(self.up(self.pool(x)), (1, 0, 2, 1), value=0.5)
            a, b = torch.split(x[:, :, 1:, :-1], 4, dim=1)
            x = torch.cat([a * b.sum(dim=1, keepdim=True), b.unsqueeze(1).squeeze(1)], 1)
            x = self.drop(x).mean(dim=(2, 3))
            return torch.softmax(self.line(x), dim=1)

    for opset in (9, 10, 11, 12):
        path = os.path.join(folder, f"torch-{opset}.onnx")
        torch.manual_seed(1)
        torch.onnx.export(Net().eval(), torch.zeros(1, 3, 16, 16), path, opset_version=opset, input_names=["x"],
                          dynamic_axes={"x": {0: "N"}})
        yield path


def feed(path, model):
    """Write random inputs as an .npz file."""
    rng, arrays = np.random.default_rng(1), {}
    constants = {t.name for t in model.graph.initializer}
    for i in model.graph.input:
        if i.name in constants:
            continue
        t = i.type.tensor_type
        shape = [d.dim_value or (2 if k == 0 else 64 if len(t.shape.dim) == 4 else 3) for k, d in enumerate(t.shape.dim)]
        if len(shape) == 4 and shape[1] == 64:
            shape[1] = 3
        arrays[i.name] = rng.uniform(-1, 1, shape).astype({1: np.float32, 2: np.uint8, 6: np.int32, 7: np.int64}[t.elem_type])
    out = path + ".npz"
    np.savez(out, **arrays)
    return out


def main():
    build, models = sys.argv[1], sys.argv[2:]
    pare, node = os.path.join(build, "pare"), os.path.join(build, "node", "node_modules")
    with tempfile.TemporaryDirectory(prefix="opsets-", dir=build) as work:
        paths = models or [*unpack(work), *exported(work)]
        jobs, pairs = [], []
        for path in paths:
            model = onnx.load(path)
            base = os.path.join(work, os.path.basename(path))
            x = feed(base, model)
            jobs += [path, x, base + ".npy"]
            opset = next(o.version for o in model.opset_import if o.domain in ("", "ai.onnx"))
            last = 21 if "roi_align" in path else 99  # ONNX Runtime has no RoiAlign of opset 22
            for to in [t for t in TARGETS if opset < t <= last]:
                raised = f"{base}.{to}.onnx"
                subprocess.run([pare, "export", path, "--opset", str(to), "-o", raised, "--quiet"], check=True)
                jobs += [raised, x, raised + ".npy"]
                pairs.append((f"{os.path.basename(path)} to {to}", base + ".npy", raised + ".npy"))
        for i in range(0, len(jobs), 300):
            subprocess.run(["node", os.path.join(HERE, "ort.mjs"), *jobs[i:i + 300]], check=True,
                           env={**os.environ, "NODE_PATH": node})
        failed = 0
        for what, a, b in pairs:
            a, b = np.load(a), np.load(b)
            # ONNX Runtime removes Casts to float16 and back.
            tolerance = 1e-3 if "half" in what else 1e-6
            good = a.shape == b.shape and np.allclose(a, b, rtol=10 * tolerance,
                                                      atol=tolerance * max(1, float(np.abs(a).max(initial=0))))
            if not good:
                failed = 1
                print(f"FAIL {what}: {a.shape} and {b.shape}",
                      float(np.abs(a - b).max()) if a.shape == b.shape else "")
        print(f"{len(pairs)} raised models of {len(paths)} files, {'FAIL' if failed else 'ok'}")
        sys.exit(failed)


main()
