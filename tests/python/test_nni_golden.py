# test_nni_golden.py - masks and scales of NNI's classes here, and of the command, against numbers that NNI computed.
import json
import os
import subprocess
import unittest

import numpy as np

from common import ROOT, Folder, command, pare

from pare.nni.compression import torch as nni

try:
    import torch
except ImportError:
    torch = None

LAYERS = ("conv1", "conv2", "fc1", "fc2")
# Name in the file, NNI's class, pruner, sparsity, types; see tools/golden_nni.py.
PRUNERS = (("level", "LevelPruner", 0.7, ["default"]), ("l1", "L1FilterPruner", 0.5, ["Conv2d"]),
           ("l2", "L2FilterPruner", 0.5, ["Conv2d"]), ("fpgm", "FPGMPruner", 0.5, ["Conv2d"]))

if torch is not None:
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


@unittest.skipUnless(torch, "needs PyTorch")
class Golden(Folder):
    """Numbers of NNI 1.9 (pruners) and 2.10.1 (quantizers), tests/golden/nni.npz."""

    @classmethod
    def setUpClass(cls):
        cls.golden = dict(np.load(os.path.join(ROOT, "tests", "golden", "nni.npz")))

    def net(self):
        net = Net()
        net.load_state_dict({k[2:]: torch.from_numpy(v) for k, v in self.golden.items() if k.startswith("w|")})
        return net

    def expected(self, name):
        return {l: self.golden["%s|%s" % (name, l)] for l in LAYERS if "%s|%s" % (name, l) in self.golden}

    def check(self, name, masks):
        expected = self.expected(name)
        self.assertEqual(set(masks), set(expected))
        for layer, mask in masks.items():
            np.testing.assert_array_equal(mask, expected[layer], "%s of %s" % (name, layer))

    def test_masks_of_a_module(self):
        for name, cls, sparsity, kinds in PRUNERS:
            net = self.net()
            optimizer = torch.optim.SGD(net.parameters(), lr=0.05)
            getattr(nni, cls)(net, [{"sparsity": sparsity, "op_types": kinds}], optimizer).compress()
            self.check(name, {l: getattr(net, l).weight_mask.numpy() != 0 for l in self.expected(name)})

    def test_masks_of_a_model(self):
        for name, cls, sparsity, kinds in PRUNERS:
            model = pare.load(self.net(), input_shape=(1, 1, 8, 8))
            pruner = getattr(nni, cls)(model, [{"sparsity": sparsity, "op_types": kinds}])
            pruner.compress()
            self.check(name, {w.name: np.asarray(w.weight_mask) != 0 for w in pruner.get_modules_wrapper()})

    def test_masks_of_the_command(self):
        pare.load(self.net(), input_shape=(1, 1, 8, 8)).save("m.onnx")
        for name, _, sparsity, kinds in PRUNERS:
            with open("config.json", "w", encoding="utf-8") as f:
                json.dump([{"sparsity": sparsity, "op_types": kinds}], f)
            subprocess.run([command(self), "prune", "m.onnx", "--pruner", name, "--config", "config.json", "-q", "-o",
                            "p.onnx"], check=True)
            model = pare.load("p.onnx")
            self.check(name, {l: model[l + ".weight"] != 0 for l in self.expected(name)})

    def test_gradual_masks_of_a_module(self):
        net = self.net()
        optimizer = torch.optim.SGD(net.parameters(), lr=0.05)
        pruner = nni.AGPPruner(net, [{"initial_sparsity": 0.0, "final_sparsity": 0.8, "start_epoch": 0, "end_epoch": 4,
                                      "frequency": 1, "op_types": ["Conv2d", "Linear"]}], optimizer)
        pruner.compress()
        for epoch in range(5):
            pruner.update_epoch(epoch)
            self.check("agp%d" % epoch, {l: getattr(net, l).weight_mask.numpy() != 0 for l in LAYERS})

    def check_scales(self, step, scale_of, sites=("weight", "input", "output")):
        for layer in LAYERS:
            for site in sites:
                scale, zero = self.golden["qat%d|%s|%s" % (step, layer, site)]
                got, zero_got = scale_of(layer, site)
                np.testing.assert_allclose(got, scale, rtol=2e-5, err_msg="step %d, %s of %s" % (step, site, layer))
                self.assertEqual(zero_got, zero, "zero point, step %d, %s of %s" % (step, site, layer))

    CONFIG = [{"quant_types": ["weight", "input", "output"], "quant_bits": {"weight": 8, "input": 8, "output": 8},
               "op_types": ["Conv2d", "Linear"]}]

    def test_qat_scales_of_a_module(self):
        net, x, y = self.net(), torch.from_numpy(self.golden["x"]), torch.from_numpy(self.golden["y"])
        optimizer = torch.optim.SGD(net.parameters(), lr=0.05)
        nni.QAT_Quantizer(net, self.CONFIG, optimizer, x[0]).compress()

        def scale_of(layer, site):
            m = getattr(net, layer).module
            return float(getattr(m, site + "_scale")), float(getattr(m, site + "_zero_point"))

        for i in range(len(x)):
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(net(x[i]), y[i]).backward()
            optimizer.step()
            self.check_scales(i, scale_of)
        net.eval()
        # A value at the border of two steps may be rounded to the other one.
        different = np.abs(net(x[0]).detach().numpy() - self.golden["qat|outputs"])
        self.assertLess(different.max(), 1.01 * float(net.fc2.module.output_scale))
        self.assertLess((different > 1e-6).mean(), 0.15)

    def test_qat_scales_of_a_model(self):
        model = pare.load(self.net(), input_shape=(1, 1, 8, 8))
        training = pare.Training(model, optimizer="sgd", lr=0.05, momentum=0, weight_decay=0, schedule="constant",
                                 threads=1, progress=False)
        q = nni.QAT_Quantizer(model, self.CONFIG, training)
        q.compress()
        layers = {w.name: w.layer for w in q.get_modules_wrapper()}

        def scale_of(layer, site):
            return float(layers[layer].scale(site)), float(layers[layer].zero_point(site))

        for i, (x, y) in enumerate(zip(self.golden["x"], self.golden["y"])):
            if i > 0:                                    # those of weights are of the last step's result here
                self.check_scales(i, scale_of, ("weight",))
            training.step(x, y)
            self.check_scales(i, scale_of, ("input", "output"))


@unittest.skipUnless(torch, "needs PyTorch")
class Cases(unittest.TestCase):
    """Cases of NNI's own tests with numbers that can be calculated by hand."""

    def net(self):
        net = torch.nn.Sequential()
        net.add_module("conv1", torch.nn.Conv2d(1, 5, 5))
        net.add_module("bn1", torch.nn.BatchNorm2d(5))
        net.add_module("conv2", torch.nn.Conv2d(5, 10, 5))
        net.add_module("bn2", torch.nn.BatchNorm2d(10))
        return net

    def fill(self, conv, values):
        with torch.no_grad():
            for i, v in enumerate(values):
                conv.weight[i].fill_(v)

    def removed(self, layer):
        per_filter = layer.weight_mask.flatten(1).sum(1)
        self.assertLessEqual(set(per_filter.tolist()), {0.0, float(layer.weight_mask[0].numel())})
        return [i for i, v in enumerate(per_filter.tolist()) if v == 0]

    def test_fpgm(self):
        for sparsity, expected in ((0.2, [4, 5]), (0.6, [2, 3, 4, 5, 6, 7])):
            net = self.net()
            self.fill(net.conv2, range(1, 11))
            nni.FPGMPruner(net, [{"sparsity": 0.1, "op_types": ["Conv2d"]},
                                 {"sparsity": sparsity, "op_names": ["conv2"]}]).compress()
            self.assertEqual(self.removed(net.conv2), expected)

    def test_l1(self):
        net = self.net()
        self.fill(net.conv1, range(5))
        self.fill(net.conv2, range(10))
        nni.L1FilterPruner(net, [{"sparsity": 0.2, "op_names": ["conv1"]},
                                 {"sparsity": 0.6, "op_names": ["conv2"]}]).compress()
        self.assertEqual(self.removed(net.conv1), [0])
        self.assertEqual(self.removed(net.conv2), [0, 1, 2, 3, 4, 5])
        self.assertEqual(net.conv2.bias_mask.tolist(), [0] * 6 + [1] * 4)

    def test_slim(self):
        for sparsity, second, expected in ((0.2, -1, [0, 1, 1, 1, 1]), (0.6, 1, [0, 0, 0, 1, 1])):
            net = torch.nn.Sequential()
            net.add_module("bn1", torch.nn.BatchNorm2d(5))
            net.add_module("bn2", torch.nn.BatchNorm2d(5))
            with torch.no_grad():
                net.bn1.weight.copy_(torch.arange(5.0))
                net.bn2.weight.copy_(second * torch.arange(5.0))
            nni.SlimPruner(net, [{"sparsity": sparsity, "op_types": ["BatchNorm2d"]}]).compress()
            for bn in (net.bn1, net.bn2):
                self.assertEqual(bn.weight_mask.tolist(), expected)
                self.assertEqual(bn.bias_mask.tolist(), expected)

    def qat(self, weight, bias=None, types=("weight",), **more):
        net = torch.nn.Sequential(torch.nn.Linear(weight.shape[1], weight.shape[0]))
        with torch.no_grad():
            net[0].weight.copy_(weight)
            net[0].bias.copy_(torch.zeros(len(weight)) if bias is None else bias)
        optimizer = torch.optim.SGD(net.parameters(), lr=0.0)
        nni.QAT_Quantizer(net, [{"quant_types": list(types), "quant_bits": 8, "op_types": ["Linear"], **more}],
                          optimizer).compress()
        return net

    def test_qat_weights(self):
        m = self.qat(torch.tensor([[1.0, 2], [3, 5]]))[0].module
        self.assertAlmostEqual(float(m.scale), 5 / 255, 7)
        self.assertEqual(float(m.zero_point), 0)
        m = self.qat(torch.tensor([[-1.0, 2], [3, 5]]))[0].module
        self.assertAlmostEqual(float(m.scale), 6 / 255, 7)
        self.assertEqual(float(m.zero_point), 42)                # 42.5, to even
        bias = torch.tensor([2.3432, 3.4342])
        m = self.qat(torch.tensor([[1.1287, 2.3456], [3.7814, 5.9723]]), bias)[0].module
        np.testing.assert_allclose(m.weight.detach().numpy(), [[1.1242, 2.3421], [3.7707, 5.9723]], rtol=1e-4)
        np.testing.assert_allclose(m.bias.detach().numpy(), bias.numpy(), rtol=1e-7)

    def test_qat_output_range(self):
        """The first batch as it is, then 1 % of each batch."""
        net = self.qat(torch.eye(2), types=("output",))
        net.train()
        for x, low, high in (([[-0.2, 0], [0.1, 0.2]], -0.2, 0.2), ([[0.2, 0.4], [0.6, 0.8]], -0.196, 0.206)):
            net(torch.tensor(x))
            m = net[0].module
            scale, zero = float(m.output_scale), float(m.output_zero_point)
            self.assertAlmostEqual(scale, (high - low) / 255, 7)
            self.assertAlmostEqual(-zero * scale, low, 2)

    def test_qat_schemes(self):
        weight = torch.arange(1.0, 19).reshape(2, 1, 3, 3)
        for scheme, dtype, scale, zero in (
                ("per_channel_symmetric", "int", (9 / 127, 18 / 127), 0),
                ("per_tensor_symmetric", "int", (18 / 127,), 0),
                ("per_channel_affine", "uint", (9 / 255, 18 / 255), 0),
                ("per_tensor_affine", "uint", (18 / 255,), 0),
                ("per_tensor_affine", "int", (18 / 254,), -127)):
            net = torch.nn.Sequential(torch.nn.Conv2d(1, 2, 3))
            with torch.no_grad():
                net[0].weight.copy_(weight)
            nni.QAT_Quantizer(net, [{"quant_types": ["weight"], "quant_bits": 8, "op_types": ["Conv2d"],
                                     "quant_scheme": scheme, "quant_dtype": dtype}],
                              torch.optim.SGD(net.parameters(), lr=0.0)).compress()
            m, what = net[0].module, "%s %s" % (scheme, dtype)
            np.testing.assert_allclose(m.weight_scale.flatten().numpy(), scale, rtol=1e-6, err_msg=what)
            np.testing.assert_array_equal(m.weight_zero_point.flatten().numpy(), [zero] * len(scale), what)


if __name__ == "__main__":
    unittest.main()
