# test_nni_search.py - NNI's pruners that search sparsities of layers with an evaluator of the user.
import copy
import csv
import json
import os
import unittest

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
            self.conv1, self.conv2 = torch.nn.Conv2d(1, 8, 3, padding=1), torch.nn.Conv2d(8, 16, 3)
            self.pool, self.fc = torch.nn.MaxPool2d(2), torch.nn.Linear(16 * 9, 10)

        def forward(self, x):
            return self.fc(self.pool(torch.relu(self.conv2(torch.relu(self.conv1(x))))).flatten(1))

LAYERS = [{"sparsity": 0.5, "op_types": ["Conv2d", "Linear"]}]


def zeros(model, name):
    return float((model.get_submodule(name).module.weight == 0).float().mean())


@unittest.skipUnless(torch, "needs PyTorch")
class Searches(Folder):
    @classmethod
    def setUpClass(cls):
        torch.manual_seed(0)
        torch.set_num_threads(1)
        cls.data = tuple(torch.from_numpy(a) for a in digits())
        cls.trained = Net()
        cls.train(cls.trained, 4)

    def setUp(self):
        super().setUp()
        np.random.seed(0)
        self.net = copy.deepcopy(self.trained)
        self.calls = 0

    @classmethod
    def train(cls, model, epochs=1):
        optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
        for _ in range(epochs):
            for x, y in zip(cls.data[0].split(64), cls.data[1].split(64)):
                optimizer.zero_grad()
                cross_entropy(model(x), y).backward()
                optimizer.step()

    def accuracy(self, model, n=400):
        self.calls += 1
        x, y = self.data
        with torch.no_grad():
            return float((model(x[:n]).argmax(1) == y[:n]).float().mean())

    def removed(self, pruner):
        masks = [w.weight_mask for w in pruner.get_modules_wrapper()]
        return sum(float((m == 0).sum()) for m in masks) / sum(m.numel() for m in masks)

    def test_simulated_annealing(self):
        pruner = nni.SimulatedAnnealingPruner(self.net, LAYERS, self.accuracy, base_algo="level", start_temperature=100,
                                              stop_temperature=40, cool_down_rate=0.9, experiment_data_dir="search")
        before = {k: v.clone() for k, v in self.net.state_dict().items() if k.endswith("module.weight")}
        self.assertIs(pruner.compress(), self.net)
        performances = [e["performance"] for e in pruner.history]
        self.assertEqual(self.calls, len(performances))
        self.assertGreaterEqual(len(performances), 1 + 9)            # 100 * 0.9^9 < 40
        self.assertEqual(pruner.best["performance"], max(performances))
        self.assertEqual(self.accuracy(self.net), max(performances))
        self.assertAlmostEqual(self.removed(pruner), 0.5, 2)
        for e in pruner.history:
            s = {c["op_names"][0]: c["sparsity"] for c in e["config_list"]}
            self.assertLessEqual(s.get("conv1", 0), s["conv2"])      # by size: conv1, conv2, fc
            self.assertLessEqual(s["conv2"], s["fc"])
            self.assertAlmostEqual(e["sparsity"], 0.5, 2)
        for name, old in before.items():                             # what is left has not changed
            new = self.net.state_dict()[name]
            self.assertTrue(torch.equal(new[new != 0], old[new != 0]))
        with open("search/search_history.csv", encoding="utf-8") as f:
            self.assertEqual([float(r["performance"]) for r in csv.DictReader(f)], performances)
        with open("search/search_result.json", encoding="utf-8") as f:
            config = json.load(f)["config_list"]
        other = copy.deepcopy(self.trained)                          # other pruners take its result
        nni.LevelPruner(other, config).compress()
        self.assertTrue(all(torch.equal(m.weight, w.weight) for m, w in zip(
            (other.conv2.module, other.fc.module), (self.net.conv2.module, self.net.fc.module))))

    def test_annealing_minimizes(self):
        pruner = nni.SimulatedAnnealingPruner(self.net, LAYERS, lambda m: -self.accuracy(m), "minimize", "l1", 100, 60)
        config = pruner.compress(return_config_list=True)
        self.assertEqual(pruner.best["performance"], min(e["performance"] for e in pruner.history))
        self.assertEqual(config, pruner.best["config_list"])
        self.assertFalse(os.listdir("."))

    def test_sensitivity(self):
        """The layer that costs accuracy loses less; after the rounds the model is as sparse as asked."""
        def sensitive(model, weight):
            return 1 - weight * zeros(model, "conv2") - 0.01 * zeros(model, "fc")

        config = [{"sparsity": 0.5, "op_names": ["conv2", "fc"]}]
        pruner = nni.SensitivityPruner(self.net, config, sensitive, self.train, base_algo="level", sparsity_per_iter=0.2,
                                       acc_drop_threshold=0.05, checkpoint_dir="rounds")
        pruner.compress(eval_args=[0.5], finetune_args=[1])
        self.assertLess(zeros(self.net, "conv2"), 0.35)
        self.assertGreater(zeros(self.net, "fc"), 0.55)
        self.assertAlmostEqual(self.removed(pruner), 0.5, 2)
        self.assertEqual(len(pruner.history), 3)                     # 0.2, 0.4, 0.5
        np.testing.assert_allclose([e["sparsity"] for e in pruner.history], [0.2, 0.4, 0.5], atol=1e-6)
        self.assertEqual(list(pruner.sensitivity["conv2"])[:2], [0.1, 0.2][:len(pruner.sensitivity["conv2"])])
        self.assertEqual(len(pruner.sensitivity["fc"]), 9)           # never dropped by 0.05
        self.assertEqual(len([n for n in os.listdir("rounds") if n.endswith("_mask.pth")]), 3)
        self.assertGreater(self.accuracy(self.net), 0.8)

    def test_netadapt(self):
        """In each iteration the layer that costs least; fine-tuning of the others is undone."""
        tuned = []

        def tune(model):
            tuned.append(zeros(model, "fc"))
            self.train(model)

        def evaluate(model):
            return 1 - zeros(model, "conv2")                         # only fc should lose weights

        config = [{"sparsity": 0.3, "op_names": ["conv2", "fc"]}]
        pruner = nni.NetAdaptPruner(self.net, config, tune, evaluate, base_algo="level", sparsity_per_iteration=0.1)
        pruner.compress()
        self.assertEqual(len(tuned), 2 * 3)
        self.assertEqual(zeros(self.net, "conv2"), 0)
        self.assertAlmostEqual(self.removed(pruner), 0.3, 2)
        self.assertEqual([e["performance"] for e in pruner.history], [1, 1, 1])

    def test_netadapt_of_filters_to_a_smaller_module(self):
        config = [{"sparsity": 0.3, "op_types": ["Conv2d"]}]
        pruner = nni.NetAdaptPruner(self.net, config, self.train, self.accuracy, sparsity_per_iteration=0.15)
        pruner.compress()
        pruner.export_model("model.pth", "mask.pth")
        small = copy.deepcopy(self.trained)
        small.load_state_dict(torch.load("model.pth"))
        expected = small(self.data[0][:5])
        nni.ModelSpeedup(small, torch.rand(1, 1, 8, 8), "mask.pth").speedup_model()
        self.assertLess(small.conv1.out_channels + small.conv2.out_channels, 24)
        self.assertLess(float((small(self.data[0][:5]) - expected).abs().max()), 1e-4)
        self.assertGreater(self.accuracy(small), 0.7)

    def test_wrong_arguments_are_errors(self):
        model, f = pare.new("lenet", (1, 8, 8)), self.accuracy
        for cls, search, arguments in ((nni.SimulatedAnnealingPruner, "simulated_annealing", (f,)),
                                       (nni.SensitivityPruner, "sensitivity", (f,)), (nni.NetAdaptPruner, "netadapt", (f, f))):
            with self.assertRaisesRegex(pare.Error, r"pare.prune\(..., pruner='%s'" % search):
                cls(model, LAYERS, *arguments)
            with self.assertRaisesRegex(pare.Error, "base_algo of .* is 'slim'"):
                cls(copy.deepcopy(self.trained), LAYERS, *arguments, base_algo="slim")
            with self.assertRaisesRegex(pare.Error, "the evaluator of .* is a int"):
                cls(copy.deepcopy(self.trained), LAYERS, *arguments[:-1], 3)
            with self.assertRaisesRegex(pare.Error, "expected one in"):
                cls(copy.deepcopy(self.trained), [{**LAYERS[0], "sparsity": 1.5}], *arguments)
        with self.assertRaisesRegex(pare.Error, "maximize or minimize"):
            nni.SimulatedAnnealingPruner(self.net, LAYERS, f, "best")


if __name__ == "__main__":
    unittest.main()
