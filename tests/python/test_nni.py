# test_nni.py - NNI's names on pare.Model and torch.nn.Module: masks and scales equal those of the command and NNI's formulas.
import inspect
import json
import subprocess
import unittest
import warnings

import numpy as np

from common import Folder, command, digits, pare

from pare.nni.compression import pytorch, torch as nni
from pare.nni.compression._names import PRUNERS, QUANTIZERS

try:
    import torch
except ImportError:
    torch = None

warnings.filterwarnings("ignore", message=".*non-writable.*")


def lenet():
    model = pare.new("lenet", (1, 8, 8), seed=3)
    model.train(digits(), epochs=1, threads=1, progress=False)
    return model


class Names(unittest.TestCase):
    def test_both_packages_have_all_names(self):
        for name in list(PRUNERS) + list(QUANTIZERS) + [
                "SimulatedAnnealingPruner", "SensitivityPruner", "NetAdaptPruner", "Compressor", "Pruner", "Quantizer",
                "WeightMasker", "QuantGrad", "QuantType", "ModelSpeedup", "apply_compression_results", "OneshotPruner"]:
            self.assertTrue(inspect.isclass(getattr(nni, name)) or callable(getattr(nni, name)), name)
            self.assertIs(getattr(nni, name), getattr(pytorch, name))

    def test_algorithms_of_the_table_exist(self):
        self.assertLessEqual(set(PRUNERS.values()), {p.name for p in pare.pruners()})
        self.assertLessEqual(set(QUANTIZERS.values()), {q.name for q in pare.quantizers()})

    def test_searching_pruners_say_what_to_use(self):
        with self.assertRaisesRegex(pare.Error, r"use pare.prune\(.*auto_compress"):
            nni.AutoCompressPruner(None, [])

    def test_options_without_effect_are_accepted(self):
        config = [{"sparsity": 0.5, "op_types": ["Conv2d"]}]
        for options in ({"dummy_input": np.zeros(3)}, {"device": "cpu"}, {"evaluator": object()}, {"mode": None}):
            nni.L1FilterPruner(pare.new("lenet", (1, 8, 8)), config, **options).compress()

    def test_other_options_are_errors(self):
        model, config = pare.new("lenet", (1, 8, 8)), [{"sparsity": 0.5, "op_types": ["Conv2d"]}]
        quant = [{"quant_types": ["weight"], "quant_bits": 8, "op_types": ["Conv2d"]}]
        for name, arguments, options, what in (
                ("L1FilterPruner", (), {"dependency_awear": True}, "unknown option 'dependency_awear'"),
                ("L1FilterPruner", (), {"activation": "relu"}, "unknown option 'activation'"),
                ("L1FilterPruner", (None, False, None, 3), {}, "does not take '3' by position"),
                ("L1FilterPruner", (None, True), {"dependency_aware": True}, "twice"),
                ("L1FilterPruner", (object(),), {}, "optimizer of L1FilterPruner is a object"),
                ("LinearPruner", (), {"speedup": True}, "has no 'speedup'"),
                ("ActivationAPoZRankPruner", (), {"trainer": print}, "compress.. does not train"),
                ("ActivationAPoZRankPruner", (), {"training_batches": 1, "training_steps": 2}, "under two names"),
                ("ActivationAPoZRankPruner", (), {"activation": "selu"}, "selu"),
                ("QAT_Quantizer", (), {"statistics_batch_num": 3}, "unknown option 'training_steps'")):
            with self.assertRaisesRegex(pare.Error, what):
                getattr(nni, name)(model, quant if "Quantizer" in name else config, *arguments, **options)
        with self.assertRaises(TypeError):
            nni.Pruner(model, config, None, unknown=3)
        with self.assertRaisesRegex(ValueError, "batch_dim is 1"):
            nni.ModelSpeedup(model, None, None, batch_dim=1)
        with self.assertRaisesRegex(ValueError, "masks of a pare.Model are a file"):
            nni.ModelSpeedup(model, None, {"conv1": {}}).speedup_model()

    def test_quant_type_has_both_spellings(self):
        self.assertEqual(nni.QuantType.QUANT_OUTPUT, nni.QuantType.OUTPUT)
        self.assertEqual({nni.QuantType.INPUT, nni.QuantType.WEIGHT, nni.QuantType.OUTPUT}.__len__(), 3)


class OnModel(Folder):
    """NNI's classes over a pare.Model: the library runs everything."""

    def test_one_shot_masks_equal_the_library_s(self):
        for name, pruner in (("LevelPruner", "level"), ("L1FilterPruner", "l1"), ("L2FilterPruner", "l2"),
                             ("FPGMPruner", "fpgm")):
            config = [{"sparsity": 0.5, "op_types": ["Conv2d"]}]
            a, b = lenet(), lenet()
            p = getattr(nni, name)(a, config)
            self.assertIs(p.compress(), a)
            expected = pare.prune(b, pruner, config=config)
            for w in p.get_modules_wrapper():
                np.testing.assert_array_equal(a[w.name + ".weight"], expected[w.name + ".weight"])

    def test_dependency_aware(self):
        config = [{"sparsity": 0.5, "op_types": ["Conv2d"]}]

        def masked(*arguments, name="L1FilterPruner", **options):
            model = pare.new("resnet20", (3, 32, 32), seed=1)
            p = getattr(nni, name)(model, config, *arguments, **options)
            p.compress()
            return [np.asarray(w.weight_mask).copy() for w in p.get_modules_wrapper()]

        def same(a, b):
            return all(np.array_equal(x, y) for x, y in zip(a, b))

        def expected(**options):
            model = pare.prune(pare.new("resnet20", (3, 32, 32), seed=1), "l1", config=config, progress=False, **options)
            return [model[l.weight] != 0 for l in model.layers if l.type == "Conv2d"]

        aware = masked(dependency_aware=True, dummy_input=np.zeros((1, 3, 32, 32)))
        self.assertTrue(same(aware, expected(mode="dependency_aware")))
        self.assertTrue(same(aware, masked(None, True)))                 # by position, as NNI 1.x
        self.assertTrue(same(aware, masked("dependency_aware", name="L1NormPruner")))    # NNI 2.x
        self.assertFalse(same(aware, masked()))
        self.assertTrue(same(masked(dependency_aware=False), expected()))
        self.assertTrue(same(masked(dependency_aware=True, mode="global"), expected(mode="global_aware")))

    def test_statistics_and_activation(self):
        def masked(batches, **options):
            model = lenet()
            training = pare.Training(model, optimizer="sgd", lr=1e-6, progress=False, threads=1)
            p = nni.ActivationMeanRankFilterPruner(model, [{"sparsity": 0.5, "op_types": ["Conv2d"]}], training,
                                                   **options)
            p.compress()
            x, y = digits()
            seen = []
            for i in range(batches):
                training.step(50 * x[i * 64:i * 64 + 64], y[i * 64:i * 64 + 64])
                seen.append(float((np.asarray(p.get_modules_wrapper()[0].weight_mask) == 0).mean()))
            return seen, [np.asarray(w.weight_mask).copy() for w in p.get_modules_wrapper()]

        self.assertEqual(masked(2)[0], [0.5, 0.5])                       # NNI's default is one batch
        self.assertEqual(masked(3, statistics_batch_num=2)[0], [0, 0.5, 0.5])
        relu, relu6 = masked(1)[1], masked(1, activation="relu6")[1]
        self.assertFalse(all(np.array_equal(a, b) for a, b in zip(relu, relu6)))

    def test_custom_masker_sees_the_library_s_memory(self):
        seen = {}

        class MyMasker(nni.WeightMasker):
            def calc_mask(self, sparsity, wrapper, wrapper_idx=None):
                w = wrapper.module.weight.data
                seen[wrapper.name] = np.asarray(w).ctypes.data == wrapper.layer.weight.ctypes.data
                return {"weight_mask": np.abs(w) > np.quantile(np.abs(w), sparsity)}

        class MyPruner(nni.OneshotPruner):
            masker = MyMasker

        model = lenet()
        pruner = MyPruner(model, [{"sparsity": 0.5, "op_types": ["Conv2d"]}])
        pruner.compress()
        self.assertEqual(seen, {"conv1": True, "conv2": True})
        self.assertAlmostEqual(float((model["conv2.weight"] == 0).mean()), 0.5, 2)
        pruner.export_model("m.npz", "mask.npz", onnx_path="m.onnx", input_shape=[1, 1, 8, 8])
        masks = np.load("mask.npz")
        self.assertEqual(len([k for k in masks if k.startswith("conv2")]) > 0, True)
        other = lenet()
        nni.apply_compression_results(other, "mask.npz")
        np.testing.assert_array_equal(other["conv2.weight"], model["conv2.weight"])

    @unittest.skipUnless(torch, "needs PyTorch")
    def test_weights_of_a_model_are_torch_tensors_on_its_memory(self):
        class MyMasker(nni.WeightMasker):
            def calc_mask(self, sparsity, wrapper, wrapper_idx=None):
                w = wrapper.module.weight
                assert isinstance(w, torch.Tensor) and w.data_ptr() == wrapper.layer.weight.ctypes.data
                threshold = torch.topk(w.abs().view(-1), int(w.numel() * sparsity), largest=False)[0].max()
                return {"weight_mask": torch.gt(w.abs(), threshold).type_as(w)}

        class MyPruner(nni.OneshotPruner):
            masker = MyMasker

        model = lenet()
        MyPruner(model, [{"sparsity": 0.5, "op_types": ["default"]}]).compress()
        expected = pare.prune(lenet(), "level", config=[{"sparsity": 0.5, "op_types": ["default"]}], progress=False)
        for layer in model.layers:
            np.testing.assert_array_equal(model[layer.weight], expected[layer.weight])

    def test_training_with_collector_and_custom_quantizer(self):
        calls = {"w": 0, "b": 0, "c": 0}

        class Clip(nni.QuantGrad):
            @staticmethod
            def quant_backward(tensor, grad_output, quant_type):
                calls["b"] += 1
                if quant_type == nni.QuantType.QUANT_OUTPUT:
                    grad_output[abs(tensor) > 4] = 0
                return grad_output

        class Q(nni.Quantizer):
            def __init__(self, model, config_list, optimizer=None):
                super().__init__(model, config_list, optimizer)
                self.quant_grad = Clip

            def quantize_weight(self, weight, wrapper, **kwargs):
                calls["w"] += 1
                return (weight * 64).round() / 64

            def quantize_output(self, output, wrapper, **kwargs):
                return (output * 16).round() / 16

        model = lenet()
        training = pare.Training(model, optimizer="sgd", lr=0.01, progress=False, threads=1)
        q = Q(model, [{"quant_types": ["weight", "output"], "quant_bits": 8, "op_types": ["Conv2d"]}], training)
        q.compress()

        def collect(wrapper, inputs, output):
            calls["c"] += 1

        number = q.add_activation_collector(collect)
        x, y = digits()
        first = training.step(x[:64], y[:64])
        for i in range(64, 640, 64):
            last = training.step(x[i:i + 64], y[i:i + 64])
        self.assertTrue(np.isfinite(first) and np.isfinite(last))
        self.assertGreater(min(calls["w"], calls["b"]), 10)
        self.assertGreaterEqual(calls["c"], 10)
        before = calls["c"]
        q.remove_activation_collector(number)
        training.step(x[:64], y[:64])
        self.assertEqual(calls["c"], before)
        w = model["conv1.weight"] * 64
        np.testing.assert_allclose(w, np.round(w), atol=1e-4)

    def test_training_of_the_library_drives_masks_and_scales(self):
        model = lenet()
        training = pare.Training(model, digits(), epochs=4, threads=1, progress=False)
        nni.AGPPruner(model, [{"initial_sparsity": 0.0, "final_sparsity": 0.8, "start_epoch": 0, "end_epoch": 3,
                               "frequency": 1, "op_types": ["Conv2d", "Linear"]}], training).compress()
        training.run()
        self.assertAlmostEqual(float((model["fc1.weight"] == 0).mean()), 0.8, 2)
        model = lenet()
        training = pare.Training(model, digits(), epochs=1, threads=1, progress=False)
        q = nni.QAT_Quantizer(model, [{"quant_types": ["weight", "output"], "quant_bits": 8,
                                       "op_types": ["Conv2d", "Linear"]}], training)
        q.compress()
        training.run()
        scale = float(q.get_modules_wrapper()[0].module.scale)
        self.assertGreater(scale, 0)
        files = q.export_model("q.npz", onnx_path="q.onnx", input_shape=[1, 1, 8, 8])
        self.assertIn("conv1", files)
        self.assertEqual(pare.load("q.onnx").run(np.zeros((1, 1, 8, 8), np.float32))["output"].shape, (1, 10))

    def test_scales_of_qat_equal_the_command_s(self):
        """One epoch of training with quantized values: pare.quantize() and QAT_Quantizer against `pare quantize`."""
        for options in ({"threads": 1}, {"threads": 1, "optimizer": "sgd", "lr": 0.01, "schedule": "constant"}):
            self.check_scales_of_qat(options)

    def check_scales_of_qat(self, options):
        config = [{"quant_types": ["weight", "input", "output"], "quant_bits": 8, "op_types": ["Conv2d", "Linear"]}]
        lenet().save("m.onnx")
        with open("config.json", "w", encoding="utf-8") as f:
            json.dump(config, f)
        subprocess.run([command(self), "quantize", "m.onnx", "--quantizer", "qat", "--config", "config.json", "--data",
                        "digits", "--epochs", "1", "--calibration", "expected.json", "-o", "q.onnx"] +
                       [word for k, v in options.items() for word in ("--" + k, str(v))], check=True, capture_output=True,
                       cwd=self.folder)
        got, expected = (pare.quantize("m.onnx", quantizer="qat", config=config, data="digits", epochs=1, train=options,
                                       progress=False), pare.load("q.onnx"))
        self.assertEqual(set(got.tensors()), set(expected.tensors()))
        self.assertGreater(len([n for n in got.tensors() if "scale" in n]), 8)
        for name in expected.tensors():
            np.testing.assert_array_equal(got[name], expected[name])
        model = pare.load("m.onnx")
        training = pare.Training(model, "digits", epochs=1, progress=False, **options)
        q = nni.QAT_Quantizer(model, config, training)
        q.compress()
        training.run()
        scales = q.export_model("q.npz", "scales.json")
        with open("expected.json", encoding="utf-8") as f:
            self.assertEqual(scales, json.load(f))
        for w in q.get_modules_wrapper():
            self.assertAlmostEqual(float(w.module.scale), scales[w.name]["weight_scale"], 9)

    def test_model_speedup(self):
        model = lenet()
        nni.L1FilterPruner(model, [{"sparsity": 0.5, "op_types": ["Conv2d"]}]).compress()
        x = np.random.default_rng(0).random((3, 1, 8, 8), dtype=np.float32)
        expected = model.run(x)["output"]
        smaller = nni.ModelSpeedup(model, x, None).speedup_model()
        self.assertLess(smaller.params, model.params)
        np.testing.assert_allclose(smaller.run(x)["output"], expected, atol=1e-4)

    def test_wrong_mask_shape_is_an_error(self):
        class P(nni.Pruner):
            def calc_mask(self, wrapper, wrapper_idx=None):
                return {"weight_mask": np.ones(3)}

        with self.assertRaisesRegex(ValueError, "shape"):
            P(lenet(), [{"sparsity": 0.5, "op_types": ["Conv2d"]}]).compress()


@unittest.skipUnless(torch, "needs PyTorch")
class OnModule(Folder):
    """The formulas of NNI 1.9 in PyTorch against the masks of the classes here."""

    def net(self):
        torch.manual_seed(1)
        return torch.nn.Sequential(torch.nn.Conv2d(3, 16, 3), torch.nn.ReLU(), torch.nn.Conv2d(16, 32, 3))

    def masks(self, name, sparsity=0.5, **options):
        net = self.net()
        getattr(nni, name)(net, [{"sparsity": sparsity, "op_types": ["Conv2d"]}], **options).compress()
        return [net[i].weight_mask for i in (0, 2)], [self.net()[i].weight.detach() for i in (0, 2)]

    def test_what_a_module_cannot_have_is_an_error(self):
        for name, options, what in (("L1FilterPruner", {"dependency_aware": True}, "needs dummy_input"),
                                    ("L1NormPruner", {"mode": "dependency_aware"}, "needs dummy_input"),
                                    ("AGPPruner", {"pruning_params": {"mode": "global_aware"}}, "needs dummy_input"),
                                    ("SlimPruner", {"scale": 0.1}, "nothing to train with"),
                                    ("ActivationAPoZRankPruner", {"activation": "gelu"}, "pass a pare.Model")):
            with self.assertRaisesRegex(pare.Error, "of a torch.nn.Module .*" + what):
                self.masks(name, **options)
        with self.assertRaisesRegex(pare.Error, "unknown option 'activation'"):
            self.masks("TaylorFOWeightFilterPruner", activation="relu6")
        with self.assertRaisesRegex(pare.Error, "has no 'equalize'"):
            nni.QAT_Quantizer(self.net(), [{"quant_types": ["weight"], "quant_bits": 8, "op_types": ["Conv2d"]}],
                              equalize=True)

    def test_filter_norms(self):
        for name, power in (("L1FilterPruner", 1), ("L2FilterPruner", 2)):
            for mask, w in zip(*self.masks(name)):
                score = w.abs().pow(power).flatten(1).sum(1)
                threshold = torch.topk(score, int(len(score) * 0.5), largest=False)[0].max()
                expected = (score > threshold).float()[:, None, None, None].expand_as(w)
                self.assertTrue(torch.equal(mask, expected), name)

    def test_fpgm(self):
        for mask, w in zip(*self.masks("FPGMPruner")):
            f = w.flatten(1)
            distance = torch.stack([(f - f[i]).pow(2).sum(1).sqrt().sum() for i in range(len(f))])
            removed = torch.topk(distance, int(len(f) * 0.5), largest=False)[1]
            expected = torch.ones_like(w)
            expected[removed] = 0
            self.assertTrue(torch.equal(mask, expected))

    def test_qat_scales(self):
        """Of NNI: weight range now; output range with decay 0.99, first batch as it is."""
        net = self.net()
        opt = torch.optim.SGD(net.parameters(), lr=0.0)
        nni.QAT_Quantizer(net, [{"quant_types": ["weight", "output"], "quant_bits": {"weight": 8, "output": 8},
                                 "op_types": ["Conv2d"]}], opt).compress()
        lo = hi = None
        for i in range(5):
            x = torch.randn(4, 3, 8, 8)
            out = torch.nn.functional.conv2d(x, net[0].module.weight, net[0].module.bias)
            a, b = float(out.min()), float(out.max())
            lo, hi = (a, b) if lo is None else (0.99 * lo + 0.01 * a, 0.99 * hi + 0.01 * b)
            net(x).sum().backward()
            opt.step()
        levels = 255
        self.assertAlmostEqual(float(net[0].module.output_scale), (max(hi, 0) - min(lo, 0)) / levels, 5)
        w = net[0].module.old_weight.detach()
        self.assertAlmostEqual(float(net[0].module.weight_scale), float(w.max() - w.min()) / levels, 6)

    def test_every_quantizer_trains(self):
        x, y = (torch.from_numpy(a[:256]) for a in digits())
        for name, algorithm in QUANTIZERS.items():
            if algorithm == "ptq":                       # needs data, see pare.quantize()
                continue
            torch.manual_seed(0)
            net = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(64, 32), torch.nn.ReLU(),
                                      torch.nn.Linear(32, 10))
            opt = torch.optim.Adam(net.parameters(), lr=3e-3)
            types = ["weight"]
            bits = 1 if algorithm == "bnn" else 8
            getattr(nni, name)(net, [{"quant_types": types, "quant_bits": bits, "op_types": ["Linear"]}], opt).compress()
            losses = []
            for _ in range(40):
                opt.zero_grad()
                loss = torch.nn.functional.cross_entropy(net(x), y)
                loss.backward()
                opt.step()
                losses.append(float(loss))
            self.assertLess(losses[-1], losses[0], name)

    def test_pruners_by_statistics(self):
        x, y = (torch.from_numpy(a[:256]) for a in digits())
        for name in ("ActivationAPoZRankFilterPruner", "ActivationMeanRankFilterPruner", "TaylorFOWeightFilterPruner"):
            torch.manual_seed(0)
            net = torch.nn.Sequential(torch.nn.Conv2d(1, 8, 3), torch.nn.ReLU(), torch.nn.Flatten(),
                                      torch.nn.Linear(288, 10))
            opt = torch.optim.SGD(net.parameters(), lr=0.01)
            getattr(nni, name)(net, [{"sparsity": 0.5, "op_types": ["Conv2d"]}], opt, statistics_batch_num=2).compress()
            zeros = []
            for _ in range(3):
                opt.zero_grad()
                torch.nn.functional.cross_entropy(net(x), y).backward()
                opt.step()
                zeros.append(float((net[0].weight_mask == 0).float().mean()))
            self.assertEqual(zeros, [0, 0.5, 0.5], name)


if __name__ == "__main__":
    unittest.main()
