#!/usr/bin/env python3
"""golden_nni.py - write masks and scales that NNI itself computes, for tests/python/test_nni_golden.py.

usage: tools/golden_nni.py FOLDER_1_9 FOLDER_2_10      writes tests/golden/nni.npz

The folders are checkouts of NNI's tags v1.9 (pruners) and v2.10.1 (quantizers).  Only NNI's modules for compression are
imported; what they import in addition and these algorithms do not call is replaced by an empty module.  Needs PyTorch, NumPy
and python3-schema.
"""
import importlib
import importlib.abc
import importlib.machinery
import os
import sys
import types
from unittest import mock

import numpy as np
import torch

from golden_prune import save

STEPS, BATCH, LR = 4, 8, 0.05


class Absent(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Modules that are not installed, as mocks."""

    NAMES = ("tensorboard", "cloudpickle", "colorama", "json_tricks", "websockets", "responses", "typeguard", "filelock",
             "yaml", "ruamel", "psutil", "requests", "prettytable", "simplejson", "astor", "hyperopt", "sklearn", "scipy",
             "pytorch_lightning", "torchvision", "tqdm")

    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in self.NAMES:
            return importlib.machinery.ModuleSpec(name, self, is_package=True)
        return None

    def create_module(self, spec):
        m = mock.MagicMock(name=spec.name)
        m.__path__, m.__spec__, m.__version__ = [], spec, "2.0.0"
        m.LightningModule = type("LightningModule", (), {})      # for isinstance()
        return m

    def exec_module(self, module):
        pass


def nni(folder, *names):
    """Modules of the package nni in a folder; nni/__init__.py, which starts much else, is not run."""
    for name in [n for n in sys.modules if n.split(".")[0] == "nni"]:
        del sys.modules[name]
    package = types.ModuleType("nni")
    package.__path__, package.__version__ = [folder], "1.0.0"
    sys.modules["nni"] = package
    return [importlib.import_module(n) for n in names]


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = torch.nn.Conv2d(1, 8, 3, padding=1)
        self.conv2 = torch.nn.Conv2d(8, 16, 3)
        self.fc1 = torch.nn.Linear(16 * 3 * 3, 32)
        self.fc2 = torch.nn.Linear(32, 10)

    def forward(self, x):
        x = torch.nn.functional.max_pool2d(torch.relu(self.conv2(torch.relu(self.conv1(x)))), 2)
        return self.fc2(torch.relu(self.fc1(x.flatten(1))))


def network(state):
    net = Net()
    net.load_state_dict(state)
    return net


def masks(out, name, net):
    for layer in ("conv1", "conv2", "fc1", "fc2"):
        wrapper = getattr(net, layer)
        if hasattr(wrapper, "weight_mask"):
            out["%s|%s" % (name, layer)] = wrapper.weight_mask.numpy() != 0


def pruners(out, pruning, state):
    for name, cls, sparsity, kinds in (("level", "LevelPruner", 0.7, ["default"]),
                                       ("l1", "L1FilterPruner", 0.5, ["Conv2d"]),
                                       ("l2", "L2FilterPruner", 0.5, ["Conv2d"]),
                                       ("fpgm", "FPGMPruner", 0.5, ["Conv2d"])):
        net = network(state)
        optimizer = torch.optim.SGD(net.parameters(), lr=LR)
        getattr(pruning, cls)(net, [{"sparsity": sparsity, "op_types": kinds}], optimizer).compress()
        masks(out, name, net)
    net = network(state)
    optimizer = torch.optim.SGD(net.parameters(), lr=LR)
    pruner = pruning.AGPPruner(net, [{"initial_sparsity": 0.0, "final_sparsity": 0.8, "start_epoch": 0, "end_epoch": 4,
                                      "frequency": 1, "op_types": ["Conv2d", "Linear"]}], optimizer)
    pruner.compress()
    for epoch in range(5):
        pruner.update_epoch(epoch)
        pruner.update_mask()
        masks(out, "agp%d" % epoch, net)


def quantizers(out, quantization, state, x, y):
    """Scales after each step of training, and what the network computes at the end."""
    config = [{"quant_types": ["weight", "input", "output"], "quant_bits": {"weight": 8, "input": 8, "output": 8},
               "op_types": ["Conv2d", "Linear"]}]
    net = network(state)
    optimizer = torch.optim.SGD(net.parameters(), lr=LR)
    quantizer = quantization.QAT_Quantizer(net, config, optimizer, torch.from_numpy(x[0]))
    quantizer.compress()
    for i in range(STEPS):
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(net(torch.from_numpy(x[i])), torch.from_numpy(y[i])).backward()
        optimizer.step()
        for layer in ("conv1", "conv2", "fc1", "fc2"):
            module = getattr(net, layer).module
            for site in ("weight", "input", "output"):
                out["qat%d|%s|%s" % (i, layer, site)] = np.array(
                    [float(getattr(module, site + "_scale")), float(getattr(module, site + "_zero_point"))], np.float32)
    net.eval()
    out["qat|outputs"] = net(torch.from_numpy(x[0])).detach().numpy()


def main():
    sys.meta_path.append(Absent())
    torch.manual_seed(3)
    state = {k: v.clone() for k, v in Net().state_dict().items()}
    rng = np.random.default_rng(3)
    x = rng.random((STEPS, BATCH, 1, 8, 8), dtype=np.float32)
    y = rng.integers(0, 10, (STEPS, BATCH))
    out = {"w|" + k: v.numpy() for k, v in state.items()}
    out["x"], out["y"] = x, y
    pruning, = nni(os.path.join(sys.argv[1], "src", "sdk", "pynni", "nni"), "nni.compression.torch")
    pruners(out, pruning, state)
    quantization, = nni(os.path.join(sys.argv[2], "nni"), "nni.algorithms.compression.pytorch.quantization")
    quantizers(out, quantization, state, x, y)
    save("nni.npz", out)


if __name__ == "__main__":
    main()
