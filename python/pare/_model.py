"""Models: load, inspect, run, save, evaluate, train, prune, quantize."""
from __future__ import annotations

import os
import sys
from ctypes import POINTER, byref, c_char_p, c_int, c_size_t, c_void_p, sizeof, string_at
from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple, Union

import numpy as np

from . import _declarations as d
from ._data import DataLike, data_of
from ._library import Arena, Error, Handle, call, lib, string, text
from ._progress import Watch
from ._settings import given
from ._tensor import as_array, dtype_name, fill, numpy_type, tensor, view


class Layer(NamedTuple):
    """A node with constant weights: name as its author gave it, PyTorch's type, ONNX's operator."""

    name: str
    type: str
    op: str
    weight: Optional[str]
    bias: Optional[str]
    params: int
    macs: float                 #: multiply-accumulates of one item; -1: not known


class Port(NamedTuple):
    """An input or output as the file declares it; -1 is a free dimension, shape None: not declared."""

    name: str
    dtype: str
    shape: Optional[Tuple[int, ...]]


class Metrics(Dict[str, float]):
    """Results of an evaluation by name; `n` items, `loss`, and the task's metrics such as "top-1"."""

    def __init__(self, m: Any) -> None:
        super().__init__()
        self.n, self.loss, self.seconds = int(m.n), float(m.loss), float(m.seconds)
        self.task = string(m.task)
        for v in m.value[:m.n_values]:
            self[string(v.name)] = float(v.value)
        self.accuracy: Optional[float] = float(m.top1) if m.top1 >= 0 else None

    def __repr__(self) -> str:
        return "Metrics(n=%d, loss=%.4f, %s)" % (self.n, self.loss,
                                                 ", ".join("%s=%.4f" % p for p in self.items()))


class Inspection:
    """Layers of a model with parameters and multiply-accumulates; prints as a table."""

    def __init__(self, model: Model) -> None:
        self.inputs, self.outputs, self.layers = model.inputs, model.outputs, model.layers
        self.params = model.params
        self.macs = sum(l.macs for l in self.layers if l.macs > 0)

    def __repr__(self) -> str:
        wide = max([5] + [len(l.name) for l in self.layers])
        rows = ["%-*s  %-12s %12s %14s" % (wide, "layer", "type", "parameters", "MACs")]
        rows += ["%-*s  %-12s %12d %14s" % (wide, l.name, l.type, l.params,
                                            "%.0f" % l.macs if l.macs >= 0 else "?") for l in self.layers]
        rows.append("%-*s  %-12s %12d %14.0f" % (wide, "all", "", self.params, self.macs))
        return "\n".join(rows)

    def _repr_html_(self) -> str:
        from ._report import html_table
        return html_table(["layer", "type", "parameters", "MACs"],
                          [[l.name, l.type, "{:,}".format(l.params), "{:,.0f}".format(l.macs)]
                           for l in self.layers] +
                          [["all", "", "{:,}".format(self.params), "{:,.0f}".format(self.macs)]])


class Model(Handle):
    """An ONNX model.  `report` has the numbers of the operation that made it, if there was one."""

    _free = "pare_model_free"

    def __init__(self, pointer: c_void_p, keep: Any = None) -> None:
        super().__init__(pointer)
        self._keep = keep                        # the bytes that the model was read from
        self._plans: Dict[Any, _Plan] = {}
        self.report: Any = None
        self.module: Any = None                  # the torch.nn.Module that it was exported from

    # ---- what it consists of ----
    def _ports(self, name: str) -> List[Port]:
        io = POINTER(d.pare_io)()
        n = getattr(lib, name)(self.pointer, byref(io))
        return [Port(string(io[i].name), dtype_name(io[i].dtype),
                     tuple(io[i].dim[:io[i].rank]) if io[i].rank >= 0 else None) for i in range(n)]

    @property
    def inputs(self) -> List[Port]:
        return self._ports("pare_model_inputs")

    @property
    def outputs(self) -> List[Port]:
        return self._ports("pare_model_outputs")

    @property
    def layers(self) -> List[Layer]:
        with Arena() as a:
            list_, n = POINTER(d.pare_model_layer)(), c_int()
            call("pare_model_list_layers", self.pointer, a.pointer, byref(list_), byref(n))
            return [Layer(string(l.name), string(l.type), string(l.op),
                          string(l.weight) if l.weight else None, string(l.bias) if l.bias else None,
                          l.params, l.macs) for l in list_[:n.value]]

    @property
    def params(self) -> int:
        return sum(l.params for l in self.layers)

    def inspect(self) -> Inspection:
        return Inspection(self)

    def tensors(self) -> List[str]:
        """Names of all initializers."""
        with Arena() as a:
            names, n = POINTER(c_char_p)(), c_int()
            call("pare_model_list_tensors", self.pointer, a.pointer, byref(names), byref(n))
            return [string(names[i]) for i in range(n.value)]

    def __getitem__(self, name: str) -> np.ndarray:
        """The value of an initializer: a read-only view, not a copy."""
        t = d.pare_tensor()
        call("pare_model_tensor", self.pointer, text(name), byref(t))
        return view(t, self, name="'%s'" % name)

    def __setitem__(self, name: str, value: Any) -> None:
        old = self[name]
        t = tensor(np.ascontiguousarray(as_array(value), dtype=old.dtype).reshape(np.shape(value)), name)
        call("pare_model_set_tensor", self.pointer, text(name), byref(t))
        self._plans.clear()

    def state_dict(self) -> Dict[str, np.ndarray]:
        """Copies of all initializers by name."""
        return {n: self[n].copy() for n in self.tensors()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        names = set(self.tensors())
        missing = [n for n in state if n not in names]
        if missing:
            raise Error("the model has no initializer '%s'" % missing[0])
        for name, value in state.items():
            self[name] = value

    # ---- files ----
    def to_bytes(self) -> bytes:
        with Arena() as a:
            p, n = c_void_p(), c_size_t()
            call("pare_model_pack", self.pointer, a.pointer, byref(p), byref(n))
            return string_at(p, n.value)

    def save(self, path: Union[str, "os.PathLike[str]"], external: bool = False) -> None:
        o = d.pare_save_opts(size=sizeof(d.pare_save_opts), external=external)
        call("pare_model_save", self.pointer, text(os.fspath(path)), byref(o))

    def copy(self) -> Model:
        """Another model with the same contents."""
        other = load(self.to_bytes())
        other.module = self.module
        return other

    def to_onnx(self) -> Any:
        """An onnx.ModelProto; needs the package onnx."""
        import onnx                              # type: ignore[import]
        return onnx.load_from_string(self.to_bytes())

    def to_torch(self, module: Any = None) -> Any:
        """The weights in a torch.nn.Module, see pare.torch.update_module()."""
        from .torch import update_module
        return update_module(self, module if module is not None else self.module)

    # ---- running ----
    def run(self, inputs: Any, threads: int = 0) -> Dict[str, np.ndarray]:
        """Outputs by name for inputs by name, or for one array if the model has one input.  Outputs are
        copies."""
        ports = self.inputs
        if not isinstance(inputs, Mapping):
            if len(ports) != 1:
                raise Error("the model has %d inputs; pass a dictionary" % len(ports))
            inputs = {ports[0].name: inputs}
        unknown = set(inputs) - {p.name for p in ports}
        if unknown:
            raise Error("the model has no input '%s'; its inputs are %s"
                        % (sorted(unknown)[0], ", ".join("'%s'" % p.name for p in ports)))
        arrays = []
        for p in ports:
            if p.name not in inputs:
                raise Error("input '%s' is missing" % p.name)
            a = as_array(inputs[p.name])
            if p.dtype == "float32" and a.dtype == np.float64:
                a = a.astype(np.float32)
            arrays.append(a)
        key = (threads,) + tuple((a.shape, a.dtype.str) for a in arrays)
        if key not in self._plans:
            if len(self._plans) >= 4:
                self._plans.pop(next(iter(self._plans)))
            self._plans[key] = _Plan(self, arrays, threads)
        return self._plans[key].run(arrays)

    def _changed(self) -> None:
        self._plans.clear()

    def evaluate(self, data: DataLike, split: str = "test", progress: Any = None, threads: int = 0,
                 batch: int = 0, **options: Any) -> Metrics:
        """Loss and metrics on data with labels, as `pare eval`."""
        set_ = data_of(data, split)
        if set_ is None:
            raise Error("evaluation needs data")
        o, m = d.pare_evaluate_opts(), d.pare_metrics()
        o.size, o.threads, o.batch = sizeof(o), threads, batch
        o.loss, o.task, o.metric = (text(options.pop(k, None)) for k in ("loss", "task", "metric"))
        o.given, o.n_given = given(options)
        with Watch(progress) as fn:
            o.progress = fn
            call("pare_evaluate", self.pointer, set_.pointer, byref(o), byref(m))
        return Metrics(m)

    # ---- compression and training; see the functions of the same names ----
    def train(self, data: DataLike, valid: DataLike = None, **options: Any) -> Any:
        from ._train import train
        return train(self, data, valid, **options)

    def prune(self, pruner: Any = None, **options: Any) -> Model:
        from ._compress import prune
        return prune(self, pruner, **options)

    def speedup(self, **options: Any) -> Model:
        from ._compress import speedup
        return speedup(self, **options)

    def quantize(self, preset: Any = None, **options: Any) -> Model:
        from ._compress import quantize
        return quantize(self, preset, **options)

    def compress(self, preset: Optional[str] = None, **options: Any) -> Model:
        from ._compress import compress
        return compress(self, preset, **options)

    def fold(self) -> Model:
        """Fold batch normalizations into the convolutions before them."""
        out = c_void_p()
        call("pare_model_fold", self.pointer, byref(out))
        return Model(out, self)

    def __repr__(self) -> str:
        if not self._pointer:
            return "Model(closed)"
        return "Model(%s -> %s, %d layers, %d parameters)" % (
            ", ".join("%s%s" % (p.name, _shape(p)) for p in self.inputs),
            ", ".join("%s%s" % (p.name, _shape(p)) for p in self.outputs), len(self.layers), self.params)

    def _repr_html_(self) -> str:
        return self.inspect()._repr_html_()


def _shape(p: Port) -> str:
    return "" if p.shape is None else "(%s)" % ", ".join("N" if n < 0 else str(n) for n in p.shape)


class _Plan(Handle):
    """A model compiled for the shapes of some inputs."""

    _free = "pare_plan_free"

    def __init__(self, model: Model, arrays: Sequence[np.ndarray], threads: int) -> None:
        o, pointer = d.pare_plan_opts(), c_void_p()
        self.names = [p.name for p in model.outputs]
        tensors = (d.pare_tensor * len(arrays))()
        for t, a, p in zip(tensors, arrays, model.inputs):
            fill(t, a, "input '%s'" % p.name)
        o.size, o.threads, o.n_in = sizeof(o), threads, len(arrays)
        setattr(o, "in", tensors)
        call("pare_plan_new", model.pointer, byref(o), byref(pointer))
        super().__init__(pointer)

    def run(self, arrays: Sequence[np.ndarray]) -> Dict[str, np.ndarray]:
        tensors = (d.pare_tensor * len(arrays))()
        keep = [fill(t, a) for t, a in zip(tensors, arrays)]
        out = (d.pare_tensor * len(self.names))()
        call("pare_plan_run", self.pointer, tensors, len(arrays), out, len(self.names))
        del keep
        return {n: _copy(t, n) for n, t in zip(self.names, out)}


def _copy(t: Any, name: str) -> np.ndarray:
    if t.dtype == d.PARE_STR:
        n = 1
        for s in t.dim[:t.rank]:
            n *= s
        items: Any = (d.pare_str * n).from_address(t.data) if n else []
        return np.array([string_at(s.s, s.len).decode("utf-8", "replace") for s in items],
                        dtype=object).reshape(tuple(t.dim[:t.rank]))
    numpy_type(t.dtype, "output '%s'" % name)
    return view(t).copy()


def load(model: Any, *example: Any, widen: bool = True, **options: Any) -> Model:
    """A model from a path, bytes, an onnx.ModelProto or a torch.nn.Module.

    A module needs an example of its inputs, pare.load(net, x), or input_shape=(1, 1, 28, 28); it is
    exported in eval mode, with a free batch.  widen=False: layers of a file with weights in half or
    double precision compute as they are."""
    torch = sys.modules.get("torch")             # a module exists only if it was imported
    module, path = torch is not None and isinstance(model, torch.nn.Module), isinstance(model, (str, os.PathLike))
    if (example or options) and not module:
        raise Error("load() got %s, which only a torch.nn.Module takes, not a %s"
                    % ("'%s'" % next(iter(options)) if options else "an example of inputs", type(model).__name__))
    if not widen and not path:
        raise Error("widen=False needs the path of a file, not a %s" % type(model).__name__)
    if isinstance(model, Model):
        return model
    if path:
        o, pointer = d.pare_load_opts(), c_void_p()
        o.size, o.widen = sizeof(o), widen
        call("pare_model_load_with", text(os.fspath(model)), byref(o), byref(pointer))
        return Model(pointer)
    if hasattr(model, "SerializeToString"):
        model = model.SerializeToString()
    if isinstance(model, (bytes, bytearray, memoryview)):
        data, pointer = bytes(model), c_void_p()
        call("pare_model_parse", data, len(data), None, byref(pointer))
        return Model(pointer, data)
    if module:
        from .torch import export
        return export(model, *example, **options)
    raise Error("a %s is not a model; pass a path, bytes, an onnx.ModelProto or a torch.nn.Module"
                % type(model).__name__)


def new(network: str, input: Sequence[int] = (1, 8, 8), classes: int = 10, seed: int = 0) -> Model:
    """A network of `pare new` with random weights: new("lenet", (1, 8, 8))."""
    chw = (d.c_int64 * 3)(*input)
    pointer = c_void_p()
    call("pare_model_new", network.encode(), chw, classes, seed, byref(pointer))
    return Model(pointer)
