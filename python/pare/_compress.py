"""Prune, speed up, quantize and compress a model in one call each."""
from __future__ import annotations

import math
from ctypes import POINTER, byref, c_void_p, sizeof
from typing import Any, Dict, List, Mapping, Optional

from . import _declarations as d
from ._data import DataLike, data_of, split_pair
from ._library import Arena, Error, call, lib, string, text
from ._model import Metrics, Model, load
from ._progress import Watch
from ._settings import ConfigList, config_json, words
from ._tensor import fill, as_array


class Report(Dict[str, Any]):
    """Numbers of an operation by name; also as attributes."""

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            raise AttributeError(name) from None

    def _repr_html_(self) -> str:
        from ._report import html_table
        return html_table(["", ""], [[k, str(v)] for k, v in self.items() if not isinstance(v, list)])


def _metrics(m: Any) -> Optional[Metrics]:
    return Metrics(m) if m.n > 0 else None


def _tuning(o: Any, data: Any, valid: Any, train: Optional[Mapping[str, Any]],
            teacher: Optional[Model]) -> Any:
    first, second = split_pair(data, valid)
    o.tuning.data = first.pointer if first else None
    o.tuning.valid = second.pointer if second else None
    o.tuning.settings = words(train) if train else None
    o.tuning.teacher = teacher.pointer if teacher else None
    return first, second


def _named(algorithm: Any, kind: str, registry: Any) -> Any:
    """Name and registry of an algorithm: a name, or a class or object of pare.Pruner / pare.Quantizer."""
    if algorithm is None or isinstance(algorithm, str):
        return algorithm, registry
    if registry is not None:
        raise Error("registry goes with a name; pass the name that registry.add() returns as %s" % kind)
    from ._algorithms import Registry
    registry = Registry()
    return registry.add(algorithm, kind), registry


def prune(model: Any, pruner: Any = None, sparsity: float = 0, *, config: Optional[ConfigList] = None,
          data: DataLike = None, valid: DataLike = None, train: Optional[Mapping[str, Any]] = None,
          epochs: Optional[int] = None, teacher: Optional[Model] = None, speedup: bool = False,
          repair: bool = False, progress: Any = None, registry: Any = None, **settings: Any) -> Model:
    """A pruned copy of a model, as `pare prune`.

    pruner: a name ("l1", see pare.pruners()), or a subclass of pare.Pruner.  speedup removes the
    masked channels.  train: options of `pare train` for fine-tuning; epochs is a shorthand.  Other
    options are the pruner's."""
    source = load(model).copy()
    name, registry = _named(pruner, "pruner", registry)
    o, out, r = d.pare_prune_opts(), c_void_p(), d.pare_prune_report()
    if epochs is not None:
        train = {**(train or {}), "epochs": epochs}
    o.size, o.pruner, o.sparsity = sizeof(o), text(name), sparsity
    o.config, o.settings = config_json(config), words(settings)
    o.registry = registry.pointer if registry else None
    o.speedup, o.repair = speedup, repair
    keep = _tuning(o, data, valid, train, teacher)
    with Watch(progress) as fn:
        o.progress = fn
        call("pare_prune", source.pointer, byref(o), byref(out), byref(r), made=out)
    del keep
    result = Model(out, source)
    result.module = source.module
    result.report = Report(before=_metrics(r.before), masked=_metrics(r.masked), after=_metrics(r.after),
                           weights=r.weights, zeros=r.zeros, params=r.params, params_left=r.params_left,
                           macs=r.macs, macs_left=r.macs_left)
    return result


def quantize(model: Any, preset: Any = None, *, quantizer: Any = None, config: Optional[ConfigList] = None,
             data: DataLike = None, valid: DataLike = None, train: Optional[Mapping[str, Any]] = None,
             epochs: Optional[int] = None, teacher: Optional[Model] = None, fold: bool = False,
             keep_zeros: bool = False, qoperator: bool = False, nbits: bool = False, dynamic: bool = False,
             max_drop: float = 0, compute: Optional[str] = None, progress: Any = None, registry: Any = None,
             **settings: Any) -> Model:
    """A quantized copy of a model, as `pare quantize`: quantize(m, "int8", data=x).

    preset: see pare.presets(); else quantizer (a name or a subclass of pare.Quantizer) and config."""
    source = load(model).copy()
    name, registry = _named(quantizer, "quantizer", registry)
    o, out, r = d.pare_quantize_opts(), c_void_p(), d.pare_quantize_report()
    if epochs is not None:
        train = {**(train or {}), "epochs": epochs}
    o.size, o.preset, o.quantizer = sizeof(o), text(preset), text(name)
    o.config, o.settings = config_json(config), words(settings)
    o.registry = registry.pointer if registry else None
    o.fold, o.keep_zeros, o.qoperator, o.nbits, o.dynamic = fold, keep_zeros, qoperator, nbits, dynamic
    o.max_drop, o.compute = max_drop, text(compute)
    keep = _tuning(o, data, valid, train, teacher)
    with Watch(progress) as fn:
        o.progress = fn
        call("pare_quantize", source.pointer, byref(o), byref(out), byref(r), made=out)
    del keep
    result = Model(out, source)
    result.report = Report(before=_metrics(r.before), after=_metrics(r.after), layers=r.layers,
                           tensors=r.tensors, left_float=r.left_float,
                           snr_db=None if math.isnan(r.snr_db) else r.snr_db,
                           cosine=None if math.isnan(r.cosine) else r.cosine,
                           worst=[(string(r.worst[i].value), r.worst_db[i]) for i in range(3)
                                  if r.worst[i].value])
    return result


def speedup(model: Any, *, inputs: Any = None, round_to: int = 0, verify: bool = True, tolerance: float = 0,
            threads: int = 0, seed: int = 0, progress: Any = None) -> Model:
    """A smaller copy of a model without the channels whose weights are 0; it computes the same, which
    is verified by running both.  inputs: arrays by name to verify with."""
    source = load(model)
    o, out, r = d.pare_speedup_opts(), c_void_p(), d.pare_speedup_report()
    o.size, o.round_to, o.unverified, o.tolerance = sizeof(o), round_to, not verify, tolerance
    o.threads, o.seed = threads, seed
    keep: List[Any] = []
    if inputs is not None:
        ports = source.inputs
        given = inputs if isinstance(inputs, Mapping) else {ports[0].name: inputs}
        tensors = (d.pare_tensor * len(ports))()
        for t, p in zip(tensors, ports):
            if p.name not in given:
                raise Error("input '%s' is missing" % p.name)
            keep.append(fill(t, as_array(given[p.name]), "input '%s'" % p.name))
        setattr(o, "in", tensors)
        o.n_in = len(ports)
    with Arena() as a, Watch(progress) as fn:
        o.progress = fn
        call("pare_speedup", source.pointer, byref(o), a.pointer, byref(out), byref(r), made=out)
        layers = [Report(name=string(l.name), type=string(l.type), inputs=l.__getattribute__("in"),
                         inputs_left=l.in_left, outputs=l.out, outputs_left=l.out_left, params=l.params,
                         params_left=l.params_left, why=string(l.why) or None, removed=bool(l.gone))
                  for l in r.layer[:r.n_layers]]
        report = Report(params=r.params, params_left=r.params_left, macs=r.macs, macs_left=r.macs_left,
                        verified=bool(r.verified), max_abs=r.max_abs, max_rel=r.max_rel, layers=layers)
    result = Model(out, source)
    result.report, result.module = report, source.module
    return result


def compress(model: Any, preset: Optional[str] = None, *, data: DataLike, valid: DataLike = None,
             budget: Any = None, max_drop: float = 0, train: Optional[Mapping[str, Any]] = None, threads: int = 0,
             seed: int = 0, progress: Any = None, **options: Any) -> Model:
    """A smaller and faster copy of a model, in one call.

    budget: "latency=0.5 size=400KB" or {"latency": 0.5, "macs": 0.6}, parts of the model's own or with a unit, as
    `pare compress --budget`; the most accurate model within it.  max_drop: percentage points of accuracy that may be
    lost; without a budget, the fastest model that keeps it.  finetune: epochs of distillation.  Other options are those of
    struct pare_compress_budget_opts: methods, class_drop, confidence, table, seconds, dry_run, say, ...  A budget that is
    missed is a warning, and report.met is False.

    preset: a recipe instead of a budget, "tiny", "balanced" or "int8": prune channels, shrink, fine-tune with
    distillation, quantize; with max_drop, an error if the accuracy drops by more."""
    if preset is None and (budget is not None or max_drop):
        from ._budget import compress_budget
        return compress_budget(model, data=data, valid=valid, budget=budget, max_drop=max_drop, train=train,
                               threads=threads, seed=seed, progress=progress, **options)
    if budget is not None:
        raise Error("compress got a preset and a budget; a preset is a recipe without a budget")
    if options:
        raise Error("compress got '%s', which goes with budget or max_drop" % next(iter(options)))
    source = load(model).copy()
    o, out, r = d.pare_compress_opts(), c_void_p(), d.pare_compress_report()
    first, second = split_pair(data, valid)
    if first is None:
        raise Error("compress needs data")
    o.size, o.preset, o.data = sizeof(o), text(preset), first.pointer
    o.valid = second.pointer if second else None
    o.train, o.threads, o.seed, o.max_drop = words(train) if train else None, threads, seed, max_drop
    with Watch(progress) as fn:
        o.progress = fn
        call("pare_compress", source.pointer, byref(o), byref(out), byref(r), made=out)
    result = Model(out, source)
    result.report = Report(before=_metrics(r.before), after=_metrics(r.after), params=r.params,
                           params_left=r.params_left, macs=r.macs, macs_left=r.macs_left)
    return result


def apply_masks(model: Model, path: Any) -> None:
    """Multiply the masks of a file into a model, in place."""
    import os
    call("pare_apply_masks", model.pointer, text(os.fspath(path)))
    model._changed()


def _algorithms(function: str, registry: Any) -> List[Report]:
    found, i = [], 0
    info = d.pare_algorithm_info()
    while getattr(lib, function)(registry.pointer if registry else None, i, byref(info)):
        found.append(Report(name=string(info.name), doc=string(info.doc),
                            types=string(info.types).split("|") if info.types else None,
                            keys=_options(info.keys) + _options(info.common_keys),
                            options=_options(info.opts) + _options(info.common_opts),
                            needs_data=bool(info.needs_data), needs_training=bool(info.needs_training)))
        i += 1
    return found


def _options(table: Any) -> List[Report]:
    kinds = ("bool", "int", "float", "str", "ints", "floats", "strs", "tensor", "graph")
    result, i = [], 0
    while table and table[i].name:
        o = table[i]
        default: Any = o.__getattribute__("def")
        if o.type == d.PARE_OPT_STR:
            default = string(o.str) if o.str else None
        elif o.type == d.PARE_OPT_BOOL:
            default = bool(default)
        elif o.type == d.PARE_OPT_INT:
            default = int(default)
        result.append(Report(name=string(o.name), help=string(o.help), type=kinds[o.type], default=default,
                             choices=string(o.choices).split("|") if o.choices else None))
        i += 1
    return result


def pruners(registry: Any = None) -> List[Report]:
    """All pruners: name, doc, layer types, keys of config_list entries and options, those of all pruners last."""
    return _algorithms("pare_list_pruner", registry)


def quantizers(registry: Any = None) -> List[Report]:
    """All quantizers, as pruners()."""
    return _algorithms("pare_list_quantizer", registry)


def presets() -> List[str]:
    """Presets of quantize()."""
    names: Any = lib.pare_quantize_presets()
    result: List[str] = []
    while names[len(result)]:
        result.append(string(names[len(result)]))
    return result
