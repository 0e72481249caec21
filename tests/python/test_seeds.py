# test_seeds.py - the code blocks of NNI's documents (nni_blocks.py) on the digits: run() changes their import lines and
# fills in what they leave open, nothing else.
import ast
import copy
import glob
import inspect
import os
import re
import textwrap
import unittest

import numpy as np

import nni_blocks as nni
from common import Folder, digits, pare

try:
    import torch
except ImportError:
    torch = None

# What the blocks leave open: a line of theirs, and the line instead of it.
OPEN = {
    "        # mask = ...": "        w = wrapper.weight.abs(); mask = w > torch.quantile(w.flatten(), sparsity)",
    "        # Put your code to generate `new_weight` here":
        "        s = weight.abs().max() / (2 ** (config['quant_bits']['weight'] - 1) - 1); "
        "new_weight = torch.round(weight / s) * s",
    "        # Put your code to generate `new_output` here": "        new_output = torch.round(output * 16) / 16",
    "        # Put your code to generate `new_input` here": "        new_input = torch.round(inputs[0] * 64) / 64",
}
DOTS = re.compile(r"^        new_(weight|output|input) = \.\.\.$\n", re.M)     # of the 2.x document, after such a comment


def changed(block, package=None):
    """A block with the import lines of this package, filled in; package: "pytorch" instead of "torch"."""
    block = DOTS.sub("", block)
    lines = [OPEN.get(line, line) for line in block.split("\n")]
    lines = [re.sub(r"^from nni\.", "from pare.nni.", line) for line in lines]
    if package:
        lines = [re.sub(r"^(from pare\.nni\.compression\.)torch\b", r"\1" + package, line) for line in lines]
    return "\n".join(lines)


def run(block, names=None, package=None):
    """Run a block with the variables that it uses; returns them with those that it sets."""
    names = {} if names is None else names
    names.setdefault("torch", torch)
    exec(compile(changed(block, package), "<block of NNI>", "exec"), names)
    return names


def base_classes():
    """The classes that the blocks use without importing them."""
    names = {}
    exec("from pare.nni.compression.torch import WeightMasker, Pruner, Compressor, QAT_Quantizer", names)
    return names


if torch is not None:
    class Mnist(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.conv1 = torch.nn.Conv2d(1, 8, 3, padding=1)
            self.relu1 = torch.nn.ReLU()
            self.conv2 = torch.nn.Conv2d(8, 16, 3)
            self.fc1 = torch.nn.Linear(16 * 3 * 3, 32)
            self.fc2 = torch.nn.Linear(32, 10)

        def forward(self, x):
            x = torch.nn.functional.max_pool2d(torch.relu(self.conv2(self.relu1(self.conv1(x)))), 2)
            return self.fc2(torch.relu(self.fc1(x.flatten(1))))


def seed_blocks(folder):
    """The code blocks of the documents themselves: (file, code)."""
    for path in sorted(glob.glob(os.path.join(folder, "*.txt"))):
        with open(path, encoding="utf-8") as f:
            text = f.read()
        for found in re.finditer(r"^```python\n(.*?)^```|^\.\. code-block:: (?:python|default|bash)\n((?:   .*\n|[ ]*\n)+)",
                                 text, re.M | re.S if "```python" in text else re.M):
            yield path, textwrap.dedent(found.group(1) or found.group(2)).strip("\n")


def meaning(code):
    """The syntax tree without comments and without documentation."""
    tree = ast.parse(code)
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)) and ast.get_docstring(node) is not None:
            node.body = node.body[1:]
    return ast.dump(tree)


@unittest.skipUnless(os.environ.get("PARE_SEEDS"), "PARE_SEEDS does not name the folder of NNI's documents")
class Literal(unittest.TestCase):
    def test_blocks_are_those_of_the_documents(self):
        mine = {meaning(v): k for k, v in vars(nni).items() if k.isupper()}
        for k in ("QUANTIZER", "CLIP_GRAD"):             # the document in Chinese imports from the other package
            mine[meaning(getattr(nni, k).replace("nni.compression.torch", "nni.compression.pytorch"))] = k
        seen, examples = set(), 0
        for path, code in seed_blocks(os.environ["PARE_SEEDS"]):
            if re.match(r"\{\s+quant_bits: ", code):       # two examples of a key, not Python
                examples += 1
                continue
            self.assertIn(meaning(code), mine, (path, code))
            seen.add(mine[meaning(code)])
        self.assertEqual((seen, examples), (set(k for k in vars(nni) if k.isupper()), 2))


def train(model, optimizer, epochs=1, hook=None, teacher=None):
    x, y = (torch.from_numpy(a) for a in digits())
    for epoch in range(epochs):
        if hook:
            hook.update_epoch(epoch)
        for i in range(0, len(x), 64):
            optimizer.zero_grad()
            out = model(x[i:i + 64])
            loss = torch.nn.functional.cross_entropy(out, y[i:i + 64])
            if teacher is not None:
                with torch.no_grad():
                    soft = torch.softmax(teacher(x[i:i + 64]) / 4, 1)
                loss = loss + 16 * torch.nn.functional.kl_div(torch.log_softmax(out / 4, 1), soft, reduction="batchmean")
            loss.backward()
            optimizer.step()
            if hook:
                hook.step()


def accuracy(model):
    x, y = (torch.from_numpy(a) for a in digits("test"))
    model.eval()
    with torch.no_grad():
        right = (model(x).argmax(1) == y).float().mean().item()
    model.train()
    return right


@unittest.skipUnless(torch, "needs PyTorch")
class Seeds(Folder):
    @classmethod
    def setUpClass(cls):
        torch.manual_seed(0)
        torch.set_num_threads(1)
        cls.trained = Mnist()
        train(cls.trained, torch.optim.Adam(cls.trained.parameters(), lr=3e-3), 6)
        cls.base = accuracy(cls.trained)
        assert cls.base > 0.9, cls.base

    def setUp(self):
        super().setUp()
        self.model = copy.deepcopy(self.trained)

    def zeros(self, layer):
        return float((getattr(layer, "module", layer).weight == 0).float().mean())

    def test_custom_masker_and_pruner(self):
        names = run(nni.PRUNER, run(nni.MASKER, base_classes()))
        model = self.model
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
        pruner = names["MyPruner"](model, [{'sparsity': 0.5, 'op_types': ['default']}], optimizer)
        model = pruner.compress()
        self.assertAlmostEqual(self.zeros(model.conv2), 0.5, 2)
        mask = model.conv2.weight_mask.clone()
        train(model, optimizer)
        self.assertTrue(torch.equal(mask, model.conv2.weight_mask))
        model(torch.zeros(1, 1, 8, 8))                   # masks are applied in forward
        self.assertTrue(bool((model.conv2.module.weight[mask == 0] == 0).all()))
        self.assertGreater(accuracy(model), 0.9)

    def test_collector(self):
        names = run(nni.COLLECTOR, run(nni.PRUNER, base_classes()))

        class Rank(names["MyMasker"]):                   # the block has no calc_mask()
            def calc_mask(self, sparsity, wrapper, wrapper_idx=None):
                a = torch.cat(wrapper.collected_activation)
                mean = a.mean([i for i in range(a.dim()) if i != 1])
                keep = mean > torch.quantile(mean, sparsity)
                return {'weight_mask': keep.view(-1, *[1] * (wrapper.weight.dim() - 1)).expand_as(wrapper.weight)}

        names["MyMasker"] = Rank                         # MyPruner looks it up when it is called
        model = self.model
        optimizer = torch.optim.SGD(model.parameters(), lr=0.0)
        pruner = names["MyPruner"](model, [{'sparsity': 0.5, 'op_types': ['Conv2d']}], optimizer)
        train(model, optimizer)
        self.assertAlmostEqual(float(1 - model.conv2.weight_mask.mean()), 0.5, 1)
        count = len(model.conv2.collected_activation)
        self.assertGreater(count, 1)
        pruner.remove_activation_collector(pruner.hook_id)
        model(torch.zeros(1, 1, 8, 8))
        self.assertEqual(len(model.conv2.collected_activation), count)

    def test_collector_is_removed(self):
        model, calls = self.model, []
        pruner = base_classes()["Pruner"](model, [{'sparsity': 0.5, 'op_types': ['Conv2d']}], None)
        add, _, remove = nni.REMOVE_COLLECTOR.strip().partition("\n")
        names = {"self": base_classes()["WeightMasker"](model, pruner), "collector": lambda *a: calls.append(a)}
        run(add, names)
        model(torch.zeros(1, 1, 8, 8))
        run(remove, names)
        model(torch.zeros(1, 1, 8, 8))
        self.assertEqual([w.name for w, _, _ in calls], ["conv1", "conv2"])

    def test_level_pruner(self):
        names = run(nni.LEVEL_PRUNER, {"model": self.model})
        model, optimizer = names["model"], names["optimizer"]
        for layer in (model.conv1, model.conv2, model.fc1, model.fc2):
            w = self.trained.get_submodule(layer.name).weight.detach().abs().flatten()
            k = int(w.numel() * 0.7)
            threshold = torch.topk(w, k, largest=False)[0].max()       # NNI's formula
            self.assertTrue(torch.equal(layer.weight_mask.flatten() > 0, w > threshold), layer.name)
        train(model, optimizer)
        self.assertGreater(self.zeros(model.fc1), 0.69)

    def test_dorefa_quantizer(self):
        names = run(nni.DOREFA_QUANTIZER, {"model": self.model})
        train(self.model, names["optimizer"], 2)
        self.assertLessEqual(len(torch.unique(self.model.conv2.module.weight)), 256)
        self.assertGreater(accuracy(self.model), 0.85)

    def test_custom_quantizer(self):
        for block, package in ((nni.QUANTIZER, None), (nni.QUANTIZER, "pytorch"), (nni.QUANTIZER_2X, None)):
            quantizer = run(block, package=package)["YourQuantizer"]
            model = copy.deepcopy(self.trained)
            optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
            q = quantizer(model, [{'quant_types': ['weight', 'input', 'output'],
                                   'quant_bits': {'weight': 8, 'input': 8, 'output': 8}, 'op_types': ['Conv2d', 'Linear']}])
            q.compress()
            before = model.conv1.module.old_weight.detach().clone()
            train(model, optimizer, hook=q)
            self.assertFalse(torch.equal(before, model.conv1.module.old_weight))    # straight-through gradients
            self.assertGreater(accuracy(model), 0.85)
            out = model.conv1(torch.rand(2, 1, 8, 8)) * 16
            self.assertTrue(torch.equal(out, torch.round(out)))

    def test_methods_of_quantizer(self):
        """The block is the definition of NNI's class: the same methods, parameters and messages."""
        from pare.nni.compression.torch import Quantizer
        theirs = run(nni.QUANTIZER_METHODS, base_classes())["Quantizer"]
        for name in ("quantize_weight", "quantize_output", "quantize_input"):
            shape = [[(p.name, p.kind) for p in inspect.signature(getattr(c, name)).parameters.values()]
                     for c in (theirs, Quantizer)]
            self.assertEqual(*shape)
            for c in (theirs, Quantizer):
                with self.assertRaisesRegex(NotImplementedError, r"Quantizer must overload %s\(\)" % name):
                    getattr(c, name)(None, None, wrapper=None) if name == "quantize_input" else getattr(c, name)(None, None, None)

        class Rounds(Quantizer):
            def quantize_weight(self, weight, wrapper, **kwargs):
                return torch.round(weight * 64) / 64

            def quantize_output(self, output, wrapper, **kwargs):
                return torch.round(output * 16) / 16

            def quantize_input(self, *inputs, wrapper, **kwargs):
                return torch.round(inputs[0] * 16) / 16

        Rounds(self.model, [{'quant_types': ['weight', 'input', 'output'], 'quant_bits': 8, 'op_types': ['Conv2d']}]).compress()
        out = self.model.conv2(torch.rand(2, 8, 8, 8)) * 16
        self.assertTrue(torch.equal(out, torch.round(out)))

    def test_clip_grad(self):
        for block, name, package in ((nni.CLIP_GRAD, "YourQuantizer", None), (nni.CLIP_GRAD, "YourQuantizer", "pytorch"),
                                     (nni.CLIP_GRAD_2X, "_YourQuantizer", None)):
            names = run(block, package=package)

            class Rounds(names[name]):                   # the block has no quantize_output()
                def quantize_output(self, output, wrapper, **kwargs):
                    return torch.round(output * 16) / 16

            layer = torch.nn.Sequential(torch.nn.Linear(4, 4))
            Rounds(layer, [{'quant_types': ['output'], 'quant_bits': 8, 'op_types': ['Linear']}]).compress()
            x = torch.randn(64, 4, requires_grad=True)
            y = layer(3 * x)
            float_out = layer[0].module(3 * x)
            y.sum().backward()
            got = layer[0].module.bias.grad
            self.assertTrue(torch.equal(got, (float_out.abs() <= 1).float().sum(0)))

    def test_config_lists_of_the_tutorial(self):
        from pare.nni.compression.pytorch import LevelPruner, QAT_Quantizer
        net = torch.nn.Module()
        for name in ("op_name1", "op_name2", "op_name3", "other"):
            setattr(net, name, torch.nn.Linear(20, 20))
        LevelPruner(net, eval(nni.CONFIG_LIST)).compress()
        for name, sparsity in (("op_name1", 0.6), ("op_name2", 0.6), ("op_name3", 0), ("other", 0.8)):
            self.assertAlmostEqual(self.zeros(getattr(net, name)), sparsity, 2)
        config_list = run(nni.QUANT_CONFIG_LIST)["config_list"]
        model = copy.deepcopy(self.trained)
        QAT_Quantizer(model, config_list, torch.optim.SGD(model.parameters(), lr=0.01)).compress()
        for name, bits in (("conv1", 8), ("conv2", 4), ("fc1", 3), ("fc2", 2)):
            weight = model.get_submodule(name).module.weight
            count = len(torch.unique(weight))
            self.assertLessEqual(count, 2 ** bits)
            self.assertGreater(count, min(2 ** (bits - 2), weight.numel() / 2))

    def test_export_and_apply_masks(self):
        from pare.nni.compression.pytorch import L1FilterPruner, apply_compression_results
        model = self.model
        pruner = L1FilterPruner(model, [{'sparsity': 0.5, 'op_types': ['Conv2d']}])
        pruner.compress()
        run(nni.EXPORT, {"pruner": pruner, "model": model, "mask_file": "mask.pth", "device": None})
        state = torch.load('model.pth')
        self.assertEqual(set(state), set(Mnist().state_dict()))
        self.assertEqual(set(torch.load("mask.pth")), {"conv1", "conv2"})
        fresh = copy.deepcopy(self.trained)
        apply_compression_results(fresh, "mask.pth", None)
        for key in state:
            self.assertTrue(torch.equal(state[key], fresh.state_dict()[key]), key)

    def test_export_onnx(self):
        from pare.nni.compression.pytorch import L1FilterPruner
        net = torch.nn.Sequential(torch.nn.Conv2d(1, 4, 5, 2), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.Linear(576, 10))
        pruner = L1FilterPruner(net, [{'sparsity': 0.5, 'op_types': ['Conv2d']}])
        pruner.compress()
        run(nni.EXPORT_ONNX, {"pruner": pruner})
        x = torch.rand(5, 1, 28, 28)
        got = pare.load('model.onnx').run(x)["output"]
        np.testing.assert_allclose(got, net(x).detach().numpy(), atol=1e-4)
        self.assertTrue(os.path.exists("model.pth") and os.path.exists("mask.pth"))

    def test_qat_save_and_load(self):
        from pare.nni.compression.pytorch import QAT_Quantizer
        config_list = [{'quant_types': ['weight', 'output'], 'quant_bits': {'weight': 8, 'output': 8},
                        'op_types': ['Conv2d', 'Linear']}]
        model = self.model
        opt = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.5)
        QAT_Quantizer(model, config_list, opt).compress()
        train(model, opt, 2)
        x = torch.from_numpy(digits("test")[0])
        model.eval()
        expected = model(x)
        names = run(nni.SAVE_AND_LOAD, {"model": model, "Mnist": Mnist, "config_list": config_list,
                                        "QAT_Quantizer": QAT_Quantizer})
        qmodel_load, scale, zero_point, weight = (names[n] for n in ("qmodel_load", "scale", "zero_point", "weight"))
        self.assertTrue(torch.equal(scale, model.conv1.module.scale))
        self.assertTrue(torch.equal(zero_point, model.conv1.module.zero_point))
        self.assertGreater(float(scale), 0)
        steps = weight / scale
        self.assertLess(float((steps - steps.round()).abs().max()), 1e-3)
        qmodel_load.eval()
        self.assertLess(float((qmodel_load(x) - expected).abs().max()), 1e-5)

    def test_model_speedup(self):
        from pare.nni.compression.pytorch import L1FilterPruner
        pruner = L1FilterPruner(self.model, [{'sparsity': 0.5, 'op_types': ['Conv2d']}])
        pruner.compress()
        pruner.export_model('model.pth', 'mask.pth')
        model = Mnist()
        model.load_state_dict(torch.load('model.pth'))
        x = torch.rand(7, 1, 8, 8)
        expected = model(x)
        run(nni.SPEEDUP, {"model": model, "config": {'input_shape': (2, 1, 8, 8)}, "device": "cpu", "masks_file": "mask.pth"})
        self.assertEqual(tuple(model.conv2.weight.shape), (8, 4, 3, 3))
        self.assertEqual(model.fc1.in_features, 8 * 9)
        self.assertLess(float((model(x) - expected).abs().max()), 1e-4)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.05)     # it can be trained
        train(model, optimizer, 2, teacher=self.trained)             # with distillation
        self.assertGreater(accuracy(model), 0.85)

    def test_update_epoch_and_step(self):
        from pare.nni.compression.pytorch import AGPPruner
        model = self.model
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
        pruner = AGPPruner(model, [{'initial_sparsity': 0.0, 'final_sparsity': 0.8, 'start_epoch': 0, 'end_epoch': 3,
                                    'frequency': 1, 'op_types': ['Conv2d', 'Linear']}], optimizer)
        model = pruner.compress()
        seen = []
        for epoch in range(4):
            pruner.update_epoch(epoch)
            train(model, optimizer)
            pruner.step()
            seen.append(self.zeros(model.fc1))
        self.assertEqual(seen, sorted(seen))
        span = 3 - 0 - 1                                 # NNI: (end - start - 1) // frequency * frequency
        for e, got in enumerate(seen):
            self.assertAlmostEqual(got, 0.8 * (1 - (1 - min(e / span, 1)) ** 3), 2)


if __name__ == "__main__":
    unittest.main()
