"""NNI's pruners and quantizers: the library's algorithms on a torch.nn.Module that PyTorch trains, or on a pare.Model."""
from __future__ import annotations

import warnings
from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple

import numpy as np

from ... import _algorithms as algorithms
from ..._library import Error
from ..._model import load
from ..._train import Training
from . import _core as core
from ._engine import PareEngine
from . import _learned, _lottery
from ._layers import config_of_layers, layers_model
from ._names import (ABSENT, BASES, EVALUATOR_POSITIONS, GRADUAL, LOTTERY_OPTIONS, NEED_TRAINING, NO_EFFECT, OBSERVED,
                     OPTIONS, POSITIONS, PRUNERS, QUANTIZERS, RETURN_MASKS, TEXT_POSITIONS, THIRD_POSITIONS,
                     TRAINER_POSITIONS, TRAINERS)
from ._search import SEARCHES
from ._training import Trainer, train_gradual, train_observed, train_slim

torch = core.torch
GRADUAL_KEYS = {"initial_sparsity", "final_sparsity", "start_epoch", "end_epoch", "frequency"}
LEARNED = ("lsq", "lsq_plus", "pact")                    # optimizer steps change their scales
TRAINED = OBSERVED + GRADUAL + ("slim",)                 # their compress() trains a torch.nn.Module


def positions(c: Any, third: Any, more: Sequence[Any]) -> Tuple[bool, Sequence[str]]:
    """Whether the third argument of a constructor is an option, not the optimizer, and the names of what follows."""
    name, algorithm = type(c).__name__, c.algorithm
    if isinstance(third, str):
        return True, TEXT_POSITIONS.get(name, ())
    if isinstance(third, bool) and POSITIONS.get(name, ())[:1] == ("dependency_aware",):     # NNI 2.3
        return True, POSITIONS[name]
    if hasattr(third, "training_func"):
        return True, ("evaluator",) + tuple(EVALUATOR_POSITIONS.get(algorithm, THIRD_POSITIONS.get(algorithm, ())[3:]))
    if callable(third) and not hasattr(third, "param_groups") and algorithm in THIRD_POSITIONS:
        return True, THIRD_POSITIONS[algorithm]
    if more and callable(more[0]) and algorithm in TRAINER_POSITIONS:
        return False, TRAINER_POSITIONS[algorithm]
    return False, POSITIONS.get(name, ())


def by_name(c: Any, third: Any, more: Sequence[Any], options: Dict[str, Any]) -> Any:
    """Arguments by position under their names, in options; returns the optimizer."""
    name = type(c).__name__
    option, names = positions(c, third, more)
    values = [third, *more] if option else list(more)
    if len(values) > len(names):
        raise Error("%s does not take '%s' by position; pass it with its name" % (name, values[len(names)]))
    for key, value in zip(names, values):
        if key in options:
            raise Error("%s got '%s' twice" % (name, key))
        options[key] = value
    if option or third is None or isinstance(third, Training) or hasattr(third, "param_groups"):
        return None if option else third
    raise Error("the optimizer of %s is a %s; expected a torch optimizer, a pare.Training or None"
                % (name, type(third).__name__))


def check_trainers(c: Any, model: Any, optimizer: Any, options: Dict[str, Any]) -> None:
    """c.trainer from the options; an error where masks depend on it and nothing would call it."""
    found = {key: options.pop(key, None) for key in TRAINERS}
    c.trainer = None
    if core.is_torch(model) and c.algorithm in TRAINED:
        c.trainer = Trainer(type(c).__name__, found, optimizer)
        return
    for key, value in found.items():
        if value is not None and c.algorithm in NEED_TRAINING:
            raise Error("'%s' of %s is not used: compress() does not train a %s; leave it out and train the model after "
                        "compress(), with a pare.Training" % (key, type(c).__name__, type(model).__name__), "UNSUPPORTED")


def check_module(c: Any, options: Mapping[str, Any]) -> None:
    """Of a torch.nn.Module the library knows the layers; their connections need an example of its inputs."""
    instead = "pass a pare.Model instead, pare.load(model, dummy_input), and get the weights back with to_torch()"
    if str(options.get("mode")).endswith("_aware") and options.get("dummy_input") is None:
        raise Error("%s of a torch.nn.Module needs dummy_input, an example of its inputs, to find coupled channels"
                    % type(c).__name__)
    base = BASES.get(options.get("base", ""), options.get("base"))
    if c.algorithm in GRADUAL and base in OBSERVED:
        raise Error("%s of a torch.nn.Module cannot rank by '%s' in each iteration; %s" % (type(c).__name__, base, instead),
                    "UNSUPPORTED")
    for key in ("equalize", "fold_bn"):
        if options.get(key):
            raise Error("%s of a torch.nn.Module has no '%s'; %s" % (type(c).__name__, key, instead), "UNSUPPORTED")
    if c.algorithm == "slim" and not c.trainer.trains():
        for key in ("training_epochs", "scale"):
            if options.get(key):
                raise Error("%s of a torch.nn.Module has '%s', but nothing to train with; pass trainer, or train the module "
                            "with the penalty before" % (type(c).__name__, key))


def library_options(c: Any, model: Any, optimizer: Any, options: Dict[str, Any]) -> Dict[str, Any]:
    """NNI's options under the library's names, which refuses unknown ones; an error for what would not be computed as
    asked."""
    name = type(c).__name__
    options.update(dict(options.pop("pruning_params", None) or {}))
    check_trainers(c, model, optimizer, options)
    for key in ("speedup", "keep_intermediate_result"):
        if options.pop(key, False):
            raise Error("%s has no '%s'; call ModelSpeedup, export_model() after compress()" % (name, key), "UNSUPPORTED")
    if options.pop("dependency_aware", False):
        aware = {"global": "global_aware"}.get(options.get("mode") or "normal", "dependency_aware")
        options["mode"] = aware
    if core.is_torch(model):
        check_module(c, {OPTIONS.get(k, k): v for k, v in options.items()})
        if str(options.get("mode")).endswith("_aware"):
            c.example = options["dummy_input"]
    names = {**OPTIONS, **(LOTTERY_OPTIONS if c.algorithm == "lottery_ticket" else {})}
    result = {}
    for key, value in options.items():
        to = names.get(key, key)
        if key in NO_EFFECT or value is None:
            continue
        if to in result:
            raise Error("%s got '%s' under two names" % (name, to))
        result[to] = BASES.get(value, value) if to == "base" else value
    return result


def numbers(t: Any) -> np.ndarray:
    return np.ascontiguousarray(t.detach().cpu().numpy(), dtype=np.float32)


def layer_compression(c: Any, kind: str, algorithm: Any, options: Mapping[str, Any], follow: bool) -> Any:
    """A compression of the layers of c.bound_model, and the training whose hooks it follows."""
    leaves, example = c._leaves(), c.example
    config = core.by_full_names(c.config_list, [n for n, _ in leaves])
    if example is None:
        model, config = load(layers_model(leaves)), config_of_layers(config, leaves)
    else:                                                # connected, to find coupled channels
        model = load(c.bound_model, *(example if isinstance(example, tuple) else (example,)))
    compression = algorithms.Compression(model, config=config, **{kind: algorithm}, **options)
    training = None
    if follow:
        lr = c.optimizer.param_groups[0]["lr"] if c.optimizer is not None else 0.01
        training = Training(model, optimizer="sgd", lr=max(float(lr), 1e-12), progress=False)
        compression.follow(training)
    modules, known = dict(leaves), {l.name for l in compression.layers}
    unknown = sorted(known - set(modules))
    if unknown:
        raise Error("layer '%s' of the exported model is not a module; choose modules by op_names" % unknown[0])
    chosen = core.select(c.config_list, [(n, type(m).__name__, n in known) for n, m in leaves])
    c._wrap([(l.name, modules[l.name], chosen.get(l.name, {})) for l in compression.layers])
    for w, l in zip(c.modules_wrapper, compression.layers):
        w.__dict__["layer"] = l
    return compression, training


class _Statistic(algorithms.Pruner):
    """A ranking by what PyTorch computed: activations or gradients."""

    name, granularity, types = "statistic", "out_channel", None

    def __init__(self, owner: Any) -> None:
        self.owner = owner

    def score(self, layer: Any) -> Any:                  # type: ignore[override]
        return self.owner._statistic(layer.name)


class BuiltinPruner(core.Pruner):
    """A pruner of the library."""

    algorithm = "level"
    returns_masks = False
    trainer: Optional[Trainer] = None                    # of a module that compress() may train
    lottery: Any = None                                  # iterations of a LotteryTicketPruner of a module
    learned: Any = None                                  # training of an ADMMPruner or MovementPruner of a module
    example: Any = None                                  # inputs of a module, to find coupled channels

    def __init__(self, model: Any, config_list: Sequence[Mapping[str, Any]], optimizer: Any = None, *more: Any,
                 **options: Any) -> None:
        optimizer = by_name(self, optimizer, more, options)
        if self.algorithm in _learned.NAMES:
            config_list = _learned.config_of(self, config_list, options)
        self._options = library_options(self, model, optimizer, options)
        self._rounds: List[int] = []                     # iterations of compress()
        if self.algorithm in OBSERVED:
            self._options.setdefault("training_steps", 1)    # NNI's default
        if self.trainer is not None:
            optimizer = self.trainer.optimizer
            self._plan_training(config_list)
        elif self.algorithm == "slim" and not isinstance(optimizer, Training):
            self._options.setdefault("training_epochs", 0)   # by the scales as they are, as NNI 1.x
        self._sums: Dict[str, Any] = {}
        self._seen: Dict[str, int] = {}
        super().__init__(model, config_list, optimizer)

    def _plan_training(self, config_list: Sequence[Mapping[str, Any]]) -> None:
        """What compress() trains of a module: epochs, and for AGP and Linear the iterations, as NNI 2.x; with the keys of
        NNI 1.x the masks follow update_epoch()."""
        o, trains = self._options, self.trainer is not None and self.trainer.trains()
        if self.algorithm == "slim":
            epochs = o.pop("training_epochs", 10 if trains else 0)
            self._epochs, self._scale = (int(epochs) if trains else 0), float(o.pop("scale", 1e-4))
            o["training_epochs"] = 0                     # the library removes by the scales as they are then
        elif self.algorithm in GRADUAL[:2] and not any(set(e) & GRADUAL_KEYS for e in config_list):
            n = o.pop("iterations", None)                # of NNI 2.0: the last of n has the sparsity
            last = int(o.get("total_iteration", 10)) if n is None else max(1, int(n) - 1)
            o["total_iteration"], self._epochs = last, int(o.pop("epochs_per_iteration", 1))
            self._rounds = [1] if n is not None and int(n) == 1 else list(range(last + 1))

    def _prepare(self) -> None:
        self.compression = self.training = self.engine = None
        if not core.is_torch(self.bound_model):
            self.engine = PareEngine(self, self.algorithm, self._options)
            return
        name: Any = self.algorithm
        options = dict(self._options)
        if name in _learned.NAMES:
            self.learned = _learned.make(self, options, layer_compression)
            return
        if name == "lottery_ticket":
            layer_compression(self, "pruner", name, {}, False)       # chooses the layers
            self.lottery = _lottery.make(self, options)
            return
        if name in OBSERVED:
            self._batches, self._activation = int(options.pop("training_steps")), "relu"
            if name != "taylor":                         # it has no such option
                self._activation = options.pop("activation", "relu")
            if self._activation not in ("relu", "relu6"):
                raise Error("%s of a torch.nn.Module has no activation '%s', only relu and relu6; pass a pare.Model for "
                            "others" % (type(self).__name__, self._activation), "UNSUPPORTED")
            name = _Statistic(self)
        self.compression, self.training = layer_compression(self, "pruner", name, options, name in GRADUAL)
        if self.algorithm in ("apoz", "mean_rank"):
            self._collector = self.add_activation_collector(self._collect)

    # ---- statistics ----
    def _collect(self, wrapper: Any, inputs: Any, output: Any) -> None:
        x = torch.relu(output.detach())
        x = x.clamp(max=6) if self._activation == "relu6" else x
        axes = [i for i in range(x.dim()) if i != 1]
        value = (x > 0).float().mean(axes) if self.algorithm == "apoz" else x.mean(axes)
        self._add(wrapper.name, value)

    def _add(self, name: str, value: Any) -> None:
        if self._seen.get(name, 0) < self._batches:
            self._sums[name] = self._sums.get(name, 0) + value
            self._seen[name] = self._seen.get(name, 0) + 1

    def _statistic(self, name: str) -> Any:
        if self._seen.get(name, 0) < self._batches:
            return None
        return numbers(self._sums[name])

    # ---- masks ----
    def _push_weights(self) -> None:
        for w in self.modules_wrapper:
            if getattr(w.module, "weight", None) is not None:
                w.layer.set_weight(numbers(w.module.weight))

    def _pull_masks(self) -> None:
        for w in self.modules_wrapper:
            for key, mask in (("weight_mask", w.layer.mask), ("bias_mask", w.layer.bias_mask)):
                if mask is not None and getattr(w, key) is not None:
                    getattr(w, key).copy_(torch.from_numpy(mask))

    def compress(self) -> Any:
        if self.engine is not None:
            super().compress()
            return self._result()
        if self.lottery is not None:
            self.lottery.compress()
            return self._result()
        if self.learned is not None:
            self.learned.compress()
            return self._result()
        trains = self.trainer is not None and self.trainer.trains()
        if trains and self.algorithm == "slim":
            train_slim(self, self._epochs, self._scale)
        self._push_weights()
        self.compression.compress()
        self._finish()
        if trains and self.algorithm in OBSERVED:
            train_observed(self, self._batches)
        elif self._rounds:
            train_gradual(self, self._rounds, self._epochs)
        return self._result()

    def _result(self) -> Any:
        """NNI 1.x and 2.0 return the model, 2.x the model and the masks."""
        return (self.bound_model, self.compressed_masks()) if self.returns_masks else self.bound_model

    def export_model(self, *arguments: Any, **options: Any) -> None:
        if self.engine is None and self.algorithm in OBSERVED:
            waiting = [w.name for w in self.modules_wrapper if self._seen.get(w.name, 0) < self._batches]
            if waiting:
                warnings.warn("layer '%s' has no mask yet: %s has seen %d of %d batches; train the model with the optimizer "
                              "first" % (waiting[0], type(self).__name__, self._seen.get(waiting[0], 0), self._batches),
                              stacklevel=2)
        super().export_model(*arguments, **options)

    def get_best_result(self) -> Any:
        """Iteration, model, masks, metric and config_list of the last iteration, which has the sparsity asked for."""
        metric = self.trainer.metric if self.trainer is not None else None
        rounds = list(self.get_prune_iterations()) if self.lottery is not None else self._rounds
        return (rounds[-1] if rounds else 0, self.bound_model, self.compressed_masks(),
                None if metric is None else metric(self.bound_model), list(self.config_list))

    def _finish(self) -> None:
        self._pull_masks()
        for w in self.modules_wrapper:
            w.apply_masks()

    def calc_mask(self, wrapper: Any, wrapper_idx: Optional[int] = None, **kwargs: Any) -> Any:
        return {"weight_mask": wrapper.weight_mask}

    def update_mask(self) -> None:
        if self.algorithm in OBSERVED:
            if self.algorithm == "taylor":
                for w in self.modules_wrapper:
                    g = w.module.weight.grad
                    if g is not None:
                        self._add(w.name, (w.module.weight.detach() * g).pow(2).flatten(1).sum(1))
            self.compression.update_masks()
            self._finish()

    def update_epoch(self, epoch: int) -> None:
        if self.engine is not None:
            if self.compression_training is not None:
                self.compression_training.update_epoch(epoch)
        elif self.training is not None and not self._rounds:
            self.set_iteration(epoch)                    # else compress() was all of it

    def get_prune_iterations(self) -> range:
        """Of LotteryTicketPruner, as NNI 1.9: train after prune_iteration_start() in each."""
        return range(self._rounds_of_lottery().n + 1)

    def prune_iteration_start(self) -> None:
        self._rounds_of_lottery().start()

    def _rounds_of_lottery(self) -> Any:
        if self.lottery is None:
            raise Error("%s of a %s has no iterations of its own" % (type(self).__name__, type(self.bound_model).__name__))
        return self.lottery

    def set_iteration(self, iteration: int) -> None:
        """The masks of an epoch, or of an iteration."""
        self._push_weights()
        self.training.update_epoch(iteration)
        self.training.finish_step()
        self._finish()

    @property
    def compression_training(self) -> Any:
        return self.optimizer if isinstance(self.optimizer, Training) else None


QAT_DEFAULTS: Dict[str, Dict[str, str]] = {}             # {"quant_scheme": {"weight": ...}}, see quantization/settings.py


def with_defaults(config_list: Any) -> Any:
    """The config_list with what set_quant_scheme_dtype() set for types that an entry quantizes and has no value for."""
    if not QAT_DEFAULTS or not isinstance(config_list, (list, tuple)):
        return config_list
    result = [dict(e) for e in config_list]
    for e in result:
        for key, values in QAT_DEFAULTS.items():
            chosen = {t: values[t] for t in e.get("quant_types", []) if t in values}
            if chosen and key not in e:
                e[key] = chosen
    return result


class BuiltinQuantizer(core.Quantizer):
    """A quantizer of the library."""

    algorithm = "naive"
    trainer = example = None

    def __init__(self, model: Any, config_list: Sequence[Mapping[str, Any]], optimizer: Any = None, *more: Any,
                 **options: Any) -> None:
        optimizer = by_name(self, optimizer, more, options)
        self._options = library_options(self, model, optimizer, options)
        super().__init__(model, with_defaults(config_list) if self.algorithm == "qat" else config_list, optimizer)

    def _prepare(self) -> None:
        self.compression = self.training = self.engine = None
        if not core.is_torch(self.bound_model):
            self.engine = PareEngine(self, self.algorithm, self._options)
            return
        if self.algorithm == "ptq":
            raise Error("%s of a torch.nn.Module has no data to calibrate with; use pare.quantize(pare.load(model, x), "
                        "quantizer='ptq', config=config_list, data=x)" % type(self).__name__, "UNSUPPORTED")
        self.compression, self.training = layer_compression(self, "quantizer", self.algorithm, self._options, True)

    def compress(self) -> Any:
        if self.engine is not None:
            return super().compress()
        self._push_weights()
        self.compression.compress()
        for w in self.modules_wrapper:
            if "weight" in w.sites and "old_weight" in w.module._parameters:
                with torch.no_grad():
                    w.module.weight = w.quantized_weight().detach()
        return self.bound_model

    def _push_weights(self) -> None:
        for w in self.modules_wrapper:
            old = w.module._parameters.get("old_weight", w.module._parameters.get("weight"))
            if old is not None:
                w.layer.set_weight(numbers(old))

    def _count(self, w: Any, site: str) -> int:
        q = w.layer.quant(site)
        return w.layer.weight.shape[q.axis] if q.axis >= 0 and site == "weight" else 1

    def _push_scales(self, w: Any) -> None:
        """After load_state_dict(): the scales of the file."""
        w.__dict__["loaded"] = False
        for site in w.sites:
            n = self._count(w, site)
            scale, zero = getattr(w.module, site + "_scale"), getattr(w.module, site + "_zero_point")
            if scale.numel() == n and bool((scale > 0).all()):
                q = w.layer.quant(site)
                if site != "weight" and q.axis < 0:      # the first batch of a range that is tracked
                    ends = (np.array([q.qmin, q.qmax]) - float(zero)) * float(scale)
                    w.layer.quantize(site, ends.astype(np.float32), True)
                w.layer.scale(site, n)[...] = numbers(scale)
                w.layer.zero_point(site, n)[...] = numbers(zero)

    def _pull_scales(self, w: Any, site: str) -> None:
        n = self._count(w, site)
        for key, array in (("scale", w.layer.scale(site, n)), ("zero_point", w.layer.zero_point(site, n))):
            value = torch.from_numpy(array.copy())
            w.module._buffers["%s_%s" % (site, key)] = value
            if site == next(s for s in ("weight", "output", "input") if s in w.sites):
                w.module._buffers[key] = value.clone()

    def _quantize(self, x: Any, wrapper: Any, kind: core.QuantType) -> Any:
        if self.engine is not None:
            return super()._quantize(x, wrapper, kind)
        if wrapper.loaded:
            self._push_scales(wrapper)
        site = core.SITE[kind]
        y = torch.from_numpy(wrapper.layer.quantize(site, numbers(x), wrapper.training))
        if self.algorithm not in ("dorefa", "bnn"):      # they have no scales
            self._pull_scales(wrapper, site)
        return y.to(x.dtype)

    def _backward(self, x: Any, gy: Any, wrapper: Any, kind: core.QuantType) -> Any:
        if self.quant_grad is not core.QuantGrad:
            return super()._backward(x, gy, wrapper, kind)
        return torch.from_numpy(wrapper.layer.quantize_back(core.SITE[kind], numbers(x), numbers(gy))).to(x.dtype)

    def _after_step(self) -> None:
        if self.engine is None:
            self.training.optimize()
            self._push_weights()
            self.training.finish_step()
            if self.algorithm in LEARNED:                # else a saved state has those of the step before
                for w in self.modules_wrapper:
                    for site in w.sites:
                        if bool((getattr(w.module, site + "_scale") > 0).all()):
                            self._pull_scales(w, site)

    def update_epoch(self, epoch: int) -> None:
        if self.training is not None:
            self.training.update_epoch(epoch)
        elif isinstance(self.optimizer, Training):
            self.optimizer.update_epoch(epoch)


def absent(name: str, instead: str, base: Any = core.Pruner) -> Any:
    def __init__(self: Any, *unused: Any, **more: Any) -> None:
        raise Error("%s is not available; use %s" % (name, instead), "UNSUPPORTED")
    return type(name, (base,), {"__init__": __init__, "__doc__": "Not available: use %s." % instead})


def classes() -> Dict[str, Any]:
    """Every name of the tables as a class."""
    made: Dict[str, Any] = {}
    for name, algorithm in PRUNERS.items():
        made[name] = type(name, (BuiltinPruner,), {"algorithm": algorithm, "returns_masks": name in RETURN_MASKS,
                                                   "__doc__": "NNI's %s: the pruner '%s'." % (name, algorithm)})
    for name, algorithm in QUANTIZERS.items():
        made[name] = type(name, (BuiltinQuantizer,), {"algorithm": algorithm,
                                                      "__doc__": "NNI's %s: the quantizer '%s'." % (name, algorithm)})
    made.update({search.__name__: search for search in SEARCHES})
    for name, instead in ABSENT.items():
        made[name] = absent(name, instead)
    return made


class OneshotPruner(core.Pruner):
    """A pruner that makes each mask once, by the class attribute or argument `masker`."""

    masker: Any = None

    def __init__(self, model: Any, config_list: Sequence[Mapping[str, Any]], masker: Any = None, optimizer: Any = None,
                 **kwargs: Any) -> None:
        made = masker if masker is not None else type(self).masker
        super().__init__(model, config_list, optimizer)
        self.set_wrappers_attribute("if_calculated", False)
        if kwargs and not isinstance(made, type):
            raise Error("'%s' is an option of the masker, which was already made" % next(iter(kwargs)))
        self.masker = made(model, self, **kwargs) if isinstance(made, type) else made

    def calc_mask(self, wrapper: Any, wrapper_idx: Optional[int] = None) -> Any:  # type: ignore[override]
        if wrapper.if_calculated:
            return None
        masks = self.masker.calc_mask(sparsity=wrapper.config["sparsity"], wrapper=wrapper, wrapper_idx=wrapper_idx)
        wrapper.if_calculated = masks is not None
        return masks




def newer(made: Mapping[str, Any]) -> Dict[str, Any]:
    """The classes whose compress() returns the model and the masks, for the packages of NNI 2.x."""
    return {name: type(name, (cls,), {"returns_masks": True, "__doc__": cls.__doc__}) if isinstance(cls, type)
            and issubclass(cls, BuiltinPruner) and not cls.returns_masks else cls for name, cls in made.items()}
