# test_nni_learned.py - ADMMPruner and MovementPruner of a torch.nn.Module: masks, penalties and schedules by their formulas.
import unittest

import numpy as np

from common import Folder, digits, pare

from pare.nni.compression import pytorch as nni
from pare.nni.compression.pytorch import pruning

try:
    import torch
    from torch.nn.functional import cross_entropy
except ImportError:
    torch = None

LINEAR = [{"sparsity": 0.75, "op_types": ["Linear"]}]


@unittest.skipUnless(torch, "needs PyTorch")
class Learned(Folder):
    @classmethod
    def setUpClass(cls):
        torch.set_num_threads(1)
        cls.x, cls.y = (torch.from_numpy(a[:200]) for a in digits())

    def setUp(self):
        super().setUp()
        self.losses, self.calls, self.seen = [], [], []
        self.after = None                                            # called after each step

    def make(self, lr=0.1):
        torch.manual_seed(0)
        net = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(64, 16), torch.nn.ReLU(), torch.nn.Linear(16, 10))
        return net, torch.optim.SGD(net.parameters(), lr=lr)

    def train(self, model, optimizer, criterion, steps):
        for _ in range(steps):
            optimizer.zero_grad()
            loss = criterion(model(self.x), self.y)
            loss.backward()
            optimizer.step()
            self.losses.append(float(loss))
            if self.after:
                self.after()

    def trainer(self, model, optimizer, criterion):
        self.calls.append(None)
        self.train(model, optimizer, criterion, 5)

    def evaluator(self, optimizer):
        def training_func(model, optimizers, criterion, lr_schedulers=None, max_steps=None, max_epochs=None):
            self.calls.append((max_steps, max_epochs))
            self.train(model, optimizers, criterion, max_steps or 5 * max_epochs)

        return nni.TorchEvaluator(training_func, optimizer, cross_entropy)

    def lowest(self, score, sparsity):
        """A mask without the lowest int(n * sparsity) scores."""
        mask = torch.ones(score.numel())
        mask[score.flatten().argsort()[:int(score.numel() * sparsity)]] = 0
        return mask.view(score.shape)

    # ---- ADMM ----
    def test_admm_is_its_definition(self):
        """Against a loop with the penalty in the loss."""
        net, optimizer = self.make()
        p = pruning.ADMMPruner(net, [{**LINEAR[0], "rho": 0.2}], self.evaluator(optimizer), 3, 2)
        model, masks = p.compress()
        self.assertIs(model, net)
        self.assertEqual(self.calls, [(None, 2)] * 3)
        other, optimizer = self.make()
        weights = [other[1].weight, other[3].weight]
        z = [w.detach().clone() for w in weights]
        u = [torch.zeros_like(w) for w in weights]
        for _ in range(3):
            self.train(other, optimizer, lambda out, y: cross_entropy(out, y) + sum(
                0.1 * (w - a + b).pow(2).sum() for w, a, b in zip(weights, z, u)), 10)
            v = [w.detach() + b for w, b in zip(weights, u)]
            z = [a * self.lowest(a.abs(), 0.75) for a in v]
            u = [a - b for a, b in zip(v, z)]
        for name, w, a, b in zip("13", weights, z, u):
            w, mask = w.detach(), self.lowest(w.detach().abs(), 0.75)
            self.assertTrue(torch.equal(masks[name]["weight"], mask))
            self.assertEqual(int(mask.sum()), mask.numel() - int(mask.numel() * 0.75))
            self.assertLess(float((net[int(name)].module.weight - w * mask).abs().max()), 1e-5)
            self.assertLess(float((p.learned.z[name] - a).abs().max()), 1e-5)
            self.assertLess(float((p.learned.u[name] - b).abs().max()), 1e-5)

    def test_admm_pulls_weights_to_sparse_ones(self):
        """Masks cost less the stronger the pull is, and the loss falls."""
        cost = []
        for rho in (1e-4, 1.0):
            net, optimizer = self.make()
            self.losses = []
            p = pruning.ADMMPruner(net, [{**LINEAR[0], "rho": rho}], trainer=self.trainer, optimizer=optimizer,
                               criterion=cross_entropy, iterations=4, training_epochs=2)
            dense = []
            finish, sums = p.learned.project, dense.append
            p.learned.project = lambda: (finish(), sums([w.weight.detach().clone() for w in p.get_modules_wrapper()]))
            p.compress()
            self.assertEqual(len(dense), 4)
            self.assertLess(self.losses[-1], self.losses[0])
            cost.append(sum(float((d * (1 - w.weight_mask)).pow(2).sum()) / float(d.pow(2).sum())
                            for d, w in zip(dense[-1], p.get_modules_wrapper())))
        self.assertLess(cost[1], 0.8 * cost[0])
        self.assertEqual(len(self.calls), 2 * 4 * 2)

    def test_admm_of_channels(self):
        net, optimizer = self.make()
        config = LINEAR + [{"exclude": True, "op_names": ["3"]}]
        p = pruning.ADMMPruner(net, config, self.trainer, optimizer, cross_entropy, 2, 1, "coarse-grained")
        _, masks = p.compress()
        self.assertEqual(list(masks), ["1"])
        self.assertEqual(masks["1"]["bias"].sum(), 4)
        self.assertTrue(torch.equal(masks["1"]["weight"], masks["1"]["bias"][:, None].expand(16, 64)))
        p.export_model("model.pth", "mask.pth")
        small, _ = self.make()
        small.load_state_dict(torch.load("model.pth"))
        expected = small(self.x)
        nni.ModelSpeedup(small, torch.rand(1, 1, 8, 8), "mask.pth").speedup_model()
        self.assertEqual(small[1].out_features, 4)
        self.assertLess(float((small(self.x) - expected).abs().max()), 1e-4)

    # ---- Movement ----
    def reference(self, warm, cool, steps, soft=False, scale=0.0, sparsity=0.75, lr=0.1):
        """Masks of each step, by autograd."""
        net, optimizer = self.make(lr)
        layers = [net[1], net[3]]
        scores = [torch.zeros_like(m.weight, requires_grad=True) for m in layers]
        masks = [torch.ones_like(s) for s in scores]
        adam, history = torch.optim.Adam(scores, lr=1e-2), []
        for t in range(steps):
            def c(t):
                return 0 if t <= warm else 1 if t >= cool else 1 - (1 - (t - warm) / (cool - warm)) ** 3
            h = self.x.flatten(1)
            ones = [m + s - s.detach() for m, s in zip(masks, scores)]           # straight through
            h = torch.nn.functional.linear(h, layers[0].weight * ones[0], layers[0].bias).relu()
            h = torch.nn.functional.linear(h, layers[1].weight * ones[1], layers[1].bias)
            loss = cross_entropy(h, self.y) + scale * c(t) * sum(torch.sigmoid(s).mean() for s in scores) / 2
            for p in list(net.parameters()) + scores:
                p.grad = None
            loss.backward()
            optimizer.step()
            adam.step()
            aim = c(t + 1) * sparsity
            if aim > 0:
                masks = [(torch.sigmoid(s.detach()) > aim).float() if soft else self.lowest(s.detach(), aim) for s in scores]
            history.append([float(1 - m.mean()) for m in masks])
        return history, masks, [m.weight.detach() for m in layers]

    def movement(self, lr=0.1, config=LINEAR, **options):
        net, optimizer = self.make(lr)
        p = pruning.MovementPruner(net, config, self.evaluator(optimizer), **options)
        self.after = lambda: self.seen.append([float(1 - w.weight_mask.mean()) for w in p.get_modules_wrapper()])
        model, masks = p.compress()
        self.assertIs(model, net)
        return p, net, masks

    def test_movement_is_its_definition(self):
        _, net, masks = self.movement(warm_up_step=4, cool_down_beginning_step=20, training_steps=30)
        self.assertEqual(self.calls, [(30, None)])
        history, expected, weights = self.reference(4, 20, 30)
        np.testing.assert_allclose(self.seen, history, atol=1e-6)
        self.assertEqual(self.seen[3], [0, 0])
        self.assertGreater(self.seen[4][0], 0)
        for t in (5, 12, 19, 20, 30):                                # of 1024 weights
            c = 1 - (1 - min(1, (t - 4) / 16)) ** 3
            self.assertEqual(self.seen[t - 1][0], int(1024 * 0.75 * c) / 1024)
        for name, mask, w in zip("13", expected, weights):
            self.assertGreater(float((masks[name]["weight"] == mask).float().mean()), 0.995)
            kept = net[int(name)].module.weight * mask
            self.assertLess(float((kept - w * mask * masks[name]["weight"]).abs().max()), 1e-3)
        self.assertEqual(int(masks["1"]["weight"].sum()), 256)
        self.assertLess(self.losses[-1], self.losses[0])

    def test_movement_regrows(self):
        """Removed weights keep their values during training and can return."""
        net, optimizer = self.make(0.5)
        p = pruning.MovementPruner(net, LINEAR, self.trainer, optimizer, cross_entropy, 8, 2, 10)
        masks = []
        self.after = lambda: masks.append(p.get_modules_wrapper()[0].weight_mask.clone())
        p.compress()
        self.assertEqual(len(self.calls), 8)
        self.assertTrue(any(bool(((a == 0) & (b == 1)).any()) for a, b in zip(masks, masks[1:])))
        self.assertEqual(int((net[1].module.weight != 0).sum()), 256)
        before = p.get_modules_wrapper()[0].weight_mask.clone()
        self.train(net, optimizer, cross_entropy, 3)                 # then masks stay
        self.assertTrue(torch.equal(before, p.get_modules_wrapper()[0].weight_mask))
        self.assertEqual(int((net[1].module.weight != 0).sum()), 256)

    def test_movement_by_a_threshold(self):
        config = [{"sparsity": 0.477, "op_types": ["Linear"]}]
        removed = []
        for scale in (1.0, 30.0):
            self.seen = []
            _, _, masks = self.movement(config=config, warm_up_step=2, cool_down_beginning_step=10, training_steps=20,
                                        movement_mode="soft", regular_scale=scale)
            history, _, _ = self.reference(2, 10, 20, True, scale, 0.477)
            np.testing.assert_allclose(self.seen, history, atol=1.1 / 160)    # one weight at the threshold
            removed.append(self.seen[-1][0])
        self.assertGreater(removed[1], removed[0])

    def test_movement_of_channels(self):
        config = [{"sparsity": 0.5, "op_names": ["1"], "granularity": "out_channel"}]
        p, net, masks = self.movement(config=config, warm_up_step=1, cool_down_beginning_step=5)
        self.assertEqual(self.calls, [(5, None)])
        self.assertEqual(int(masks["1"]["bias"].sum()), 8)
        self.assertTrue(torch.equal(masks["1"]["weight"], masks["1"]["bias"][:, None].expand(16, 64)))
        self.assertEqual(p.get_modules_wrapper()[0].weight_score.numel(), 16)

    def test_wrong_arguments_are_errors(self):
        net, optimizer = self.make()
        for name, options, what in (
                ("ADMMPruner", {"iterations": 2}, "trains it in compress"),
                ("MovementPruner", {"warm_up_step": 2}, "trains it in compress"),
                ("ADMMPruner", {"evaluator": self.evaluator(optimizer), "granularity": "fine"}, "coarse-grained"),
                ("ADMMPruner", {"evaluator": self.evaluator(optimizer), "iterations": 0}, "iterations"),
                ("ADMMPruner", {"evaluator": self.evaluator(optimizer), "iteration": 2}, "unknown option 'iteration'"),
                ("MovementPruner", {"evaluator": self.evaluator(optimizer), "sparse_granularity": "auto"}, "finegrained"),
                ("MovementPruner", {"evaluator": self.evaluator(optimizer), "movement_mode": "both"}, "hard or soft"),
                ("MovementPruner", {"evaluator": self.evaluator(optimizer), "warm_up_step": 2000}, "more than warm_up_step"),
                ("MovementPruner", {"evaluator": self.evaluator(optimizer), "training_steps": 10}, "at least cool_down")):
            with self.assertRaisesRegex(pare.Error, what):
                getattr(pruning, name)(self.make()[0], LINEAR, **options)
        for name in ("ADMMPruner", "MovementPruner"):
            with self.assertRaisesRegex(pare.Error, "the trainer made none"):
                getattr(pruning, name)(self.make()[0], LINEAR, trainer=lambda *a: None, optimizer=optimizer).compress()
        with self.assertWarnsRegex(UserWarning, "made 5 steps, fewer than cool_down_beginning_step .10."):
            self.movement(warm_up_step=1, cool_down_beginning_step=10, training_epochs=1)


if __name__ == "__main__":
    unittest.main()
