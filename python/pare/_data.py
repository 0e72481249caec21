"""Data sets: by name, from arrays, from iterables and torch DataLoaders."""
from __future__ import annotations

import os
from ctypes import byref, c_void_p, pointer as c_pointer, sizeof
from typing import Any, Dict, List, Mapping, Optional, Tuple, Union

import numpy as np

from . import _declarations as d
from ._library import Error, Handle, call, fields_of, lib, text
from ._tensor import as_array, fill

DataLike = Any


class Data(Handle):
    """A data set: `Data.open("digits", "test")`, `Data.arrays(x, y)`; or pass the name, (x, y), a
    dictionary of inputs, or an iterable of batches to any function that takes data."""

    _free = "pare_data_free"

    def __init__(self, pointer: c_void_p, keep: Tuple[Any, ...] = ()) -> None:
        super().__init__(pointer)
        self._keep = keep

    @classmethod
    def open(cls, name: Union[str, "os.PathLike[str]"], split: str = "train", **options: Any) -> Data:
        """A data set by name or path, as `--data` takes it; options are fields of struct pare_data_opts."""
        o = d.pare_data_opts()
        keep: List[Any] = []
        for field, value in options.items():
            if value is None:
                continue
            if field not in fields_of(d.pare_data_opts) or field in ("size", "progress", "user"):
                raise Error("a data set has no option '%s'" % field)
            setattr(o, field, _field(getattr(o, field), value, keep))
        o.shuffle = options.get("shuffle", True)
        o.size = sizeof(o)
        pointer = c_void_p()
        call("pare_data_open", text(os.fspath(name)), split.encode(), byref(o), byref(pointer))
        return cls(pointer, (o, *keep))

    @classmethod
    def arrays(cls, x: Any, y: Any = None, batch: int = 64, shuffle: bool = True,
               name: str = "memory") -> Data:
        """Items in memory: x is an array (n, ...) or a dictionary of them by input name; y are labels
        (n) or targets (n, ...).  Values are used as they are, without a copy if they are float32."""
        inputs: Dict[Optional[str], Any] = dict(x) if isinstance(x, Mapping) else {None: x}
        array = (d.pare_input * len(inputs))()
        a, keep, n = d.pare_arrays(), [], -1
        for i, (key, value) in enumerate(inputs.items()):
            v = as_array(value)
            v = v.astype(np.float32) if v.dtype == np.float64 else v
            if v.ndim == 0 or (n >= 0 and len(v) != n):
                raise Error("input '%s' has %s items, others have %d" % (key, len(v) if v.ndim else "no", n),
                            "SHAPE")
            n = len(v)
            array[i].name = text(key)
            keep.append(fill(array[i].t, v, "input '%s'" % (key or i)))
        a.name, a.n, a.input, a.n_inputs = name.encode(), n, array, len(inputs)
        if y is not None:
            labels, t = as_array(y), d.pare_tensor()
            if labels.dtype.kind in "iu":
                labels = labels.astype(np.int64, copy=False)
            elif labels.dtype == np.float64:
                labels = labels.astype(np.float32)
            if labels.ndim == 0 or len(labels) != n:
                raise Error("there are %s labels for %d items" % (len(labels) if labels.ndim else "no", n), "SHAPE")
            keep.append(fill(t, labels, "the labels"))
            a.y = c_pointer(t)
        a.batch, a.ordered = batch, not shuffle
        pointer = c_void_p()
        call("pare_data_from_arrays", byref(a), byref(pointer))
        return cls(pointer, tuple(keep))

    @classmethod
    def batches(cls, iterable: Any, shuffle: Optional[bool] = None) -> Data:
        """All batches of an iterable, for example a torch DataLoader: x, or (x, y).  They are read once
        and kept in memory, since calibration and training read items several times.  shuffle: in each
        epoch of a training; None: if it is a DataLoader that does."""
        if shuffle is None:
            shuffle = type(getattr(iterable, "sampler", None)).__name__ == "RandomSampler"
        xs: List[Any] = []
        ys: List[Any] = []
        for item in iterable:
            if isinstance(item, (tuple, list)) and len(item) == 2:
                xs.append(item[0])
                ys.append(as_array(item[1]))
            else:
                xs.append(item[0] if isinstance(item, (tuple, list)) and len(item) == 1 else item)
        if not xs:
            raise Error("the iterable of batches is empty")
        if ys and len(ys) != len(xs):
            raise Error("some batches have labels and some have none")
        size = len(as_array(next(iter(xs[0].values())) if isinstance(xs[0], Mapping) else xs[0]))
        x: Any
        if isinstance(xs[0], Mapping):
            x = {k: np.concatenate([as_array(b[k]) for b in xs]) for k in xs[0]}
        else:
            x = np.concatenate([as_array(b) for b in xs])
        return cls.arrays(x, np.concatenate(ys) if ys else None, batch=size, shuffle=shuffle)

    def __len__(self) -> int:
        return int(lib.pare_data_count(self.pointer))

    @property
    def has_labels(self) -> bool:
        return bool(lib.pare_data_has_labels(self.pointer))


def _field(old: Any, value: Any, keep: List[Any]) -> Any:
    """A value for a field of struct pare_data_opts."""
    if isinstance(old, (d.pare_ints, d.pare_floats)):
        import ctypes
        values = list(value) if isinstance(value, (list, tuple)) else [value]
        kind: Any = ctypes.c_int64 if isinstance(old, d.pare_ints) else ctypes.c_double
        array = (kind * len(values))(*values)
        keep.append(array)
        return type(old)(array, len(values))
    if isinstance(value, (str, os.PathLike)):
        return text(os.fspath(value))
    return value


def data_of(value: DataLike, split: str = "train") -> Optional[Data]:
    """A data set from what a caller passes: None, Data, a name, (x, y), a dictionary, arrays, batches."""
    if value is None or isinstance(value, Data):
        return value
    if isinstance(value, (str, os.PathLike)):
        return Data.open(value, split)
    if isinstance(value, tuple) and len(value) == 2:
        return Data.arrays(value[0], value[1])
    if isinstance(value, Mapping) or isinstance(value, np.ndarray) or hasattr(value, "detach"):
        return Data.arrays(value)
    if hasattr(value, "__iter__"):
        return Data.batches(value)
    raise Error("'%s' is not data; pass a name, an array, (x, y), a dictionary of inputs, or batches"
                % type(value).__name__)


def split_pair(data: DataLike, valid: DataLike) -> Tuple[Optional[Data], Optional[Data]]:
    """Training and validation data; a named set without `valid` is validated with its test part."""
    named = isinstance(data, (str, os.PathLike))
    first = data_of(data)
    if valid is None and named:
        try:
            second: Optional[Data] = Data.open(data, "test")
        except Error:
            second = None
    else:
        second = data_of(valid, "test") if valid is not False else None
    return first, second
