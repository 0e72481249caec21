"""An ONNX model that has only the layers of a torch.nn.Module, each with an input and an output of its own,
so that the library's pruners and quantizers work on weights which PyTorch trains."""
from __future__ import annotations

from typing import Any, Dict, List, Mapping, Sequence, Tuple

import numpy as np

from . import _core as core


def _varint(n: int) -> bytes:
    n &= (1 << 64) - 1
    out = bytearray()
    while n > 127:
        out.append(n & 127 | 128)
        n >>= 7
    out.append(n)
    return bytes(out)


def _int(field: int, n: int) -> bytes:
    return _varint(field << 3) + _varint(n)


def _bytes(field: int, b: Any) -> bytes:
    b = b.encode() if isinstance(b, str) else b
    return _varint(field << 3 | 2) + _varint(len(b)) + b


def _tensor(name: str, a: np.ndarray) -> bytes:
    a = np.ascontiguousarray(a, dtype=np.float32)
    return (b"".join(_int(1, n) for n in a.shape) + _int(2, 1) + _bytes(8, name) + _bytes(9, a.tobytes()))


def _attribute(name: str, value: Any) -> bytes:
    if isinstance(value, int):
        return _bytes(5, _bytes(1, name) + _int(3, value) + _int(20, 2))
    if isinstance(value, float):
        import struct
        return _bytes(5, _bytes(1, name) + _varint(2 << 3 | 5) + struct.pack("<f", value) + _int(20, 1))
    return _bytes(5, _bytes(1, name) + b"".join(_int(8, n) for n in value) + _int(20, 7))


def _value(name: str, shape: Tuple[Any, ...], dtype: int = 1) -> bytes:
    dims = b"".join(_bytes(1, _bytes(2, n) if isinstance(n, str) else _int(1, n)) for n in shape)
    return _bytes(1, name) + _bytes(2, _bytes(1, _int(1, dtype) + _bytes(2, dims)))


def _conv(m: Any, transposed: bool) -> Tuple[str, Dict[str, Any], Tuple[Any, ...]]:
    """Operator, attributes, shape of the input."""
    a: Dict[str, Any] = {"kernel_shape": list(m.kernel_size), "group": m.groups, "strides": list(m.stride),
                         "dilations": list(m.dilation)}
    size = tuple(k * dl + s + 1 for k, dl, s in zip(m.kernel_size, m.dilation, m.stride))
    return "ConvTranspose" if transposed else "Conv", a, ("N", m.in_channels) + size


# The operator of a module without parameters that has no other one here: only its outputs and inputs are quantized.
_STAND_IN: Tuple[Any, ...] = ("Erf", {}, ("N", 8), ())


def _describe(m: Any) -> Any:
    """Operator, attributes, input shape, names of parameters and buffers; None: parameters that are not known."""
    kind = type(m).__name__
    if kind in ("Conv1d", "Conv2d", "Conv3d"):
        return _conv(m, False) + (("weight", "bias"),)
    if kind in ("ConvTranspose1d", "ConvTranspose2d", "ConvTranspose3d"):
        return _conv(m, True) + (("weight", "bias"),)
    if kind == "Linear":
        return "Gemm", {"transB": 1}, ("N", m.in_features), ("weight", "bias")
    if kind in ("BatchNorm1d", "BatchNorm2d", "BatchNorm3d") and m.affine:
        shape = {"1": ("N", m.num_features), "2": ("N", m.num_features, 2, 2),
                 "3": ("N", m.num_features, 2, 2, 2)}[kind[9]]
        return ("BatchNormalization", {"epsilon": float(m.eps)}, shape,
                ("weight", "bias", "running_mean", "running_var"))
    if kind == "Embedding":
        return "Gather", {}, ("N", 8), ("weight",)
    if kind == "PReLU" and m.num_parameters == 1:
        return "PRelu", {}, ("N", 8), ("weight",)
    simple = {"ReLU": "Relu", "Sigmoid": "Sigmoid", "Tanh": "Tanh", "LeakyReLU": "LeakyRelu",
              "Hardswish": "HardSwish", "Softplus": "Softplus"}.get(kind)
    if simple:
        return simple, {}, ("N", 8), ()
    return None if list(m.parameters()) else _STAND_IN


def is_stand_in(m: Any) -> bool:
    """Has the module an operator in layers_model() whose type is not the module's?"""
    return _describe(m) is _STAND_IN


def layers_model(modules: List[Tuple[str, Any]]) -> bytes:
    """The bytes of the ONNX model; initializers have the names of the parameters."""
    graph = _bytes(2, "layers")
    for name, m in modules:
        described = _describe(m)
        if described is None:
            continue
        op, attributes, shape, parameters = described
        inputs = [] if op == "Gather" else [name + "/x"]
        for p in parameters:
            value = getattr(m, p, None)
            if value is not None:
                graph += _bytes(5, _tensor("%s.%s" % (name, p), value.detach().cpu().numpy()))
                inputs.append("%s.%s" % (name, p))
        if op == "Gather":                               # indices follow the table
            inputs.append(name + "/x")
        node = b"".join(_bytes(1, i) for i in inputs) + _bytes(2, name + "/y") + _bytes(3, name) + _bytes(4, op)
        graph += _bytes(1, node + b"".join(_attribute(k, v) for k, v in attributes.items()))
        graph += _bytes(11, _value(name + "/x", shape, 7 if op == "Gather" else 1))
        graph += _bytes(12, _bytes(1, name + "/y") + _bytes(2, _bytes(1, _int(1, 1))))
    return _int(1, 8) + _bytes(2, "pare") + _bytes(8, _int(2, 14)) + _bytes(7, graph)


def config_of_layers(config_list: Sequence[Mapping[str, Any]], leaves: Sequence[Tuple[str, Any]]) -> List[Dict[str, Any]]:
    """A config_list for layers_model(leaves): types of modules that have another operator there become names."""
    result: List[Dict[str, Any]] = []
    for entry in config_list:
        types = entry.get("op_types")
        if not isinstance(types, (list, tuple)):         # the library says what is wrong with it
            result.append(dict(entry))
            continue
        others = {type(m).__name__ for _, m in leaves if is_stand_in(m)} & set(types)
        rest = [t for t in types if t not in others]
        if rest:
            result.append({**entry, "op_types": rest})
        names = list(core.select([{**entry, "op_types": sorted(others), "exclude": False}], [
            (n, type(m).__name__, False) for n, m in leaves])) if others else []
        if names:
            result.append({**{k: v for k, v in entry.items() if k != "op_types"}, "op_names": names})
        if not rest and not names:
            result.append(dict(entry))
    return result
