"""networks.py - the networks of `make bench`: files, inputs and what is compared."""
import fnmatch
import json
import os
import subprocess
import sys

import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))
TOOLS = os.path.join(HERE, "..", "tools")
REAL = os.path.join(HERE, "..", "tests", "real_models")
sys.path[:0] = [TOOLS, REAL]
import fetch_models  # noqa: E402
import real_models  # noqa: E402

INT8 = "-int8"          # suffix of models quantized by `pare quantize --preset int8`
TORCHVISION = ("lenet resnet18 resnet50 vgg16_bn mobilenet_v2 mobilenet_v3_small efficientnet_b0 "
               "shufflenet_v2_x1_0 densenet121 squeezenet1_1 googlenet inception_v3 regnet_y_400mf "
               "convnext_tiny vit_b_16").split()
SIDES = {"lenet": (1, 28), "inception_v3": (3, 299)}
with open(fetch_models.LIST) as f:
    SPECS = json.load(f)
SHIPPED_INT8 = [name for name, spec in SPECS.items() if spec.get("quantized")]
NO_INT8 = {"vits": "the length of its result changes"}  # its time with other weights says nothing
GROUPS = {"torchvision": TORCHVISION,
          "torchvision-int8": [n + INT8 for n in TORCHVISION],
          "real": list(SPECS),
          "real-int8": [n + INT8 for n in SPECS if n not in SHIPPED_INT8 and n not in NO_INT8]}
NAMES = sum(GROUPS.values(), [])


def quantize(build, source, data, target):
    if not os.path.exists(target):
        subprocess.run([os.path.join(build, "pare"), "quantize", source, "--preset", "int8", "--data", data,
                        "--valid", "none", "-q", "-o", target], check=True, stderr=subprocess.DEVNULL)


class Exported:
    """A network of tools/export_models.py with random weights; PyTorch runs the float32 ones, too."""

    def __init__(self, build, name):
        self.name, self.base = name, name.removesuffix(INT8)
        self.torch, self.group, self.batches = name == self.base, "torchvision", (1, 8)
        self.tolerance = 1e-4 if self.torch else None
        folder = os.path.join(build, "models")
        subprocess.run([sys.executable, os.path.join(TOOLS, "export_models.py"), folder, "--one", self.base], check=True,
                       stdout=subprocess.DEVNULL)
        self.path = os.path.join(folder, self.base + ".onnx")
        told = subprocess.run([os.path.join(build, "pare"), "inspect", self.path, "--json"], check=True, text=True,
                              stdout=subprocess.PIPE).stdout
        self.input = json.loads(told)["inputs"][0]["name"]
        if not self.torch:
            float_path, self.path = self.path, os.path.join(build, "bench", name + ".onnx")
            data = os.path.join(build, "bench", name + ".npz")
            np.savez(data, **self.inputs(8, 1), y=np.zeros(8, np.int64))
            quantize(build, float_path, data, self.path)

    def inputs(self, batch, seed=None):
        """Images of the scale with which the random networks were calibrated; far from it some networks are chaotic,
        and any two correct programs differ."""
        channels, side = SIDES.get(self.base, (3, 224))
        rng = np.random.default_rng(batch if seed is None else seed)
        return {self.input: rng.standard_normal((batch, channels, side, side), np.float32) * np.float32(0.3)}


class Real:
    """A model that others ship (tests/real_models/models.json), at the shapes of its entry `bench`."""

    def __init__(self, build, name):
        self.name, base = name, name.removesuffix(INT8)
        self.spec = SPECS[base]
        integers = name != base or base in SHIPPED_INT8
        self.torch, self.group = False, "real int8" if integers else "real"
        self.tolerance = None if integers else max(1e-3, 4 * self.spec.get("tolerance", 0))
        free = any("N" in (s["shape"] if isinstance(s, dict) else s) for s in self.spec["bench"].values())
        self.batches = (1, 4) if free else (1,)
        folder = os.path.join(build, "real_models")
        os.makedirs(folder, exist_ok=True)
        self.path = fetch_models.fetch(base, self.spec, folder)
        self.subject = real_models.Subject(base, self.spec, self.path, build, os.path.join(build, "bench", "real"), None)
        if name != base:
            float_path, self.path = self.path, os.path.join(build, "bench", name + ".onnx")
            quantize(build, float_path, self.subject.calibration(), self.path)

    def inputs(self, batch):
        rng = np.random.default_rng(batch)
        found = {}
        for name, value in self.subject.inputs.items():
            want = next(w for p, w in self.spec["bench"].items() if name == p or fnmatch.fnmatch(name, p.replace("[", "[[]")))
            value = {**value, **(want if isinstance(want, dict) else {"shape": want})}
            value["shapes"] = [[batch if d == "N" else d for d in value["shape"]]]
            found[name] = self.subject.array(value, 0, rng)
        return found


def make(build, name):
    return (Exported if name.removesuffix(INT8) in TORCHVISION else Real)(build, name)
