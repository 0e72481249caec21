#!/usr/bin/python3
"""interop.py - compare the outputs of one network in Pare, PyTorch and ONNX Runtime.

usage: interop.py BUILD_FOLDER NAME

NAME is a model of tools/export_models.py, exported to BUILD_FOLDER/models if necessary, or
"digits" for the committed one.  Checked, for batch 1 and 2:
    pare run                    = PyTorch       to 1e-4 of the largest output
    pare run                    = ONNX Runtime  to 1e-4
    ONNX Runtime on the file that Pare saved = ONNX Runtime on the original, to 1e-6,
    and the same with external data.
"""
import os
import shutil
import subprocess
import sys
import tempfile

import numpy as np

os.environ["PARE_CACHE"] = ""  # neither read nor write the user's cache

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.join(HERE, "..", "..")


def sh(*command, **env):
    done = subprocess.run(command, env={**os.environ, **env}, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)}\n{done.stdout}\nexit code {done.returncode}")
    return done.stdout


def only(path):
    """The only array of an .npz or .npy file."""
    arrays = np.load(path)
    return arrays if path.endswith(".npy") else arrays[arrays.files[0]]


class Check:
    failed = 0

    def same(self, what, a, b, tolerance):
        if a.shape != b.shape:
            difference = f"{a.shape} instead of {b.shape}"
            good = False
        else:
            error = float(np.abs(a - b).max() / np.abs(b).max())
            difference = f"{error:.1e}"
            good = error <= tolerance and bool(np.isfinite(a).all())
        print(f"{'ok  ' if good else 'FAIL'} {what}: {difference}", flush=True)
        self.failed += not good


def files(build, name):
    """The paths of the model and of (input, PyTorch's output) for each batch size."""
    if name == "digits":
        folder = os.path.join(ROOT, "data", "digits")
        return os.path.join(folder, "digits.onnx"), [
            (os.path.join(folder, "sample.npz"), os.path.join(folder, "sample_logits.npz"))]
    folder = os.path.join(build, "models")
    # On a busy machine, PyTorch's threads must not spin while they wait for each other.
    sh(sys.executable, os.path.join(ROOT, "tools", "export_models.py"), folder, "--one", name,
       GOMP_SPINCOUNT="1000")
    base = os.path.join(folder, name)
    return base + ".onnx", [(f"{base}.x{n}.npz", f"{base}.y{n}.npz") for n in (1, 2)]


def main():
    build, name = sys.argv[1:]
    model, cases = files(build, name)
    check = Check()
    work = tempfile.mkdtemp(prefix="interop-", dir=build)
    try:
        saved, external = os.path.join(work, "saved.onnx"), os.path.join(work, "external.onnx")
        resave = os.path.join(build, "tests", "interop", "resave")
        sh(resave, model, saved)
        sh(resave, model, external, "--external")
        jobs = []
        for i, (x, _) in enumerate(cases):
            for kind, path in (("original", model), ("saved", saved), ("external", external)):
                jobs += [path, x, os.path.join(work, f"{kind}{i}.npy")]
        sh("node", os.path.join(HERE, "ort.mjs"), *jobs,
           NODE_PATH=os.path.join(build, "node", "node_modules"))
        for i, (x, y) in enumerate(cases):
            out = os.path.join(work, "pare.npz")
            sh(os.path.join(build, "pare"), "run", model, "--input", x, "--output", out)
            mine, torch, ort = only(out), only(y), only(os.path.join(work, f"original{i}.npy"))
            batch = f"{name}, batch {len(torch)}"
            check.same(f"{batch}: Pare = PyTorch", mine, torch, 1e-4)
            check.same(f"{batch}: Pare = ONNX Runtime", mine, ort, 1e-4)
            for kind in ("saved", "external"):
                again = only(os.path.join(work, f"{kind}{i}.npy"))
                check.same(f"{batch}: ONNX Runtime, {kind} by Pare = original", again, ort, 1e-6)
    finally:
        shutil.rmtree(work)
    return 1 if check.failed else 0


if __name__ == "__main__":
    sys.exit(main())
