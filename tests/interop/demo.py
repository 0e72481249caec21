#!/usr/bin/env python3
"""demo.py - check the results of `make demo` in ONNX Runtime.

usage: demo.py BUILD_FOLDER

The network of the demo, trained and compressed by examples/demo.json:
    loses at most 1 point of accuracy, and its file is at least 6 times smaller
    runs at least twice as fast as the original, in Pare and in ONNX Runtime
    has the same outputs in Pare and in ONNX Runtime
    passes ONNX's checker
"""
import json
import os
import shutil
import sys
import tempfile

import numpy as np
import onnx

from interop import HERE, only, sh

failed = 0


def check(good, what):
    global failed
    print(("ok   " if good else "FAIL ") + what, flush=True)
    failed += not good


def main():
    build = os.path.abspath(sys.argv[1])
    pare = os.path.join(build, "pare")
    recipe = os.path.join(HERE, "..", "..", "examples", "demo.json")
    node = os.path.join(build, "node", "node_modules")
    work = tempfile.mkdtemp(prefix="demo-", dir=build)
    try:
        os.mkdir(os.path.join(work, "demo"))
        os.chdir(work)
        sh(pare, "new", "vgg7", "--input", "1,8,8", "--width", "0.5", "-o", "demo/fresh.onnx")
        sh(pare, "train", "demo/fresh.onnx", "--data", "digits", "--epochs", "5", "--batch", "64",
           "--optimizer", "adam", "--schedule", "cosine", "--seed", "1", "--threads", "1", "--quiet", "-o",
           "demo/digits.onnx")
        sh(pare, "compress", recipe, "--quiet")
        with open("demo/run.json") as f:
            run = json.load(f)
        before, after = run["input"], run["output"]
        check(before["accuracy"] - after["accuracy"] <= 0.01,
              "accuracy %.4f before, %.4f after" % (before["accuracy"], after["accuracy"]))
        check(before["bytes"] >= 6 * after["bytes"],
              "file: %.1f times smaller" % (before["bytes"] / after["bytes"]))
        check(before["seconds"] >= 2 * after["seconds"],
              "pare: %.2f times faster" % (before["seconds"] / after["seconds"]))
        ort = json.loads(sh("node", os.path.join(HERE, "race.mjs"), "3", "1", "1,1,8,8",
                            "demo/digits.onnx", "demo/small.onnx", NODE_PATH=node))
        check(ort[0] >= 2 * ort[1], "ONNX Runtime: %.2f times faster (%.0f us, then %.0f us)" %
              (ort[0] / ort[1], 1e6 * ort[0], 1e6 * ort[1]))
        onnx.checker.check_model("demo/small.onnx")
        x = np.random.default_rng(0).random((16, 1, 8, 8), dtype=np.float32)
        np.savez("x.npz", input=x)
        sh("node", os.path.join(HERE, "ort.mjs"), "demo/small.onnx", "x.npz", "ort.npy",
           NODE_PATH=node)
        sh(pare, "run", "demo/small.onnx", "--input", "x.npz", "--output", "pare.npz")
        a, b = only("ort.npy"), only("pare.npz")
        check(np.abs(a - b).max() <= 0.02 * np.abs(a).max(),
              "ONNX Runtime and Pare differ by %.2g of %.3g" % (np.abs(a - b).max(), np.abs(a).max()))
    finally:
        shutil.rmtree(work)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
