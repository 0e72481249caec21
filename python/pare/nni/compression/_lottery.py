"""LotteryTicketPruner of a torch.nn.Module: more sparsity in each iteration, from the same initial weights."""
from __future__ import annotations

import copy
from typing import Any, Dict, List, Mapping, Optional, Sequence

from ... import _algorithms as algorithms
from ..._model import load
from . import _core as core
from ._layers import config_of_layers, layers_model


def iterations_of(config_list: Sequence[Mapping[str, Any]], option: Optional[int]) -> int:
    """prune_iterations of the entries (NNI 1.9), or the option total_iteration."""
    found = {e["prune_iterations"] for e in config_list if "prune_iterations" in e}
    if len(found) > 1:
        raise ValueError("all entries of config_list must have the same prune_iterations, not %s" % sorted(found))
    n = found.pop() if found else 10 if option is None else option
    if int(n) < 1:
        raise ValueError("prune_iterations is %s; expected at least 1" % n)
    return int(n)


class Lottery:
    """The iterations of a pruner whose layers are wrapped."""

    def __init__(self, pruner: Any, base: str, options: Mapping[str, Any], n: int, reset: bool, lr_scheduler: Any) -> None:
        self.pruner, self.base, self.options, self.n, self.reset = pruner, base, dict(options), n, reset
        self.iteration, self.lr_scheduler = 0, lr_scheduler
        parts = [pruner.bound_model] + [p for p in (pruner.optimizer, lr_scheduler) if p is not None]
        self.initial = [(p, copy.deepcopy(p.state_dict())) for p in parts]

    def entries(self, iteration: int) -> List[Dict[str, Any]]:
        """The config_list with the sparsities of an iteration: 1 - (1 - sparsity)^(iteration / n)."""
        result = [{k: v for k, v in e.items() if k != "prune_iterations"} for e in self.pruner.config_list]
        for e in result:
            for key in ("sparsity", "sparsity_per_layer", "total_sparsity"):
                if key in e:
                    e[key] = float(1 - (1 - e[key]) ** (iteration / self.n))
        return result

    def masks(self, iteration: int) -> Dict[str, Any]:
        """Of each layer, by its weights as they are; weights that were removed have the lowest scores."""
        for w in self.pruner.modules_wrapper:
            w.apply_masks()
        self.pruner._unwrap_model()
        leaves = self.pruner._leaves()
        self.pruner._wrap_model()
        config = config_of_layers(core.by_full_names(self.entries(iteration), [n for n, _ in leaves]), leaves)
        c = algorithms.Compression(load(layers_model(leaves)), pruner=self.base, config=config, **self.options)
        c.compress(progress=False)
        return {layer.name: core.torch.from_numpy(layer.mask.copy()) for layer in c.layers if layer.mask is not None}

    def start(self) -> None:
        """The next iteration: masks, and then the initial weights and states again."""
        if self.iteration > self.n:
            raise ValueError("Exceed the configured prune_iterations")
        if self.iteration > 0:
            masks = self.masks(self.iteration)
            if self.reset:
                for part, state in self.initial:
                    part.load_state_dict(copy.deepcopy(state))
            for w in self.pruner.modules_wrapper:
                w.weight_mask.copy_(masks[w.name])
                w.apply_masks()
        self.iteration += 1

    def compress(self) -> None:
        """All iterations, as NNI 2.x; with prune_iterations in the config_list the caller makes them, as NNI 1.9."""
        if any("prune_iterations" in e for e in self.pruner.config_list):
            return
        for _ in range(self.n + 1):
            if self.iteration > 0 and self.pruner.trainer is not None:
                self.pruner.trainer.epoch(self.pruner.bound_model, self.iteration - 1)
            self.start()


def make(pruner: Any, options: Mapping[str, Any]) -> Lottery:
    """The iterations by NNI's options, of a pruner whose layers are wrapped."""
    rest, trainer = dict(options), pruner.trainer
    n, base, reset = rest.pop("prune_iterations", None), rest.pop("base", "level"), rest.pop("reset_weights", True)
    return Lottery(pruner, base, rest, iterations_of(pruner.config_list, n), bool(reset),
                   trainer.lr_scheduler if trainer else None)
