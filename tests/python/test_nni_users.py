# test_nni_users.py - scripts as users of NNI write them, versions 1.9 to 2.10: trainers, evaluators, tuples of model and masks,
# modules that the library has no operator for, options of constructors by position.
import copy
import unittest
import warnings

import numpy as np

from common import Folder, digits, pare

from pare.nni.compression import pytorch as nni

try:
    import torch
    from torch.nn.functional import cross_entropy
except ImportError:
    torch = None

if torch is not None:
    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.conv1, self.bn1 = torch.nn.Conv2d(1, 8, 3, padding=1), torch.nn.BatchNorm2d(8)
            self.conv2, self.bn2 = torch.nn.Conv2d(8, 16, 3), torch.nn.BatchNorm2d(16)
            self.relu1, self.relu2 = torch.nn.ReLU(), torch.nn.ReLU6()
            self.pool, self.fc = torch.nn.MaxPool2d(2), torch.nn.Linear(16 * 9, 10)

        def forward(self, x):
            x = self.relu1(self.bn1(self.conv1(x)))
            return self.fc(self.pool(self.relu2(self.bn2(self.conv2(x)))).flatten(1))

CONV = [{"sparsity": 0.5, "op_types": ["Conv2d"]}]


def zeros(wrapper):
    return float((wrapper.weight_mask == 0).float().mean())


@unittest.skipUnless(torch, "needs PyTorch")
class Users(Folder):
    def setUp(self):
        super().setUp()
        torch.manual_seed(0)
        torch.set_num_threads(1)
        self.x, self.y = (torch.from_numpy(a[:512]) for a in digits())
        self.net = Net()
        self.optimizer = torch.optim.SGD(self.net.parameters(), lr=0.05, momentum=0.9)
        self.epochs = []

    def train(self, model, optimizer=None, criterion=None, batches=8):
        model.train()
        optimizer = optimizer or self.optimizer
        for x, y in zip(self.x.split(64)[:batches], self.y.split(64)):
            optimizer.zero_grad()
            loss = (criterion or cross_entropy)(model(x), y)
            loss.backward()
            optimizer.step()
        return float(loss)

    def trainer(self, model, optimizer, criterion, epoch):
        """As NNI 2.0 calls it."""
        self.epochs.append(epoch)
        self.train(model, optimizer, criterion)

    def trainer_of_2_6(self, model, opt, loss_function):
        self.epochs.append(None)
        self.train(model, opt, loss_function)

    def training_func(self, model, optimizers, criterion, lr_schedulers=None, max_steps=None, max_epochs=None):
        self.epochs.append((max_steps, max_epochs))
        self.train(model, optimizers, criterion, max_steps or 8)

    # ---- names ----
    def test_imports_change_only_by_the_prefix(self):
        from pare.nni import trace
        from pare.nni.algorithms.compression.pytorch.pruning import L1FilterPruner, LevelPruner
        from pare.nni.algorithms.compression.pytorch.quantization import QAT_Quantizer
        from pare.nni.algorithms.compression.v2.pytorch import TorchEvaluator
        from pare.nni.algorithms.compression.v2.pytorch.pruning import LevelPruner as newer
        from pare.nni.compression.pytorch.pruning import LevelPruner as newest
        from pare.nni.compression.pytorch.speedup import ModelSpeedup
        self.assertIs(L1FilterPruner, nni.L1FilterPruner)
        self.assertIs(QAT_Quantizer, nni.QAT_Quantizer)
        self.assertIs(ModelSpeedup, nni.ModelSpeedup)
        self.assertIs(TorchEvaluator, nni.TorchEvaluator)
        self.assertIs(trace(torch.optim.SGD), torch.optim.SGD)
        config = [{"sparsity": 0.5, "op_types": ["default"]}]
        model = LevelPruner(self.net, config).compress()
        self.assertIs(model, self.net)
        for cls in (newer, newest):
            model, masks = cls(Net(), config).compress()
            self.assertEqual(list(masks), ["conv1", "conv2", "fc"])
            self.assertAlmostEqual(float(masks["fc"]["weight"].mean()), 0.5, 2)

    def test_masks_of_2x_make_the_module_smaller(self):
        for pruner in (nni.L1NormPruner, nni.L1FilterPruner):
            net = Net()
            p = pruner(net, CONV + [{"exclude": True, "op_names": ["conv1"]}])
            result = p.compress()
            masks = result[1] if isinstance(result, tuple) else p.compressed_masks()
            self.assertEqual(list(masks), ["conv2"])
            expected = net.eval()(self.x[:3]).detach()
            nni.ModelSpeedup(net, torch.rand(3, 1, 8, 8), masks).speedup_model()       # also if it is wrapped still
            self.assertEqual((net.conv2.out_channels, net.fc.in_features), (8, 72))
            np.testing.assert_allclose(net(self.x[:3]).detach().numpy(), expected.numpy(), atol=1e-5)
        self.assertIs(nni.L1NormPruner(pare.new("lenet"), CONV).compress()[1].__class__, dict)

    def test_count_flops_params(self):
        from pare.nni.compression.pytorch.utils.counter import count_flops_params
        for x in (torch.rand(2, 1, 8, 8), (1, 1, 8, 8)):
            flops, params, rows = count_flops_params(self.net, x, verbose=False)
            self.assertEqual(flops, 8 * 9 * 64 + 16 * 8 * 9 * 36 + 144 * 10)
            self.assertEqual(params, 80 + 16 * 73 + 1450)
            self.assertEqual([r["name"] for r in rows], ["conv1", "conv2", "fc"])
        with self.assertRaisesRegex(pare.Error, "alone"):
            count_flops_params(self.net, x, mode="full")

    # ---- training in compress() ----
    def test_agp_with_a_trainer_as_2_0(self):
        seen = []

        def trainer(model, optimizer, criterion, epoch):
            seen.append(zeros(model.conv2))
            self.trainer(model, optimizer, criterion, epoch)

        p = nni.AGPPruner(self.net, [{"sparsity": 0.75, "op_types": ["Conv2d"]}], self.optimizer, trainer, cross_entropy,
                          num_iterations=3, epochs_per_iteration=2, pruning_algorithm="l1")
        self.assertIs(p.compress(), self.net)
        self.assertEqual(self.epochs, [0, 1] * 3)
        self.assertEqual(seen, [0, 0, 0.625, 0.625, 0.75, 0.75])     # 0.75 (1 - (1 - i / 2)^3) of 16
        self.assertEqual(float((self.net.conv2.module.weight == 0).float().mean()), 0.75)

    def test_agp_and_linear_as_2_6(self):
        from pare.nni.compression.pytorch.pruning import AGPPruner, LinearPruner
        for cls, expected in ((AGPPruner, [0, 0.375, 0.625, 0.6875, 0.75, 0.75]), (LinearPruner, [0, .125, .3125, .4375, .625, .75])):
            net, seen = Net(), []
            p = cls(net, [{"sparsity": 0.8, "op_types": ["Conv2d"]}], "l1", total_iteration=5, log_dir=".",
                    finetuner=lambda m: seen.append(zeros(m.conv2)), evaluator=lambda m: 0.5)
            p.compress()
            self.assertEqual(seen, expected)
            task, model, masks, score, config = p.get_best_result()
            self.assertEqual((task, model, score, config[0]["sparsity"]), (5, net, 0.5, 0.8))
            self.assertEqual(float(masks["conv2"]["weight"].mean()), 0.25)
        p = LinearPruner(Net(), CONV, "level", 3)                    # nothing to train with
        _, masks = p.compress()
        self.assertAlmostEqual(float(masks["conv2"]["weight"].mean()), 0.5, 2)
        with self.assertRaisesRegex(pare.Error, "cannot rank by 'taylor'"):
            AGPPruner(Net(), CONV, "taylorfo", 3)

    def test_lottery_ticket(self):
        """Iterations of the caller's as NNI 1.9, or in compress() as NNI 2.6: the same masks on the initial weights."""
        initial, masks = {k: v.clone() for k, v in self.net.state_dict().items()}, []
        p = nni.LotteryTicketPruner(self.net, [{"sparsity": 0.75, "prune_iterations": 2, "op_types": ["default"]}],
                                    self.optimizer)
        p.compress()
        seen = []
        for i in p.get_prune_iterations():
            p.prune_iteration_start()
            seen.append(round(zeros(self.net.fc), 3))
            conv = self.net.conv2
            self.assertTrue(torch.equal(conv.module.weight, initial["conv2.weight"] * conv.weight_mask))
            masks.append({n: m["weight"] for n, m in p.compressed_masks().items()})
            if i < 2:
                self.train(self.net)
        self.assertEqual(seen, [0, 0.5, 0.75])
        self.assertTrue(bool(((masks[1]["conv2"] - masks[2]["conv2"]) >= 0).all()))       # removed weights stay removed
        with self.assertRaisesRegex(ValueError, "Exceed"):
            p.prune_iteration_start()
        torch.manual_seed(0)
        net = Net()
        net.load_state_dict(initial)
        optimizer = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9)
        from pare.nni.compression.pytorch.pruning import LotteryTicketPruner
        p = LotteryTicketPruner(net, [{"sparsity": 0.75, "op_types": ["default"]}], "level", total_iteration=2,
                                finetuner=lambda m: (optimizer.state.clear(), self.train(m, optimizer)), reset_weight=True)
        _, got = p.compress()
        self.assertTrue(all(torch.equal(got[n]["weight"], m) for n, m in masks[2].items()))
        self.assertEqual(p.get_best_result()[0], 2)

    def test_slim_with_a_trainer(self):
        config = [{"sparsity": 0.5, "op_types": ["BatchNorm2d"]}]
        size = {}
        for scale in (0.0, 0.2):
            torch.manual_seed(0)
            net = Net()
            optimizer = torch.optim.SGD(net.parameters(), lr=0.05)
            p = nni.SlimPruner(net, config, optimizer, self.trainer, torch.nn.CrossEntropyLoss(), 3, scale)
            p.compress()
            self.assertEqual(zeros(net.bn1) * 8 + zeros(net.bn2) * 16, 12)
            size[scale] = sum(float(m.module.weight.abs().sum()) for m in (net.bn1, net.bn2))
        self.assertEqual(self.epochs, [0, 1, 2] * 2)
        self.assertLess(size[0.2], 0.9 * size[0.0])                  # the penalty
        before = net.bn2.module.weight.detach().clone()
        optimizer.zero_grad(set_to_none=False)
        optimizer.step()
        self.assertTrue(torch.equal(net.bn2.module.weight, before))
        with self.assertRaisesRegex(pare.Error, "nothing to train with"):
            nni.SlimPruner(Net(), config, scale=0.1)

    def test_statistics_with_a_trainer(self):
        """Masks of a trainer are those of a loop outside of compress()."""
        for name, old in (("TaylorFOWeightPruner", "TaylorFOWeightFilterPruner"),
                          ("ActivationAPoZRankPruner", "ActivationAPoZRankFilterPruner"),
                          ("ActivationMeanRankPruner", "ActivationMeanRankFilterPruner")):
            expected = None
            for form in ("loop", "2.0", "2.6", "2.9"):
                torch.manual_seed(0)
                net = Net()
                o = torch.optim.SGD(net.parameters(), lr=0.05)
                if form == "loop":
                    getattr(nni, old)(net, CONV, o, statistics_batch_num=4).compress()
                    self.train(net, o)
                elif form == "2.0":
                    getattr(nni, old)(net, CONV, o, self.trainer, cross_entropy, 4).compress()
                elif form == "2.6":
                    getattr(nni, name)(net, CONV, self.trainer_of_2_6, o, cross_entropy, training_batches=4).compress()
                else:
                    evaluator = nni.TorchEvaluator(self.training_func, o, cross_entropy)
                    getattr(nni, name)(net, CONV, evaluator, training_steps=4).compress()
                    self.assertEqual(self.epochs[-1], (4, None))
                masks = [net.conv1.weight_mask, net.conv2.weight_mask]
                self.assertEqual([float(m.mean()) for m in masks], [0.5, 0.5])
                expected = expected or masks
                self.assertTrue(all(torch.equal(a, b) for a, b in zip(masks, expected)), (name, form))

    def test_trainers_that_cannot_work_are_errors(self):
        with self.assertRaisesRegex(pare.Error, "needs 4 batches, but the trainer made 0 steps"):
            nni.TaylorFOWeightPruner(self.net, CONV, lambda *a: None, self.optimizer, cross_entropy, 4).compress()
        with self.assertRaisesRegex(pare.Error, "needs an optimizer"):
            nni.TaylorFOWeightPruner(Net(), CONV, trainer=self.trainer)
        with self.assertRaisesRegex(pare.Error, "expected a function"):
            nni.TaylorFOWeightPruner(Net(), CONV, self.optimizer, trainer=3)
        p = nni.TaylorFOWeightPruner(Net(), CONV)
        p.compress()
        with self.assertWarnsRegex(UserWarning, "layer 'conv1' has no mask yet.*0 of 1 batches"):
            p.export_model("model.pth", "mask.pth")

    def test_schedulers_made_before_and_after(self):
        for before in (True, False):
            net = Net()
            optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1, 0.5) if before else None
                p = nni.AGPPruner(net, [{"sparsity": 0.5, "op_types": ["Conv2d"]}], optimizer, self.trainer, cross_entropy, 2)
                scheduler = scheduler or torch.optim.lr_scheduler.StepLR(optimizer, 1, 0.5)
                p.compress()
                scheduler.step()
            self.assertEqual(optimizer.param_groups[0]["lr"], 0.05)
            self.assertEqual(zeros(net.conv1), 0.5)
            net.conv1.module.weight.data.fill_(1)
            optimizer.step()                                         # masks are applied after it
            self.assertGreaterEqual(float((net.conv1.module.weight == 0).float().mean()), 0.5)

    def test_copies_of_wrapped_models(self):
        quant = [{"quant_types": ["weight", "output"], "quant_bits": 8, "op_types": ["Conv2d"]}]
        for make in (lambda n, o: nni.LevelPruner(n, [{"sparsity": 0.5, "op_types": ["default"]}], o),
                     lambda n, o: nni.ActivationAPoZRankFilterPruner(n, CONV, o),
                     lambda n, o: nni.QAT_Quantizer(n, quant, o)):
            net = Net()
            optimizer = torch.optim.SGD(net.parameters(), lr=0.05)
            make(net, optimizer).compress()
            self.train(net, optimizer)
            expected, other = net.eval()(self.x[:5]), copy.deepcopy(net)
            self.assertTrue(torch.equal(other(self.x[:5]), expected))
            with torch.no_grad():
                next(other.parameters()).add_(1)
            self.assertTrue(torch.equal(net(self.x[:5]), expected))
            torch.save(net, "whole.pth")
            if isinstance(net.conv1, nni.PrunerModuleWrapper):
                self.assertTrue(torch.equal(torch.load("whole.pth")(self.x[:5]), expected))
            else:
                with self.assertRaisesRegex(ValueError, "saved without its quantizer"):
                    torch.load("whole.pth")(self.x[:5])

    # ---- options ----
    def test_coupled_channels_of_a_module(self):
        class Residual(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.a, self.b = torch.nn.Conv2d(1, 8, 3, padding=1), torch.nn.Conv2d(8, 8, 3, padding=1)

            def forward(self, x):
                x = self.a(x)
                return x + self.b(torch.relu(x))

        def channels(m):
            return m.weight_mask.flatten(1).any(1).tolist()

        net, x = Residual(), torch.rand(1, 1, 8, 8)
        nni.L1FilterPruner(net, CONV).compress()
        self.assertNotEqual(channels(net.a), channels(net.b))
        for arguments, options in (((None, True, x), {}), ((True, x), {}), (("dependency_aware", x), {}), ((), {"dependency_aware": True,
                                                                                              "dummy_input": (x,)})):
            net = Residual()
            name = "L1NormPruner" if "dependency_aware" in arguments[:1] else "L1FilterPruner"
            getattr(nni, name)(net, CONV, *arguments, **options).compress()
            self.assertEqual(channels(net.a), channels(net.b))
            self.assertEqual(sum(channels(net.a)), 4)
        with self.assertRaisesRegex(pare.Error, "needs dummy_input"):
            nni.L1FilterPruner(Residual(), CONV, dependency_aware=True)

    def test_layers_of_custom_classes(self):
        class Half(nni.Pruner):
            def calc_mask(self, wrapper, wrapper_idx=None):
                w = wrapper.module.weight.abs()
                return {"weight_mask": w > w.median()}

        for entry, names in (({"op_types": ["default"]}, ["conv1", "conv2", "fc"]),
                             ({"op_partial_names": ["conv"]}, ["conv1", "conv2"]),
                             ({"op_partial_names": ["2"], "op_types": ["Conv2d", "BatchNorm2d"]}, ["conv2", "bn2"])):
            config = [{"sparsity": 0.5, **entry}]
            for cls in (Half,) if "bn2" in names else (Half, nni.LevelPruner):
                self.assertEqual([w.name for w in cls(Net(), config).get_modules_wrapper()], sorted(names)
                                 if "bn2" not in names else names)
        for entry, what in (({}, "needs op_types"), ({"op_types": "Conv2d"}, "expected a list"),
                            ({"op_names": ["relu1"]}, "has no weight to prune")):
            with self.assertRaisesRegex(ValueError, what):
                Half(Net(), [{"sparsity": 0.5, **entry}])
        with self.assertRaisesRegex(ValueError, "match no layer"):
            nni.LevelPruner(Net(), [{"sparsity": 0.5, "op_partial_names": ["head"]}])
        with self.assertLogs("pare.nni", "WARNING"):
            Half(Net(), [{"sparsity": 0.5, "op_types": ["LSTM"]}])
        model = pare.load(Net(), torch.rand(1, 1, 8, 8))
        p = nni.LevelPruner(model, [{"sparsity": 0.5, "op_partial_names": ["conv"]}])
        self.assertEqual([w.name for w in p.get_modules_wrapper()], ["conv1", "conv2"])

    def test_subclass_checks_its_config_list(self):
        class Strict(nni.Pruner):
            def validate_config(self, model, config_list):
                if any(e["sparsity"] > 0.9 for e in config_list):
                    raise KeyError("sparsity of %s" % type(model).__name__)

            def calc_mask(self, wrapper, wrapper_idx=None):
                return None

        for model in (Net(), pare.new("lenet")):
            Strict(model, CONV).compress()
            with self.assertRaisesRegex(KeyError, "sparsity of (Net|Model)"):
                Strict(model, [{"sparsity": 0.95, "op_types": ["Conv2d"]}])

    def test_layers_of_default_are_nni_s(self):
        class Words(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.table, self.fc = torch.nn.Embedding(50, 8), torch.nn.Linear(8, 4)
                self.norm, self.act = torch.nn.LayerNorm(4), torch.nn.PReLU()

            def forward(self, x):
                return self.act(self.norm(self.fc(self.table(x).mean(1))))

        net = Words()
        nni.LevelPruner(net, [{"sparsity": 0.5, "op_types": ["default"]}]).compress()
        self.assertEqual(zeros(net.table), 0.5)
        self.assertEqual(zeros(net.fc), 0.5)
        self.assertIsInstance(net.norm, torch.nn.LayerNorm)
        self.assertEqual(net(torch.zeros(2, 3, dtype=torch.int64)).shape, (2, 4))

    def test_pruned_weights_and_states(self):
        p = nni.L1FilterPruner(self.net, [{"sparsity": 0.25, "op_types": ["Conv2d"]}])
        p.compress()
        self.assertEqual(p.get_pruned_weights(), {"conv1": (6, 8), "conv2": (12, 16)})
        state = Net().state_dict()
        p.load_model_state_dict(state)
        self.assertTrue(torch.equal(self.net.conv2.module.weight, state["conv2.weight"]))
        p.export_model("m.pth", "k.pth", "m.onnx", dummy_input=self.x[:2], opset_version=12)
        self.assertEqual(pare.load("m.onnx").run(self.x[:5])["output"].shape, (5, 10))

    # ---- quantizers ----
    def test_all_kinds_of_activations_are_quantized(self):
        config = [{"quant_types": ["weight", "input"], "quant_bits": {"weight": 8, "input": 8}, "op_names": ["conv1", "conv2"]},
                  {"quant_types": ["output"], "quant_bits": {"output": 4}, "op_types": ["ReLU", "ReLU6", "MaxPool2d"]},
                  {"exclude": True, "op_names": ["pool"]}]
        q = nni.QAT_Quantizer(self.net, config, self.optimizer, dummy_input=self.x[:1])
        q.compress()
        self.assertEqual([w.name for w in q.get_modules_wrapper()], ["conv1", "conv2", "relu1", "relu2"])
        first = self.train(self.net)
        for _ in range(3):
            last = self.train(self.net)
        self.assertLess(last, first)
        out = self.net.relu2(6 * torch.rand(1000) + 1) / self.net.relu2.module.output_scale
        self.assertLessEqual(len(torch.unique(torch.round(out))), 16)
        scales = q.export_model("q.pth", "scales.pth", "q.onnx", (1, 1, 8, 8), torch.device("cpu"))
        self.assertEqual(set(scales["relu2"]), {"output_bits", "output_scale", "output_zero_point"})
        Net().load_state_dict(torch.load("q.pth"))

    def test_bnn_with_hardtanh(self):
        net = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(64, 64), torch.nn.BatchNorm1d(64), torch.nn.Hardtanh(),
                                  torch.nn.Linear(64, 10))
        optimizer = torch.optim.Adam(net.parameters(), lr=1e-2)
        q = nni.BNNQuantizer(net, [
            {"quant_types": ["weight"], "quant_bits": 1, "op_types": ["Conv2d", "Linear"], "op_names": ["1"]},
            {"quant_types": ["output"], "quant_bits": 1, "op_types": ["Hardtanh"], "op_names": ["3"]}], optimizer)
        q.compress()
        first = self.train(net, optimizer)
        for _ in range(3):
            last = self.train(net, optimizer)
        self.assertLess(last, first)
        self.assertEqual(torch.unique(net[3](torch.randn(100))).tolist(), [-1, 1])
        self.assertEqual(q.export_model("q.pth"), {"1": {"weight_bits": 1}, "3": {"output_bits": 1}})

    def test_schemes_that_are_set_for_all_quantizers(self):
        from pare.nni.compression._builtin import QAT_DEFAULTS
        from pare.nni.compression.pytorch.quantization.settings import set_quant_scheme_dtype
        self.addCleanup(QAT_DEFAULTS.clear)
        entry = {"quant_types": ["weight", "output"], "quant_bits": 8, "op_names": ["conv2"]}
        set_quant_scheme_dtype("weight", "per_channel_symmetric", "int")
        with self.assertRaisesRegex(ValueError, "expected weight"):
            set_quant_scheme_dtype("bias", "per_channel_symmetric", "int")
        for more, n in (({}, 16), ({"quant_scheme": "per_tensor_symmetric"}, 1)):
            net = Net()
            optimizer = torch.optim.SGD(net.parameters(), lr=0.05)
            nni.QAT_Quantizer(net, [{**entry, **more}], optimizer).compress()
            self.train(net, optimizer, batches=1)
            self.assertEqual(net.conv2.module.weight_scale.numel(), n)
            self.assertEqual(float(net.conv2.module.weight_zero_point.abs().max()), 0)
            self.assertEqual(net.conv2.module.output_scale.numel(), 1)
        from pare.nni.compression.pytorch.quantization_speedup import ModelSpeedupTensorRT
        with self.assertRaisesRegex(pare.Error, "use pare.quantize"):
            ModelSpeedupTensorRT(self.net, (1, 1, 8, 8))

    def test_quantizer_of_2x_reads_the_present_weight(self):
        class Eighths(nni.Quantizer):
            def quantize_weight(self, wrapper, **kwargs):
                wrapper.module.weight = torch.round(wrapper.module.weight * 8) / 8
                return wrapper.module.weight

        Eighths(self.net, [{"quant_types": ["weight"], "quant_bits": 8, "op_types": ["Conv2d"]}], self.optimizer).compress()
        for _ in range(2):
            self.train(self.net)
        self.net(self.x[:2])
        m = self.net.conv2.module
        self.assertTrue(torch.equal(m.weight, torch.round(m.old_weight.detach() * 8) / 8))

    def test_quant_grad_as_2_5(self):
        seen = []

        class Clip(nni.QuantGrad):
            @staticmethod
            def quant_backward(tensor, grad_output, quant_type, scale, zero_point, qmin, qmax):
                seen.append((quant_type, float(scale), qmin, qmax))
                return grad_output

        class Mine(nni.QAT_Quantizer):
            def __init__(self, model, config_list, optimizer):
                super().__init__(model, config_list, optimizer)
                self.quant_grad = Clip.apply

        Mine(self.net, [{"quant_types": ["weight"], "quant_bits": 4, "op_types": ["Conv2d"]}], self.optimizer).compress()
        self.train(self.net, batches=1)
        self.assertEqual({s[0] for s in seen}, {nni.QuantType.WEIGHT})
        self.assertGreater(min(s[1] for s in seen), 0)
        self.assertEqual({s[2:] for s in seen}, {(0, 15)})

    def test_saved_scales_of_lsq_are_those_of_the_last_step(self):
        config = [{"quant_types": ["weight"], "quant_bits": {"weight": 4}, "op_types": ["Conv2d", "Linear"]},
                  {"quant_types": ["output"], "quant_bits": {"output": 4}, "op_names": ["relu1", "relu2"]}]
        nni.LsqQuantizer(self.net, config, self.optimizer).compress()
        self.train(self.net)
        torch.save(self.net.state_dict(), "state.pth")
        again = Net()
        nni.LsqQuantizer(again, config, torch.optim.SGD(again.parameters(), lr=0.05)).compress()
        again.load_state_dict(torch.load("state.pth"))
        self.assertTrue(torch.equal(again.eval()(self.x), self.net.eval()(self.x)))

    def test_quantized_model_is_not_made_smaller(self):
        nni.QAT_Quantizer(self.net, [{"quant_types": ["weight"], "quant_bits": 8, "op_types": ["Conv2d"]}],
                          self.optimizer).compress()
        with self.assertRaisesRegex(ValueError, "before it is quantized"):
            nni.ModelSpeedup(self.net, self.x[:1], masks_or_file={}).speedup_model()
        with self.assertRaisesRegex(ValueError, "needs masks"):
            nni.ModelSpeedup(Net(), self.x[:1])
        with self.assertRaisesRegex(pare.Error, "no data to calibrate"):
            nni.ObserverQuantizer(Net(), [{"quant_types": ["weight"], "quant_bits": 8, "op_types": ["Conv2d"]}])

    def test_incomplete_entries_are_errors(self):
        for entry in ({"quant_bits": 8}, {"quant_types": ["weight"]}, {"quant_types": "weight", "quant_bits": 8},
                      {"quant_types": ["weight", "output"], "quant_bits": {"weight": 8}}):
            for cls in (nni.QAT_Quantizer, nni.Quantizer):
                with self.assertRaisesRegex(ValueError, "quant_(types|bits) .*expected"):
                    cls(Net(), [{"op_types": ["Conv2d"], **entry}])


if __name__ == "__main__":
    warnings.filterwarnings("ignore", message=".*non-writable.*")
    unittest.main()
