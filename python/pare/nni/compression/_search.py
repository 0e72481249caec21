"""SimulatedAnnealingPruner, SensitivityPruner and NetAdaptPruner of a torch.nn.Module: sparsities of layers, found by the
user's evaluator.  Masks are the library's; of a pare.Model, pare.prune() has the same searches."""
from __future__ import annotations

import csv
import json
import math
import os
from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence

import numpy as np

from ... import _algorithms as algorithms
from ..._library import Error
from ..._model import load
from . import _core as core
from ._layers import layers_model

torch = core.torch
BASES = ("level", "l1", "l2", "fpgm")
Sparsities = Dict[str, float]


class SearchPruner(core.Pruner):
    """Layers, masks for a sparsity of each, and what an evaluator says about them."""

    def __init__(self, model: Any, config_list: Sequence[Mapping[str, Any]], evaluator: Any, finetuner: Any,
                 base: str, optimize_mode: str, folder: Optional[str], search: str) -> None:
        name = type(self).__name__
        if not core.is_torch(model):
            raise Error("%s of a %s is pare.prune(..., pruner='%s', data=...)" % (name, type(model).__name__, search),
                        "UNSUPPORTED")
        evaluate = getattr(evaluator, "evaluate", evaluator)     # of a TorchEvaluator
        for what, function in (("evaluator", evaluate), ("fine-tuner", finetuner)):
            if not callable(function) and (what == "evaluator" or function is not None):
                raise Error("the %s of %s is a %s; expected a function of the model"
                            % (what, name, type(function).__name__))
        if base not in BASES:
            raise Error("base_algo of %s is '%s'; expected one of %s" % (name, base, ", ".join(BASES)))
        if optimize_mode not in ("maximize", "minimize"):
            raise Error("optimize_mode of %s is '%s'; expected maximize or minimize" % (name, optimize_mode))
        self.evaluator, self.finetuner, self.base, self.folder = evaluate, finetuner, base, folder
        self.sign = 1.0 if optimize_mode == "maximize" else -1.0
        self.history: List[Dict[str, Any]] = []
        self.best: Dict[str, Any] = {}
        super().__init__(model, config_list)
        aims = {w.config.get("sparsity") for w in self.modules_wrapper}
        if len(aims) != 1 or not isinstance(next(iter(aims)), (int, float)) or not 0 < next(iter(aims)) < 1:
            raise Error("config_list of %s has the sparsities %s; expected one in (0, 1), that of all layers together"
                        % (name, sorted(map(str, aims))))
        self.aim = float(aims.pop())                     # type: ignore[arg-type]
        self.counts = {w.name: int(w.weight.numel()) for w in self.modules_wrapper}
        self.all = sum(self.counts.values())

    def calc_mask(self, wrapper: Any, **kwargs: Any) -> Any:
        return None                                      # masks stay as compress() made them

    # ---- masks ----
    def config_of(self, sparsities: Sparsities) -> List[Dict[str, Any]]:
        """A config_list for other pruners."""
        types = {w.name: w.type for w in self.modules_wrapper}
        return [{"sparsity": float(s), "op_names": [n], "op_types": [types[n]]} for n, s in sparsities.items() if s >= 1e-6]

    def mask(self, sparsities: Sparsities) -> None:
        """Masks of all layers by the weights as they are; removed weights are 0 and stay removed."""
        config = [{k: v for k, v in e.items() if k != "op_types"} for e in self.config_of(sparsities)]
        made: Dict[str, Any] = {}
        if config:
            model = load(layers_model([(w.name, w.module) for w in self.modules_wrapper]))
            c = algorithms.Compression(model, pruner=self.base, config=config)
            c.compress(progress=False)
            made = {layer.name: layer for layer in c.layers}
        for w in self.modules_wrapper:
            for key in ("mask", "bias_mask"):
                old = w.weight_mask if key == "mask" else w.bias_mask
                new = getattr(made[w.name], key) if w.name in made else None
                if old is not None:
                    old.copy_(torch.ones_like(old) if new is None else torch.from_numpy(new))
            w.apply_masks()

    def state(self) -> Dict[str, Any]:
        return {k: v.detach().clone() for k, v in self.bound_model.state_dict().items()}

    def tune(self, *arguments: Any, **kwargs: Any) -> None:
        if self.finetuner is not None:
            self.finetuner(self.bound_model, *arguments, **kwargs)
            for w in self.modules_wrapper:               # the last step of an optimizer has changed removed weights
                w.apply_masks()

    def evaluate(self, *arguments: Any, **kwargs: Any) -> float:
        return float(self.evaluator(self.bound_model, *arguments, **kwargs))

    def try_out(self, sparsities: Sparsities) -> float:
        """The metric of the masked model; the model stays as it is."""
        before = self.state()
        self.mask(sparsities)
        value = self.evaluate()
        self.bound_model.load_state_dict(before)
        return value

    def keep(self, sparsities: Sparsities, value: float) -> None:
        """A step of the search: its history, and whether it is the best one."""
        share = sum(s * self.counts[n] for n, s in sparsities.items()) / self.all
        entry = {"sparsity": share, "performance": value, "config_list": self.config_of(sparsities)}
        self.history.append(entry)
        if not self.best or self.sign * value > self.sign * self.best["performance"]:
            self.best = entry

    def write(self, result: Mapping[str, Any]) -> None:
        """NNI's search_history.csv and search_result.json, in a folder that the caller named."""
        if self.folder is None:
            return
        os.makedirs(self.folder, exist_ok=True)
        with open(os.path.join(self.folder, "search_history.csv"), "w", newline="", encoding="utf-8") as f:
            rows = csv.DictWriter(f, ["sparsity", "performance", "config_list"])
            rows.writeheader()
            rows.writerows({**e, "config_list": json.dumps(e["config_list"])} for e in self.history)
        with open(os.path.join(self.folder, "search_result.json"), "w", encoding="utf-8") as f:
            json.dump({k: result[k] for k in ("performance", "config_list")}, f)

    def get_best_result(self) -> Any:
        """Number of steps, model, masks, metric and config_list, as NNI 2.x."""
        return (len(self.history), self.bound_model, self.compressed_masks(), self.best.get("performance"),
                self.best.get("config_list"))


class SimulatedAnnealingPruner(SearchPruner):
    """NNI's SimulatedAnnealingPruner: random changes of the sparsities, worse ones are accepted while it is hot.  Random
    numbers are those of numpy.random."""

    def __init__(self, model: Any, config_list: Sequence[Mapping[str, Any]], evaluator: Any, optimize_mode: str = "maximize",
                 base_algo: str = "l1", start_temperature: float = 100, stop_temperature: float = 20,
                 cool_down_rate: float = 0.9, perturbation_magnitude: float = 0.35,
                 experiment_data_dir: Optional[str] = None, *, pruning_algorithm: Optional[str] = None,
                 log_dir: Any = None) -> None:
        base_algo = pruning_algorithm or base_algo       # its name in NNI 2.x, which log_dir is of, too
        if start_temperature <= 0 or stop_temperature <= 0 or not 0 < cool_down_rate < 1:
            raise Error("SimulatedAnnealingPruner needs positive temperatures and a cool_down_rate in (0, 1)")
        self.start, self.stop, self.rate = start_temperature, stop_temperature, cool_down_rate
        self.magnitude = perturbation_magnitude
        super().__init__(model, config_list, evaluator, None, base_algo, optimize_mode, experiment_data_dir,
                         "simulated_annealing")
        self.order = sorted(self.counts, key=lambda n: self.counts[n])

    def rescaled(self, values: np.ndarray) -> Optional[Sparsities]:
        """Larger layers get larger sparsities, of the aim in total; None: one would have to lose everything."""
        values = np.sort(values)
        weights = np.array([self.counts[n] for n in self.order])
        removed = np.floor(weights * values).sum()
        if removed <= 0:
            return None
        values = values * self.aim * self.all / removed
        return dict(zip(self.order, map(float, values))) if values[-1] < 1 else None

    def random(self) -> Sparsities:
        low = 0.0
        while True:
            found = self.rescaled(np.random.uniform(low, 1, len(self.order)))
            if found is not None:
                return found
            low += 0.05 * (1 - low)                      # sparsities near 1 are all alike

    def changed(self, sparsities: Sparsities, temperature: float) -> Sparsities:
        m = temperature / self.start * self.magnitude
        while True:
            r = np.array([sparsities[n] for n in self.order])
            found = self.rescaled(np.clip(r + np.random.uniform(-m, m, len(r)), 0, None))
            if found is not None:
                return found
            m *= 0.95                                    # a change that is small enough is possible

    def compress(self, return_config_list: bool = False) -> Any:
        temperature, now = self.start, self.random()
        value = self.try_out(now)
        self.keep(now, value)
        while temperature > self.stop:
            new = self.changed(now, temperature)
            found = self.try_out(new)
            self.keep(new, found)
            worse = self.sign * (value - found)
            if worse < 0 or np.random.uniform() < math.exp(-worse / temperature):
                now, value, temperature = new, found, temperature * self.rate
        self.mask({e["op_names"][0]: e["sparsity"] for e in self.best["config_list"]})
        self.write(self.best)
        return self.best["config_list"] if return_config_list else self.bound_model


class SensitivityPruner(SearchPruner):
    """NNI's SensitivityPruner: rounds in which insensitive layers lose more, with fine-tuning after each."""

    def __init__(self, model: Any, config_list: Sequence[Mapping[str, Any]], evaluator: Any, finetuner: Any = None,
                 base_algo: str = "l1", sparsity_proportion_calc: Optional[Callable[..., Mapping[str, float]]] = None,
                 sparsity_per_iter: float = 0.1, acc_drop_threshold: float = 0.05,
                 checkpoint_dir: Optional[str] = None) -> None:
        if not 0 < sparsity_per_iter < 1:
            raise Error("sparsity_per_iter of SensitivityPruner is %s; expected a number in (0, 1)" % sparsity_per_iter)
        self.proportions, self.part, self.threshold = sparsity_proportion_calc, sparsity_per_iter, acc_drop_threshold
        super().__init__(model, config_list, evaluator, finetuner, base_algo, "maximize", None, "sensitivity")
        self.checkpoints = checkpoint_dir
        self.sensitivity: Dict[str, Dict[float, float]] = {}     # of the last round: layer, sparsity, metric

    def analyze(self, done: Sparsities, base: float, call: Callable[[], float]) -> None:
        """Each layer alone, more and more of what it still has, until the metric drops by the threshold."""
        self.sensitivity = {n: {} for n in self.counts}
        for n in self.counts:
            for step in range(1, 10):
                before = self.state()
                self.mask({**done, n: done[n] + (1 - done[n]) * step / 10})
                self.sensitivity[n][step / 10] = value = call()
                self.bound_model.load_state_dict(before)
                if value + self.threshold < base:
                    break

    def proportion(self, base: float) -> Mapping[str, float]:
        if self.proportions is not None:
            return self.proportions(self.sensitivity)
        return {n: next((s for s, v in found.items() if v + self.threshold < base), max(found))
                for n, found in self.sensitivity.items()}

    def compress(self, eval_args: Sequence[Any] = (), eval_kwargs: Optional[Mapping[str, Any]] = None,
                 finetune_args: Sequence[Any] = (), finetune_kwargs: Optional[Mapping[str, Any]] = None,
                 resume_sensitivity: Any = None) -> Any:
        if resume_sensitivity is not None:
            raise Error("SensitivityPruner does not read resume_sensitivity; leave it out", "UNSUPPORTED")

        def call() -> float:
            return self.evaluate(*(eval_args or ()), **(eval_kwargs or {}))

        done, removed = {n: 0.0 for n in self.counts}, 0.0
        while removed < self.aim - 1e-9:
            base = call()
            self.analyze(done, base, call)
            p = self.proportion(base)
            left = {n: self.counts[n] * (1 - done[n]) for n in self.counts}
            sum_ = sum(p[n] * left[n] for n in left)
            k = min(min(self.part, self.aim - removed) * self.all / sum_, 0.95 / max(p.values()))
            done = {n: done[n] + (1 - done[n]) * k * p[n] for n in done}
            now = sum(done[n] * self.counts[n] for n in done) / self.all
            if now - removed < 1e-6:
                raise Error("SensitivityPruner cannot remove more than %.4f of the weights" % now)
            removed = now
            self.mask(done)
            self.tune(*(finetune_args or ()), **(finetune_kwargs or {}))
            self.keep(done, call())
            self.best = self.history[-1]                 # the last round has the sparsity
            if self.checkpoints is not None:
                os.makedirs(self.checkpoints, exist_ok=True)
                name = "Iter_%d_finetune_acc_%.5f_sparsity_%.4f" % (len(self.history), self.best["performance"], removed)
                path = os.path.join(self.checkpoints, name)
                self.export_model(path + ".pth", path + "_mask.pth")
        return self.bound_model


class NetAdaptPruner(SearchPruner):
    """NNI's NetAdaptPruner: in each iteration the layer loses some that costs least, after a short fine-tuning."""

    def __init__(self, model: Any, config_list: Sequence[Mapping[str, Any]], short_term_fine_tuner: Any, evaluator: Any,
                 optimize_mode: str = "maximize", base_algo: str = "l1", sparsity_per_iteration: float = 0.05,
                 experiment_data_dir: Optional[str] = None) -> None:
        if not 0 < sparsity_per_iteration < 1:
            raise Error("sparsity_per_iteration of NetAdaptPruner is %s; expected a number in (0, 1)" % sparsity_per_iteration)
        self.part = sparsity_per_iteration
        super().__init__(model, config_list, evaluator, short_term_fine_tuner, base_algo, optimize_mode,
                         experiment_data_dir, "netadapt")

    def related(self, name: str, done: Sparsities) -> float:
        """Weights that removing all channels of a layer would remove: its own, less what the layer before lost, and those of
        the layer after that are left.  Neighbors are by order in the model, as in NNI."""
        if self.base == "level":
            return self.counts[name]
        names = list(self.counts)
        i = names.index(name)
        own = self.counts[name] * (1 - done[names[i - 1]] if i else 1.0)
        after = self.counts[names[i + 1]] * (1 - done[names[i + 1]]) if i + 1 < len(names) else 0.0
        return own + after

    def compress(self) -> Any:
        done, removed, part = {n: 0.0 for n in self.counts}, 0.0, self.part
        while removed < self.aim - 1e-9:
            step = min(part, self.aim - removed)
            before, best = self.state(), None
            for n in self.counts:
                more = {**done, n: done[n] + step * self.all / self.related(n, done)}
                if more[n] >= 1:
                    continue
                self.bound_model.load_state_dict(before)
                self.mask(more)
                self.tune()
                value = self.evaluate()
                if best is None or self.sign * value > self.sign * best[0]:
                    best = (value, more, self.state())
            if best is None:                             # no layer can lose that much
                self.bound_model.load_state_dict(before)
                part = step / 2
                if part < 1e-4:
                    raise Error("NetAdaptPruner cannot remove more than %.4f of the weights" % removed)
                continue
            value, done, state = best
            self.bound_model.load_state_dict(state)
            removed += step
            self.keep(done, value)
            self.best = self.history[-1]                 # the last iteration has the sparsity
        self.write(self.best)
        return self.bound_model


SEARCHES = (SimulatedAnnealingPruner, SensitivityPruner, NetAdaptPruner)
