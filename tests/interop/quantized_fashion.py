#!/usr/bin/python3
"""quantized_fashion.py - an int8 LeNet on Fashion-MNIST, in Pare and in ONNX Runtime.

usage: quantized_fashion.py BUILD_FOLDER [MODEL]

Without a model, one is trained for one epoch.  For at least 99 % of the 10,000 test images, in both
formats, the two programs must predict the same class.
"""
import gzip
import os
import shutil
import sys
import tempfile

import numpy as np

from interop import HERE, Check, only, sh
from pruned import true

FOLDER = "/usr/share/datasets/fashion-mnist"
MEAN, STD = 0.286, 0.353
BATCH = 1000


def test_images():
    with gzip.open(os.path.join(FOLDER, "t10k-images-idx3-ubyte.gz")) as f:
        raw = np.frombuffer(f.read(), np.uint8, offset=16)
    return ((raw.reshape(-1, 1, 28, 28) / np.float32(255) - np.float32(MEAN)) / np.float32(STD))


def main():
    build = sys.argv[1]
    pare, check = os.path.join(build, "pare"), Check()
    work = tempfile.mkdtemp(prefix="fashion-", dir=build)
    try:
        model = sys.argv[2] if len(sys.argv) > 2 else os.path.join(work, "lenet.onnx")
        if len(sys.argv) < 3:
            fresh = os.path.join(work, "fresh.onnx")
            sh(pare, "new", "lenet", "--input", "1,28,28", "--seed", "1", "-o", fresh)
            sh(pare, "train", fresh, "--data", "fashion-mnist", "--limit", "20000", "--epochs", "1",
               "--lr", "0.02", "--seed", "1", "-q", "-o", model)
        images = test_images()
        parts = [os.path.join(work, f"x{i}.npz") for i in range(0, len(images), BATCH)]
        name = None
        for kind in ("qdq", "qoperator"):
            path = os.path.join(work, kind + ".onnx")
            sh(pare, "quantize", model, "--preset", "int8", "--data", "fashion-mnist", "--limit",
               "512", "--valid", "none", "--format", kind, "-q", "-o", path)
            if not name:
                import onnx
                name = onnx.load(path).graph.input[0].name
                for i, part in enumerate(parts):
                    np.savez(part, **{name: images[i * BATCH:(i + 1) * BATCH]})
            jobs = [a for p in parts for a in (path, p, p + ".npy")]
            sh("node", os.path.join(HERE, "ort.mjs"), *jobs,
               NODE_PATH=os.path.join(build, "node", "node_modules"))
            same, most = 0, 0.0
            for p in parts:
                out = os.path.join(work, "pare.npz")
                sh(pare, "run", path, "--input", p, "--output", out)
                a, b = only(out), only(p + ".npy")
                same += int((a.argmax(1) == b.argmax(1)).sum())
                most = max(most, float(np.abs(a - b).max()))
            true(check, f"{kind}: the same class for {same} of {len(images)}, outputs differ by "
                 f"{most:.2g}", same >= 0.99 * len(images))
    finally:
        shutil.rmtree(work)
    return 1 if check.failed else 0


if __name__ == "__main__":
    sys.exit(main())
