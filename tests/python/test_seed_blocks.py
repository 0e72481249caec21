# test_seed_blocks.py - run the code blocks of NNI's documents literally, if the documents are here: *.txt in the folder
# PARE_SEEDS, or in shared/seeds next to the repository.  Only import lines are changed, and lines are added where a document
# leaves them open.
import copy
import glob
import os
import re
import textwrap
import unittest

import numpy as np

from common import ROOT, Folder, digits, pare

try:
    import torch
except ImportError:
    torch = None

SEEDS = sorted(glob.glob(os.path.join(os.environ.get("PARE_SEEDS") or os.path.join(os.path.dirname(ROOT), "shared", "seeds"),
                                      "*.txt")))
# Variables that a block returns and leaves to the reader: what computes them, added before the return.
OPEN = {"mask": "mask = wrapper.weight.abs() > torch.quantile(wrapper.weight.abs(), sparsity)",
        "new_weight": "new_weight = torch.round(weight * 64) / 64",
        "new_output": "new_output = torch.round(output * 16) / 16",
        "new_input": "new_input = torch.round(inputs[0] * 32) / 32"}


def blocks(path):
    """The code blocks of a document, Markdown or reStructuredText, without their indentation."""
    with open(path, encoding="utf-8") as f:
        text = f.read()
    found = re.findall(r"^```(?:python)\n(.*?)^```", text, flags=re.M | re.S)
    for m in re.finditer(r"^\.\. code-block:: (python|default|bash)\n\s*\n((?:[ ]+[^\n]*\n|\s*\n)+)", text, flags=re.M):
        found.append(textwrap.dedent(m.group(2)))
    return found


def now(code):
    """A block as a user writes it now: other import lines, and open parts filled in."""
    lines = []
    for line in code.split("\n"):
        new = re.sub(r"^(\s*)(from|import) nni\b", r"\1\2 pare.nni", line)
        m = re.match(r"^(\s*)return (?:\{'weight_mask': )?(mask|new_weight|new_output|new_input)\}?$", line)
        if m:
            lines.append(m.group(1) + OPEN[m.group(2)])
        lines.append(new)
    return "\n".join(lines)


def images(part):
    """The digits as 28 x 28, the size of the documents."""
    x, y = digits(part)
    x = np.pad(np.kron(x, np.ones((1, 1, 3, 3), np.float32)), ((0, 0), (0, 0), (2, 2), (2, 2)))
    return torch.from_numpy(x), torch.from_numpy(y)


if torch is not None:
    class Mnist(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.conv1 = torch.nn.Conv2d(1, 8, 5, stride=2)
            self.conv2 = torch.nn.Conv2d(8, 16, 5, stride=2)
            self.fc1 = torch.nn.Linear(16 * 4 * 4, 32)
            self.fc2 = torch.nn.Linear(32, 10)

        def forward(self, x):
            x = torch.relu(self.conv2(torch.relu(self.conv1(x))))
            return self.fc2(torch.relu(self.fc1(x.flatten(1))))


@unittest.skipUnless(torch and len(SEEDS) == 5, "needs PyTorch, and NNI's documents next to the repository")
class SeedBlocks(Folder):
    @classmethod
    def setUpClass(cls):
        torch.manual_seed(0)
        torch.set_num_threads(1)
        cls.data, cls.test = images("train"), images("test")
        cls.trained = Mnist()
        cls.train(cls.trained, torch.optim.Adam(cls.trained.parameters(), lr=3e-3), 4)
        cls.blocks = [blocks(p) for p in SEEDS]
        assert cls.accuracy(cls.trained) > 0.85, cls.accuracy(cls.trained)

    @classmethod
    def train(cls, model, optimizer, epochs=1, compressor=None, teacher=None):
        x, y = cls.data
        for epoch in range(epochs):
            if compressor is not None:
                compressor.update_epoch(epoch)
            for i in range(0, len(x), 64):
                optimizer.zero_grad()
                out = model(x[i:i + 64])
                loss = torch.nn.functional.cross_entropy(out, y[i:i + 64])
                if teacher is not None:
                    with torch.no_grad():
                        soft = torch.softmax(teacher(x[i:i + 64]) / 4, 1)
                    loss = loss + 16 * torch.nn.functional.kl_div(torch.log_softmax(out / 4, 1), soft,
                                                                  reduction="batchmean")
                loss.backward()
                optimizer.step()
                if compressor is not None:
                    compressor.step()

    @classmethod
    def accuracy(cls, model):
        x, y = cls.test
        training = model.training
        model.eval()
        with torch.no_grad():
            right = float((model(x).argmax(1) == y).float().mean())
        model.train(training)
        return right

    def setUp(self):
        super().setUp()
        self.model = copy.deepcopy(self.trained)
        self.names = {"torch": torch, "Mnist": Mnist, "model": self.model}

    def run_block(self, seed, index, contains):
        """Run a block with the names that are known so far; only import lines may have changed."""
        old = self.blocks[seed][index]
        self.assertIn(contains, old)
        new = now(old)
        kept = iter(new.split("\n"))
        changed = [line for line in old.split("\n") if not re.match(r"\s*(from|import) nni", line) and line not in kept]
        self.assertEqual(changed, [])
        exec(compile(new, "document %d, block %d" % (seed, index), "exec"), self.names)
        return self.names

    def test_every_block_is_here(self):
        self.assertEqual([len(b) for b in self.blocks], [4, 5, 4, 8, 2])

    def test_custom_pruner(self):
        from pare.nni.compression.torch import Pruner, WeightMasker
        for seed in (0, 2):
            model = copy.deepcopy(self.trained)
            self.names.update(Pruner=Pruner, WeightMasker=WeightMasker)
            self.run_block(seed, 0, "class MyMasker(WeightMasker)")
            names = self.run_block(seed, 1, "class MyPruner(Pruner)")
            optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
            pruner = names["MyPruner"](model, [{"sparsity": 0.5, "op_types": ["default"]}], optimizer)
            model = pruner.compress()
            self.assertAlmostEqual(float((model.fc1.module.weight == 0).float().mean()), 0.5, 2)
            mask = model.fc1.weight_mask.clone()
            self.train(model, optimizer, compressor=pruner)
            self.assertTrue(torch.equal(mask, model.fc1.weight_mask))
            self.assertGreater(self.accuracy(model), 0.8)

    def test_custom_quantizers(self):
        config = [{"quant_types": ["weight", "input", "output"], "quant_bits": 8, "op_types": ["Conv2d", "Linear"]}]
        for seed, index in ((0, 2), (2, 2), (4, 0)):
            model = copy.deepcopy(self.trained)
            names = self.run_block(seed, index, "class YourQuantizer(Quantizer)")
            quantizer = names["YourQuantizer"](model, config)
            quantizer.compress()
            optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
            self.train(model, optimizer, compressor=quantizer)
            out = model.conv1(self.test[0][:4]) * 16
            self.assertTrue(torch.equal(out, torch.round(out)))
            w = model.conv2.module.weight * 64
            self.assertTrue(torch.equal(w, torch.round(w)))
            self.assertGreater(self.accuracy(model), 0.8)

    def test_backward_functions(self):
        for seed, index, name in ((0, 3, "YourQuantizer"), (2, 3, "YourQuantizer"), (4, 1, "_YourQuantizer")):
            names = self.run_block(seed, index, "class ClipGrad(QuantGrad)")
            base = names[name]                       # the block has no quantize_output(); the base raises an error
            made = type(name, (base,), {"quantize_output": lambda self, output, **kwargs: torch.round(output * 16) / 16})
            layer = torch.nn.Sequential(torch.nn.Linear(4, 4))
            made(layer, [{"quant_types": ["output"], "quant_bits": 8, "op_types": ["Linear"]}]).compress()
            x = 3 * torch.randn(64, 4)
            layer(x).sum().backward()
            inside = layer[0].module(x).abs() <= 1
            self.assertTrue(0 < int(inside.sum()) < inside.numel())
            self.assertTrue(torch.equal(layer[0].module.bias.grad, inside.float().sum(0)))
            with self.assertRaises(NotImplementedError):
                plain = torch.nn.Sequential(torch.nn.Linear(4, 4))
                base(plain, [{"quant_types": ["output"], "quant_bits": 8, "op_types": ["Linear"]}]).compress()
                plain(x)

    def test_level_pruner_and_dorefa(self):
        names = self.run_block(1, 0, "pruner = LevelPruner(model, configure_list, optimizer)")
        self.train(names["model"], names["optimizer"], compressor=names["pruner"])
        self.assertAlmostEqual(float((names["model"].fc1.weight_mask == 0).float().mean()), 0.7, 2)
        self.assertGreater(self.accuracy(names["model"]), 0.6)
        names["model"] = copy.deepcopy(self.trained)
        names = self.run_block(1, 1, "quantizer = DoReFaQuantizer(model, configure_list, optimizer)")
        self.train(names["model"], names["optimizer"], compressor=names["quantizer"])
        self.assertLessEqual(len(torch.unique(names["model"].fc1.module.weight)), 256)

    def test_collectors(self):
        from pare.nni.compression.torch import Pruner, WeightMasker
        self.names.update(Pruner=Pruner, WeightMasker=WeightMasker)
        self.run_block(1, 2, "class MyMasker(WeightMasker)")
        names = self.run_block(2, 1, "class MyPruner(Pruner)")      # it makes a MyMasker, which collects

        def by_activation(self, sparsity, wrapper, wrapper_idx=None):
            mean = torch.cat(wrapper.collected_activation).mean((0, 2, 3))
            keep = mean > torch.quantile(mean, sparsity)
            return {"weight_mask": keep[:, None, None, None].expand_as(wrapper.weight)}

        names["MyMasker"].calc_mask = by_activation
        pruner = names["MyPruner"](self.model, [{"sparsity": 0.5, "op_types": ["Conv2d"]}], None)
        self.model(self.data[0][:64])
        pruner.compress()
        self.assertEqual(len(self.model.conv1.collected_activation), 1)
        self.assertEqual(tuple(self.model.conv2.collected_activation[0].shape[:2]), (64, 16))
        self.assertAlmostEqual(float(self.model.conv2.weight_mask.mean()), 0.5, 1)
        seen = []
        names.update(self=names["MyMasker"](self.model, pruner), collector=lambda *arguments: seen.append(arguments))
        self.run_block(1, 3, "self.pruner.remove_activation_collector(collector_id)")
        self.model(self.data[0][:64])
        self.assertEqual(seen, [])                   # added and removed

    def test_quantizer_base_class(self):
        from pare.nni.compression.torch import Compressor
        self.names["Compressor"] = Compressor
        names = self.run_block(1, 4, "class Quantizer(Compressor)")
        q = names["Quantizer"](self.model, [{"quant_types": ["weight"], "quant_bits": 8, "op_types": ["Conv2d"]}])
        self.assertEqual([w.name for w in q.get_modules_wrapper()], ["conv1", "conv2"])
        with self.assertRaisesRegex(NotImplementedError, "must overload quantize_weight"):
            q.quantize_weight(None, None)

    def test_config_lists(self):
        from pare.nni.compression.pytorch import LevelPruner, QAT_Quantizer
        configs = self.blocks[3]
        config = eval(configs[0])
        model = torch.nn.Sequential()
        for name in ("op_name1", "op_name2", "op_name3", "other"):
            model.add_module(name, torch.nn.Linear(20, 20))
        LevelPruner(model, config).compress()
        got = [float((getattr(m, "module", m).weight == 0).float().mean()) for m in model]
        np.testing.assert_allclose(got, [0.6, 0.6, 0, 0.8], atol=0.01)
        for text, bits in ((configs[1], {"weight": 8, "output": 4}), (configs[2], 8)):
            entry = eval(re.sub(r"\bquant_bits:", "'quant_bits':", text))      # the document's shell has no quotes
            self.assertEqual(entry, {"quant_bits": bits})
            net = copy.deepcopy(self.trained)
            QAT_Quantizer(net, [{**entry, "quant_types": ["weight", "output"], "op_types": ["Conv2d"]}],
                          torch.optim.SGD(net.parameters(), lr=0.01)).compress()
            self.assertGreater(float(net.conv1.module.weight_scale), 0)
        names = self.run_block(3, 3, "'quant_start_step': 0")
        QAT_Quantizer(self.model, names["config_list"], torch.optim.SGD(self.model.parameters(), lr=0.01)).compress()
        for name, bits in (("conv1", 8), ("conv2", 4), ("fc1", 3), ("fc2", 2)):
            self.assertLessEqual(len(torch.unique(self.model.get_submodule(name).module.weight)), 2 ** bits)

    def test_export_and_speedup(self):
        from pare.nni.compression.pytorch import L1FilterPruner
        pruner = L1FilterPruner(self.model, [{"sparsity": 0.5, "op_types": ["Conv2d"]}])
        pruner.compress()
        fresh = copy.deepcopy(self.trained)
        self.names.update(pruner=pruner, mask_file="mask.pth", device=None, model=fresh)
        self.run_block(3, 4, "apply_compression_results(model, mask_file, device)")
        expected = {k: v.clone() for k, v in fresh.state_dict().items()}
        for key, value in torch.load("model.pth").items():
            self.assertTrue(torch.equal(value, expected[key]), key)
        os.remove("model.pth")
        self.run_block(3, 5, "input_shape=[1, 1, 28, 28]")
        x = self.test[0][:9]
        out = fresh(x).detach()
        np.testing.assert_allclose(pare.load("model.onnx").run(x)["output"], out.numpy(), atol=1e-4)
        self.names.update(config={"input_shape": (1, 1, 28, 28)}, device="cpu", masks_file="mask.pth")
        self.run_block(3, 7, "m_speedup.speedup_model()")
        self.assertEqual(fresh.conv2.out_channels, 8)
        np.testing.assert_allclose(fresh(x).detach().numpy(), out.numpy(), atol=1e-4)
        self.train(fresh, torch.optim.SGD(fresh.parameters(), lr=0.03), 2, teacher=self.trained)   # distillation
        self.assertGreater(self.accuracy(fresh), 0.8)

    def test_save_and_load_of_qat(self):
        from pare.nni.compression.pytorch import QAT_Quantizer
        config_list = [{"quant_types": ["weight", "output"], "quant_bits": 8, "op_types": ["Conv2d", "Linear"]}]
        optimizer = torch.optim.SGD(self.model.parameters(), lr=0.01)
        QAT_Quantizer(self.model, config_list, optimizer).compress()
        self.train(self.model, optimizer)
        self.model.eval()
        expected = self.model(self.test[0])
        self.names.update(QAT_Quantizer=QAT_Quantizer, config_list=config_list)
        self.assertIn("torch.save(model.state_dict()", self.blocks[3][6])
        names = self.run_block(3, 6, "qmodel_load.load_state_dict")
        self.assertTrue(torch.equal(names["scale"], self.model.conv1.module.scale))
        self.assertTrue(torch.equal(names["zero_point"], self.model.conv1.module.zero_point))
        steps = names["weight"] / names["scale"]
        self.assertLess(float((steps - steps.round()).abs().max()), 1e-3)
        names["qmodel_load"].eval()
        self.assertLess(float((names["qmodel_load"](self.test[0]) - expected).abs().max()), 1e-5)


if __name__ == "__main__":
    unittest.main()
