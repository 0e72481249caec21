"""ADMMPruner and MovementPruner of a torch.nn.Module: compress() trains it with PyTorch, and the library ranks.  The rules are
those of src/prune/prune_admm.c and prune_movement.c, which train a pare.Model."""
from __future__ import annotations

import contextlib
import math
import warnings
from typing import Any, Callable, Dict, Iterator, Mapping, Optional

from ... import _algorithms as algorithms
from ..._library import Error
from . import _core as core
from ._training import patched_step

torch = core.torch
NAMES = ("admm", "movement")
GRANULARITIES = {"fine-grained": None, "coarse-grained": "out_channel"}     # NNI's -> the key of the library's config_list


class _Ranked(algorithms.Pruner):
    """Units with the lowest scores are removed, from all units each time."""

    name, granularity, one_shot, regrow = "learned", "element", False, True
    scores: Optional[Mapping[str, Any]] = None           # of each layer, of the shape of its units

    def score(self, layer: Any) -> Any:                  # type: ignore[override]
        return None if self.scores is None else self.scores[layer.name]


class _Admm(_Ranked):
    name = "admm_of_module"
    keys = {"rho": (float, 1e-4, "strength of the pull toward sparse weights", 0, 1e6)}
    options = {"iterations": (int, 30, "number of training rounds", 1, 1e6),
               "training_epochs": (int, 5, "epochs in each round", 1, 1e6)}


class _Movement(_Ranked):
    name = "movement_of_module"
    options = {"warm_up_step": (int, 0, "training steps before the first unit is removed", 0, 1e9),
               "cool_down_beginning_step": (int, 1000, "training step at which the sparsity is reached", 1, 1e9),
               "training_epochs": (int, 0, "epochs of training (0: by steps)", 0, 1e9),
               "training_steps": (int, 0, "training steps during which scores are learned (0: by epochs)", 0, 1e9),
               "movement_mode": (str, "hard", "hard: sparsity is exact; soft: sparsity is a threshold"),
               "regular_scale": (float, 0.0, "weight of the scores in the loss", 0, 1e6),
               "score_lr": (float, 1e-2, "learning rate of the scores", 0, 1e6)}


class _Masked(torch.autograd.Function if torch is not None else object):     # type: ignore[misc]
    """weight * mask.  Backward: the gradient of the scores is added to the wrapper, as if the mask were the scores."""

    @staticmethod
    def forward(ctx: Any, weight: Any, mask: Any, wrapper: Any) -> Any:
        ctx.save_for_backward(weight, mask)
        ctx.wrapper = wrapper
        return weight * mask

    @staticmethod
    def backward(ctx: Any, gy: Any) -> Any:
        weight, mask = ctx.saved_tensors
        flow = gy.detach() * weight.detach()
        known = ctx.wrapper.__dict__["flow"]
        ctx.wrapper.__dict__["flow"] = flow if known is None else known + flow
        return gy * mask, None, None


class ScoredModuleWrapper(core.PrunerModuleWrapper):
    """During compress() removed weights keep their values, and the module computes with weight * mask."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.__dict__["scoring"] = False
        self.__dict__["flow"] = None                     # sum of gradient * weight since the last step, of weight's shape

    def apply_masks(self) -> None:
        if not self.scoring:
            super().apply_masks()

    def forward(self, *inputs: Any, **kwargs: Any) -> Any:
        if not self.scoring:
            return super().forward(*inputs, **kwargs)
        m, own = self.module, self.module.__dict__       # an entry there hides the parameter of that name
        own["weight"] = _Masked.apply(m.weight, self.weight_mask.clone(), self)
        if self.bias is not None and self.bias_mask is not None:
            own["bias"] = m.bias * self.bias_mask
        try:
            return m(*inputs, **kwargs)
        finally:
            own.pop("weight")
            own.pop("bias", None)


class Learned:
    """What compress() of a pruner does whose layers are wrapped and whose compression ranks by `ranked`."""

    def __init__(self, c: Any, ranked: _Ranked) -> None:
        self.c, self.ranked = c, ranked
        self.steps = 0

    def masks(self, scores: Mapping[str, Any]) -> None:
        """weight_mask and bias_mask of all layers by scores of their units; weights stay as they are."""
        self.ranked.scores = scores
        self.c.compression.update_masks()
        self.c._pull_masks()

    def train(self, epochs: int, steps: int, enough: Callable[[], bool]) -> None:
        """Of an evaluator one call, else up to `epochs` calls of the trainer, until there are enough steps.  0: no limit."""
        c, t, before = self.c, self.c.trainer, self.steps
        if t.evaluator is not None:
            t.evaluator.train(c.bound_model, steps or None, epochs or None)
        else:
            epoch, last = 0, -1
            while (not epochs or epoch < epochs) and not enough() and self.steps != last:
                last = self.steps                        # an epoch without a step is the last
                t.epoch(c.bound_model, epoch)
                epoch += 1
        if self.steps == before:
            raise Error("%s learns from steps of the optimizer, but the trainer made none with it" % type(c).__name__)


class Admm(Learned):
    """loss += rho / 2 |W - Z + U|^2; after each round Z is W + U with the lowest units 0, and U += W - Z."""

    def __init__(self, c: Any, ranked: _Ranked) -> None:
        super().__init__(c, ranked)
        self.z: Dict[str, Any] = {}
        self.u: Dict[str, Any] = {}

    def _penalty(self, step: Callable[..., Any], *arguments: Any, **kwargs: Any) -> Any:
        """A step of the optimizer with the penalty's gradient."""
        with torch.no_grad():
            for w in self.c.modules_wrapper:
                p, rho = w.module.weight, float(w.config.get("rho", 1e-4))
                if p.grad is not None:
                    p.grad.add_(p - self.z[w.name] + self.u[w.name], alpha=rho)
        self.steps += 1
        return step(*arguments, **kwargs)

    def penalty(self) -> float:
        """What is added to the loss."""
        return sum(float(w.config.get("rho", 1e-4)) / 2 * float((w.weight.detach() - self.z[w.name] + self.u[w.name])
                                                                .pow(2).sum()) for w in self.c.modules_wrapper)

    def _sums(self, values: Mapping[str, Any]) -> Dict[str, Any]:
        return {w.name: w.layer.sums(of=values[w.name].detach().cpu().numpy()) for w in self.c.modules_wrapper}

    def project(self) -> None:
        """Z and U after a round."""
        c = self.c
        v = {w.name: w.weight.detach() + self.u[w.name] for w in c.modules_wrapper}
        self.masks(self._sums(v))
        for w in c.modules_wrapper:
            self.z[w.name] = v[w.name] * w.weight_mask
            self.u[w.name] = v[w.name] - self.z[w.name]
            for mask in (w.weight_mask, w.bias_mask):    # nothing is removed before the end
                if mask is not None:
                    mask.fill_(1)

    def compress(self) -> None:
        c = self.c
        self.z = {w.name: w.weight.detach().clone() for w in c.modules_wrapper}
        self.u = {n: torch.zeros_like(z) for n, z in self.z.items()}
        with patched_step(c.optimizer, self._penalty):
            for _ in range(self.ranked.iterations):      # type: ignore[attr-defined]
                self.train(self.ranked.training_epochs, 0, lambda: False)    # type: ignore[attr-defined]
                self.project()
        self.masks(self._sums({w.name: w.weight for w in c.modules_wrapper}))
        for w in c.modules_wrapper:
            w.apply_masks()


class Movement(Learned):
    """Scores of units, which an optimizer of their own learns; masks follow them after each step."""

    def __init__(self, c: Any, ranked: Any) -> None:
        super().__init__(c, ranked)
        o, name = ranked, type(c).__name__
        if o.movement_mode not in ("hard", "soft"):
            raise Error("movement_mode of %s is '%s'; expected hard or soft" % (name, o.movement_mode))
        if o.cool_down_beginning_step <= o.warm_up_step:
            raise Error("cool_down_beginning_step of %s is %d; expected more than warm_up_step (%d)"
                        % (name, o.cool_down_beginning_step, o.warm_up_step))
        self.last = o.training_steps or (0 if o.training_epochs else o.cool_down_beginning_step)
        if self.last and self.last < o.cool_down_beginning_step:
            raise Error("training_steps of %s is %d; expected at least cool_down_beginning_step (%d)"
                        % (name, self.last, o.cool_down_beginning_step))
        self.soft = o.movement_mode == "soft"
        for w in c.modules_wrapper:
            w.register_buffer("weight_score", torch.zeros(w.layer.units, device=w.weight.device))
            w.layer.sparsity = 0.0

    def fraction(self, step: int) -> float:
        """Of the sparsity, after a number of steps: 0 to warm_up_step, 1 from cool_down_beginning_step, cubic between."""
        o: Any = self.ranked
        if step <= o.warm_up_step:
            return 0.0
        if step >= o.cool_down_beginning_step:
            return 1.0
        return float(1 - (1 - (step - o.warm_up_step) / (o.cool_down_beginning_step - o.warm_up_step)) ** 3)

    def _gradient(self, w: Any) -> Any:
        """Of the scores: gradient * weight summed over each unit, and the loss term regular_scale mean sigmoid(score)."""
        if w.flow is None:
            return None
        if tuple(w.flow.shape) == tuple(w.weight_score.shape):
            g = w.flow.to(w.weight_score.dtype)
        else:                                            # sums() is of magnitudes
            f = w.flow.cpu().numpy()
            g = torch.from_numpy(w.layer.sums(of=f.clip(min=0)) - w.layer.sums(of=f.clip(max=0))).to(w.weight_score.device)
        o: Any = self.ranked
        pull = o.regular_scale * self.fraction(self.steps) / len(self.c.modules_wrapper) / w.weight_score.numel()
        y = torch.sigmoid(w.weight_score)
        return g + pull * y * (1 - y)

    def _sparsity(self, w: Any, scores: Any) -> float:
        """Of a layer at this step.  soft: at which ranking removes exactly the units below the threshold, not all."""
        aim = self.fraction(self.steps) * float(w.layer.config_sparsity)
        if not self.soft:
            return aim
        below = min(int((1 / (1 + torch.exp(-scores)) <= aim).sum()), scores.numel() - 1)
        return (below + 0.5) / scores.numel() if below > 0 else 0.0

    def _step(self, step: Callable[..., Any], *arguments: Any, **kwargs: Any) -> Any:
        """A step of the optimizer, of the scores, and new masks."""
        result = step(*arguments, **kwargs)
        wrappers = self.c.modules_wrapper
        if not self.last or self.steps < self.last:
            with torch.no_grad():
                for w in wrappers:
                    w.weight_score.grad = self._gradient(w)
            self.adam.step()
            self.steps += 1
            if self.fraction(self.steps) > 0:
                scores = {w.name: w.weight_score.detach().cpu() for w in wrappers}
                for w in wrappers:
                    w.layer.sparsity = self._sparsity(w, scores[w.name])
                self.masks({n: s.numpy() for n, s in scores.items()})
        for w in wrappers:
            w.weight_score.grad = w.__dict__["flow"] = None
        return result

    def _score(self, scoring: bool) -> None:
        for w in self.c.modules_wrapper:
            w.__dict__.update(scoring=scoring, flow=None)

    def compress(self) -> None:
        c, o = self.c, self.ranked
        self.adam = torch.optim.Adam([w.weight_score for w in c.modules_wrapper], lr=o.score_lr)    # type: ignore[attr-defined]
        self._score(True)
        try:
            with patched_step(c.optimizer, self._step):
                self.train(o.training_epochs, self.last,     # type: ignore[attr-defined]
                           lambda: bool(self.last) and self.steps >= self.last)
        finally:
            self._score(False)
        if self.fraction(self.steps) < 1:
            warnings.warn("%s made %d steps, fewer than cool_down_beginning_step (%d); layers have %.3g of their sparsity"
                          % (type(c).__name__, self.steps, o.cool_down_beginning_step, self.fraction(self.steps)),  # type: ignore
                          stacklevel=4)
        for w in c.modules_wrapper:
            w.apply_masks()


def config_of(c: Any, config_list: Any, options: Dict[str, Any]) -> Any:
    """The config_list with NNI's options for granularity, which are taken out of the options."""
    granularity = options.pop("granularity", None) if c.algorithm == "admm" else None
    sparse = options.pop("sparse_granularity", None) if c.algorithm == "movement" else None
    if granularity not in (None, *GRANULARITIES):
        raise Error("granularity of %s is '%s'; expected one of %s"
                    % (type(c).__name__, granularity, ", ".join(GRANULARITIES)))
    if sparse not in (None, "finegrained"):
        raise Error("sparse_granularity of %s is '%s'; only 'finegrained' is supported, and the key granularity of the "
                    "config_list" % (type(c).__name__, sparse), "UNSUPPORTED")
    units = GRANULARITIES.get(granularity or "")
    if units is None or not isinstance(config_list, (list, tuple)):
        return config_list
    return [e if not isinstance(e, Mapping) or e.get("exclude") else {"granularity": units, **e} for e in config_list]


def make(c: Any, options: Mapping[str, Any], compression: Callable[..., Any]) -> Learned:
    """Wraps the layers of a pruner; compression() is layer_compression()."""
    name = type(c).__name__
    if not c.trainer.trains() or c.optimizer is None:
        raise Error("%s of a torch.nn.Module trains it in compress(): pass an evaluator (a TorchEvaluator), or trainer, "
                    "traced_optimizer and criterion" % name)
    admm = c.algorithm == "admm"
    ranked: Any = _Admm() if admm else _Movement()
    if not admm:
        c.wrapper_class = ScoredModuleWrapper
    c.compression, c.training = compression(c, "pruner", ranked, options, False)
    c.compression.compress(progress=False)               # reads the options; there are no scores yet
    return Admm(c, ranked) if admm else Movement(c, ranked)
