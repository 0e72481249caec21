"""Tensors of the library as numpy arrays and the other way round, without copies."""
from __future__ import annotations

import ctypes
from typing import Any, Dict, Tuple

import numpy as np

from . import _declarations as d
from ._library import Error

_NUMPY: Dict[int, Any] = {
    d.PARE_F32: np.dtype(np.float32), d.PARE_U8: np.dtype(np.uint8), d.PARE_I8: np.dtype(np.int8),
    d.PARE_U16: np.dtype(np.uint16), d.PARE_I16: np.dtype(np.int16), d.PARE_I32: np.dtype(np.int32),
    d.PARE_I64: np.dtype(np.int64), d.PARE_BOOL: np.dtype(np.bool_), d.PARE_F16: np.dtype(np.float16),
    d.PARE_F64: np.dtype(np.float64), d.PARE_U32: np.dtype(np.uint32), d.PARE_U64: np.dtype(np.uint64),
    # One byte an element in memory.
    d.PARE_U4: np.dtype(np.uint8), d.PARE_I4: np.dtype(np.int8), d.PARE_U2: np.dtype(np.uint8),
    d.PARE_I2: np.dtype(np.int8),
    d.PARE_BF16: np.dtype(np.uint16),           # the bits; numpy has no bfloat16
}
_TYPESTR = {n: t.str for n, t in _NUMPY.items()}
_PARE = {t: n for n, t in reversed(list(_NUMPY.items())) if n not in (d.PARE_U4, d.PARE_I4, d.PARE_U2,
                                                                     d.PARE_I2, d.PARE_BF16)}
_NAMES = {d.PARE_F32: "float32", d.PARE_U8: "uint8", d.PARE_I8: "int8", d.PARE_I32: "int32",
          d.PARE_I64: "int64", d.PARE_BOOL: "bool", d.PARE_F16: "float16", d.PARE_F64: "float64",
          d.PARE_BF16: "bfloat16", d.PARE_STR: "string", d.PARE_U4: "uint4", d.PARE_I4: "int4",
          d.PARE_U2: "uint2", d.PARE_I2: "int2", d.PARE_U16: "uint16", d.PARE_I16: "int16",
          d.PARE_U32: "uint32", d.PARE_U64: "uint64"}


def dtype_name(number: int) -> str:
    return _NAMES.get(number, "type %d" % number)


def numpy_type(number: int, name: str = "the tensor") -> np.dtype:
    try:
        return _NUMPY[number]
    except KeyError:
        raise Error("%s is %s, which numpy has no type for" % (name, dtype_name(number)),
                    "UNSUPPORTED") from None


class _Memory:
    """Memory of the library, as numpy asks for it; an array keeps this object, and so the owner.  A ctypes array would
    need a new type for each size."""

    __slots__ = ("__array_interface__", "owner")

    def __init__(self, address: int, shape: Tuple[int, ...], typestr: str, writable: bool, owner: Any) -> None:
        self.__array_interface__ = {"data": (address, not writable), "shape": shape, "typestr": typestr, "version": 3}
        self.owner = owner


def view(t: Any, owner: Any = None, writable: bool = False, name: str = "the tensor") -> np.ndarray:
    """The elements of a struct pare_tensor as an array on the same memory.  The array keeps `owner`."""
    shape, address = tuple(t.dim[:t.rank]), t.data
    typestr = _TYPESTR.get(t.dtype) or numpy_type(t.dtype, name).str
    if not address or 0 in shape:
        return np.empty(shape, typestr)
    return np.asarray(_Memory(address, shape, typestr, writable, owner))


def as_array(value: Any) -> np.ndarray:
    """A numpy array of an array, a torch tensor or a list; no copy where none is needed."""
    if isinstance(value, np.ndarray):
        return value
    if hasattr(value, "detach"):                 # torch
        value = value.detach().cpu()
        return value.numpy()
    return np.asarray(value)


def fill(t: Any, array: np.ndarray, name: str = "the array") -> np.ndarray:
    """Point a struct pare_tensor to an array; returns the contiguous array to keep alive."""
    array = np.ascontiguousarray(array) if array.ndim else array
    number = _PARE.get(array.dtype)
    if number is None:
        raise Error("%s has type %s, which the library does not compute with; expected float32, an integer "
                    "type or bool" % (name, array.dtype), "UNSUPPORTED")
    if array.ndim > d.PARE_MAX_RANK:
        raise Error("%s has %d dimensions, more than %d" % (name, array.ndim, d.PARE_MAX_RANK), "LIMIT")
    t.dtype, t.rank = number, array.ndim
    for i, n in enumerate(array.shape):
        t.dim[i] = n
    t.data = array.ctypes.data
    return array


def tensor(array: np.ndarray, name: str = "the array") -> Any:
    """A struct pare_tensor of an array; it keeps the array."""
    t = d.pare_tensor()
    t._array = fill(t, array, name)
    return t
