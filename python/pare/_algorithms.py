"""Pruners and quantizers as Python classes.

    class Largest(pare.Pruner):
        "Keep the weights with the largest magnitude."
        granularity = "element"
        options = {"power": (float, 1.0, "exponent of the magnitude")}

        def score(self, layer):
            return abs(layer.weight) ** self.power

    pare.prune(model, Largest, sparsity=0.5)
"""
from __future__ import annotations

import ctypes
import functools
import inspect
import re
from ctypes import byref, c_double, c_float, c_int64, c_void_p, memmove, pointer, sizeof
from typing import Any, Callable, Dict, FrozenSet, List, Mapping, Optional, Tuple

import numpy as np

from . import _declarations as d
from ._data import DataLike, data_of
from ._library import Error, Handle, call, fields_of, lib, pend, raise_error, string, text
from ._model import Model
from ._progress import Watch
from ._settings import ConfigList, config_json, given
from ._tensor import as_array, tensor, view

NOT_YET = d.PARE_NOT_YET
SITES = ("weight", "input", "output")
_FIELDS = {bool: (d.PARE_OPT_BOOL, ctypes.c_bool), int: (d.PARE_OPT_INT, c_int64),
           float: (d.PARE_OPT_FLOAT, c_double), str: (d.PARE_OPT_STR, ctypes.c_char_p)}


_weight, _units = lib.pare_layer_weight, lib.pare_layer_units    # called for every layer
_WORDS = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_F32 = np.dtype(np.float32)
_ALGORITHM, _PRUNER = fields_of(d.pare_algorithm), fields_of(d.pare_pruner)


class Layer:
    """A layer of a compression.  Arrays are views of the library's memory, valid as long as it."""

    def __init__(self, pointer: int, owner: Any = None) -> None:
        self.pointer, self._owner = pointer, owner
        self.data: Dict[str, Any] = {}           # for the algorithm, as long as the compression

    @property
    def name(self) -> str:
        return string(lib.pare_layer_name(self.pointer))

    @property
    def type(self) -> str:
        return string(lib.pare_layer_type(self.pointer))

    @property
    def index(self) -> int:
        return int(lib.pare_layer_index(self.pointer))

    def _view(self, function: str, writable: bool = False) -> Optional[np.ndarray]:
        t = getattr(lib, function)(self.pointer)
        return view(t.contents, self._owner, writable) if t else None

    @property
    def weight(self) -> np.ndarray:
        """The weight, neither masked nor quantized; read only."""
        t = _weight(self.pointer)
        if not t:
            raise Error("layer '%s' has no weight" % self.name)
        return view(t.contents, self._owner)

    @property
    def bias(self) -> Optional[np.ndarray]:
        return self._view("pare_layer_bias")

    @property
    def mask(self) -> Optional[np.ndarray]:
        """True keeps a weight; calc_mask() may write it."""
        return self._view("pare_layer_mask", True)

    @property
    def bias_mask(self) -> Optional[np.ndarray]:
        return self._view("pare_layer_bias_mask", True)

    @property
    def grad(self) -> Optional[np.ndarray]:
        """The gradient of the weight, in before_step(); else None."""
        return self._view("pare_layer_grad", True)

    @property
    def sparsity(self) -> float:
        return float(lib.pare_layer_sparsity(self.pointer))

    @sparsity.setter
    def sparsity(self, value: float) -> None:
        lib.pare_layer_aim(self.pointer, value)

    @property
    def config_sparsity(self) -> float:
        return float(lib.pare_layer_config_sparsity(self.pointer))

    @property
    def out_axis(self) -> int:
        return int(lib.pare_layer_out_axis(self.pointer))

    @property
    def units(self) -> Tuple[int, ...]:
        """The grid of units that are kept or removed as a whole: the shape of score()."""
        u = lib.pare_layer_units(self.pointer).contents
        return tuple(u.grid[:u.rank])

    def sums(self, power: int = 1, of: Any = None) -> np.ndarray:
        """The sum of |x|^power over each unit, power 1 or 2; x is the weight, or an array of its shape.  The library
        computes it, as for its own pruners: faster than numpy, and right for every granularity."""
        if power not in (1, 2):
            raise ValueError("sums() has power %r, must be 1 or 2" % (power,))
        x, units = _weight(self.pointer), _units(self.pointer)
        if not x:
            raise Error("layer '%s' has no weight" % self.name)
        if of is not None:
            array = np.ascontiguousarray(as_array(of), dtype=np.float32)
            shape = tuple(x.contents.dim[:x.contents.rank])
            if array.shape != shape:
                raise ValueError("sums() of layer '%s' got an array of shape %s, its weight has %s"
                                 % (self.name, array.shape, shape))
            x = tensor(array)
        u = units.contents
        to = np.empty(u.grid[:u.rank], _F32)
        lib.pare_units_sum(units, x, power, c_float.from_buffer(to.data) if u.n else None)
        return to

    def quant(self, site: str) -> Any:
        """Bits, qmin, qmax, ... of "weight", "input" or "output"; None: it is not quantized."""
        q = lib.pare_layer_quant(self.pointer, SITES.index(site))
        return q.contents if q else None

    def buffer(self, name: str, shape: Tuple[int, ...] = (), dtype: int = d.PARE_F32) -> np.ndarray:
        """A named array of the layer that checkpoints store; zeros at first."""
        err, dims = d.pare_err(), (c_int64 * max(1, len(shape)))(*shape)
        t = lib.pare_layer_buffer(self.pointer, name.encode(), dtype, len(shape), dims, byref(err))
        if not t:
            raise_error(err)
        return view(t.contents, self._owner, True)

    def _numbers(self, function: str, site: str, n: int) -> np.ndarray:
        err = d.pare_err()
        t = getattr(lib, function)(self.pointer, SITES.index(site), n, byref(err))
        if not t:
            raise_error(err)
        return view(t.contents, self._owner, True)

    def scale(self, site: str = "weight", n: int = 1) -> np.ndarray:
        """The scales that export writes; write them in quantize_...()."""
        return self._numbers("pare_layer_scale", site, n)

    def zero_point(self, site: str = "weight", n: int = 1) -> np.ndarray:
        return self._numbers("pare_layer_zero_point", site, n)

    def quantize(self, site: str, x: np.ndarray, training: bool = True) -> np.ndarray:
        """x quantized as a forward pass of the library would."""
        x = np.ascontiguousarray(x, dtype=np.float32)
        y = np.empty_like(x)
        a, b = tensor(x), tensor(y)
        call("pare_layer_quantize", self.pointer, SITES.index(site), training, byref(a), byref(b))
        return y

    def quantize_back(self, site: str, x: np.ndarray, gy: np.ndarray) -> np.ndarray:
        """The gradient of x, given that of quantize(site, x)."""
        x, gy = (np.ascontiguousarray(v, dtype=np.float32) for v in (x, gy))
        gx = np.empty_like(x)
        a, b, c = tensor(x), tensor(gy), tensor(gx)
        call("pare_layer_quantize_back", self.pointer, SITES.index(site), byref(a), byref(b), byref(c))
        return gx

    def set_weight(self, value: Any) -> None:
        t = tensor(np.ascontiguousarray(as_array(value), dtype=np.float32))
        call("pare_layer_set_weight", self.pointer, byref(t))

    def __repr__(self) -> str:
        return "Layer(%s, %s)" % (self.name, self.type)


class Algorithm:
    """Base of Pruner and Quantizer.  Class attributes are the descriptor; every hook may be left out.

    options, keys: {"alpha": (float, 0.1, "help")}, with optional smallest and largest value; options
    are attributes of the object, keys are in self.key(layer, "alpha")."""

    name: Optional[str] = None
    types: Optional[str] = None
    options: Mapping[str, Tuple[Any, ...]] = {}
    keys: Mapping[str, Tuple[Any, ...]] = {}
    needs_data = needs_training = False

    start: Optional[Callable[..., Any]] = None           # start(self)
    on_epoch: Optional[Callable[..., Any]] = None        # on_epoch(self, epoch)
    before_step: Optional[Callable[..., Any]] = None     # before_step(self)
    on_step: Optional[Callable[..., Any]] = None         # on_step(self, step)
    loss: Optional[Callable[..., Any]] = None            # loss(self) -> number to add

    compression: Optional[int] = None                    # address of the compression, in callbacks

    @property
    def layers(self) -> List[Layer]:
        c = self.compression
        return [self.layer(lib.pare_compression_layer(c, i)) for i in range(lib.pare_compression_layers(c))]

    def layer(self, pointer: int) -> Layer:
        known = self.__dict__.get("_layers")
        if known is None:
            known = self.__dict__["_layers"] = {}
        found = known.get(pointer)
        if found is None:
            found = known[pointer] = Layer(pointer)
        return found

    def key(self, layer: Layer, name: str) -> Any:
        """A key of the config_list entry that chose the layer."""
        return _read(self._key_struct, lib.pare_layer_conf(layer.pointer), name)

    @property
    def steps(self) -> int:
        return int(lib.pare_compression_steps(self.compression))

    def forward(self, batches: int) -> None:
        """Run batches of the data through the model, for collectors."""
        call("pare_compression_forward", self.compression, batches)

    def add_collector(self, collect: Callable[[Layer, np.ndarray, np.ndarray], Any]) -> int:
        """Call collect(layer, input, output) after every forward pass; returns a number to remove it by."""
        return _add_collector(self.compression, collect, self.layer, self.__dict__.setdefault("_keep", {}))

    def remove_collector(self, number: int) -> None:
        call("pare_remove_collector", self.compression, number)
        self.__dict__.get("_keep", {}).pop(number, None)

    _key_struct: Any = None
    _option_struct: Any = None


def _add_collector(c: Any, collect: Callable[..., Any], layer_of: Callable[[int], Layer],
                   keep: Dict[int, Any]) -> int:
    def fn(l: int, x: Any, y: Any, user: Any, err: Any) -> int:
        return _guard(err, lambda: collect(layer_of(l), view(x.contents), view(y.contents)))

    thunk, number = d.pare_collect_fn(fn), ctypes.c_int()
    call("pare_add_collector", c, thunk, None, byref(number))
    keep[number.value] = thunk
    return number.value


class Pruner(Algorithm):
    """A pruner: define score(self, layer), which returns one number for each unit (the lowest are
    removed), or calc_mask(self, layer), which returns a mask of the weight's shape.  None: not yet."""

    granularity: Optional[str] = None                    # "element", "out_channel", ...
    mode: Optional[str] = None
    one_shot, regrow = True, False
    score: Optional[Callable[..., Any]] = None
    calc_mask: Optional[Callable[..., Any]] = None


class Quantizer(Algorithm):
    """A quantizer: define quantize_weight, quantize_input or quantize_output(self, layer, x), which
    return an array of x's shape, and backward(self, layer, site, x, gy), which returns the gradient of
    x; without it gradients pass straight through.  A method with a parameter `out` gets the library's
    array for the result: one that is written there and returned is not copied."""

    min_bits, max_bits = 1, 16
    quantize_weight: Optional[Callable[..., Any]] = None
    quantize_input: Optional[Callable[..., Any]] = None
    quantize_output: Optional[Callable[..., Any]] = None
    backward: Optional[Callable[..., Any]] = None


def fail_callback(err: Any, e: BaseException) -> int:
    pend(e)
    if err:
        err.contents.code = d.PARE_ECANCEL
        err.contents.msg = ("Python: %s: %s" % (type(e).__name__, e)).encode()[:511]
    return d.PARE_ECANCEL


def _guard(err: Any, body: Callable[[], Any]) -> Any:
    """Run a callback; an exception is kept for the caller, and ends the C function with an error."""
    try:
        result = body()
    except BaseException as e:
        return fail_callback(err, e)
    return result if isinstance(result, int) and not isinstance(result, bool) else 0


def _table(fields: Mapping[str, Tuple[Any, ...]]) -> Tuple[Any, Any]:
    """The struct that options fill, and the table of struct pare_opt."""
    struct = type("options", (ctypes.Structure,),
                  {"_fields_": [(n, _FIELDS[f[0]][1]) for n, f in fields.items()]})
    table = (d.pare_opt * (len(fields) + 1))()
    for i, (name, (kind, default, *more)) in enumerate(fields.items()):
        o = table[i]
        o.name, o.type, o.offset = name.encode(), _FIELDS[kind][0], getattr(struct, name).offset
        o.help = (str(more[0]) if more else name).encode()
        o.min = more[1] if len(more) > 1 else d.PARE_NO_MIN
        o.max = more[2] if len(more) > 2 else d.PARE_NO_MAX
        if kind is str:
            o.str = text(default)
        else:
            setattr(o, "def", float(default))
            if kind is bool:
                o.min, o.max = 0, 1
    return struct, table


def _read(struct: Any, address: Optional[int], name: str) -> Any:
    value = getattr(struct.from_address(address), name)
    return string(value) if isinstance(value, bytes) else value


class _Descriptor:
    """struct pare_algorithm of a Python object, with everything that it points to."""

    def __init__(self, a: Algorithm, name: str) -> None:
        self.algorithm, self.keep = a, []        # type: ignore[var-annotated]
        s = self.struct = d.pare_algorithm(abi=d.PARE_ABI, size=sizeof(d.pare_algorithm))
        s.name, s.doc = name.encode(), (type(a).__doc__ or name).strip().split("\n")[0].encode()
        s.types = text(a.types)
        if a.keys:
            a._key_struct, table = _table(a.keys)
            s.keys, s.conf_size = table, sizeof(a._key_struct)
            self.keep.append(table)
        if a.options:
            a._option_struct, table = _table(a.options)
            s.opts, s.opts_size = table, sizeof(a._option_struct)
            self.keep.append(table)
        s.flags = (d.PARE_NEEDS_DATA if a.needs_data else 0) | (d.PARE_NEEDS_STEPS if a.needs_training else 0)
        for hook in ("start", "on_epoch", "before_step", "on_step", "loss"):
            method = getattr(a, hook)
            if method is not None or hook == "start":    # options are read at the start
                thunk = _ALGORITHM[hook](self._hook(self._loss if hook == "loss" else method))
                self.keep.append(thunk)
                setattr(s, hook, thunk)

    def enter(self, c: int) -> None:
        """The compression of this call, and the options that the library parsed."""
        a = self.algorithm
        if a.compression != c:
            a.compression = c
            a.__dict__["_layers"] = {}
            if a.options:
                conf = lib.pare_compression_conf(c)
                for name in a.options:
                    setattr(a, name, _read(a._option_struct, conf, name))

    def _hook(self, body: Optional[Callable[..., Any]]) -> Callable[..., int]:
        def fn(c: int, *arguments: Any) -> int:
            def run() -> int:
                self.enter(c)
                if body is not None:
                    body(*arguments[:-1])
                return 0
            return int(_guard(arguments[-1], run))
        return fn

    def _loss(self, loss: Any) -> None:
        loss[0] += float(self.algorithm.loss())  # type: ignore[misc]

    # ---- pruners ----
    def pruner(self) -> None:
        a, p = self.algorithm, d.pare_pruner(size=sizeof(d.pare_pruner))
        assert isinstance(a, Pruner)
        p.granularity, p.mode = text(a.granularity), text(a.mode)
        if a.calc_mask is not None:
            p.calc_mask = _PRUNER["calc_mask"](self._calc_mask)
        elif a.score is not None:
            p.score = _PRUNER["score"](self._score)
        self.struct.flags |= (d.PARE_ONE_SHOT if a.one_shot else 0) | (d.PARE_REGROW if a.regrow else 0)
        self.struct.pruner = pointer(p)
        self.keep.append(p)

    def _calc_mask(self, c: int, l: int, err: Any) -> int:
        def run() -> int:
            self.enter(c)
            layer = self.algorithm.layer(l)
            mask = self.algorithm.calc_mask(layer)   # type: ignore[attr-defined]
            if mask is None:
                return NOT_YET
            masks = mask if isinstance(mask, Mapping) else {"weight": mask}
            for name, to in (("weight", layer.mask), ("bias", layer.bias_mask)):
                value = masks.get(name, masks.get(name + "_mask"))
                if value is not None and to is not None:
                    _copy_mask(to, as_array(value), layer.name)
            return 0
        return int(_guard(err, run))

    def _score(self, c: int, l: int, to: Any, err: Any) -> int:
        try:                                         # _guard() without a closure: called for every layer
            if self.algorithm.compression != c:
                self.enter(c)
            layer = self.algorithm.layer(l)
            score = self.algorithm.score(layer)      # type: ignore[attr-defined]
            if score is None:
                return NOT_YET
            if type(score) is not np.ndarray or score.dtype is not _F32:
                score = np.asarray(as_array(score), _F32)
            n = _units(l).contents.n
            if score.size != n:
                raise ValueError("score() of layer '%s' returned %d numbers for %d units of shape %s"
                                 % (layer.name, score.size, n, layer.units))
            memmove(to, score.tobytes(), 4 * n)      # in row-major order; cheaper than a view to write to
            return 0
        except BaseException as e:
            return fail_callback(err, e)

    # ---- quantizers ----
    def quantizer(self) -> None:
        a, q = self.algorithm, d.pare_quantizer(size=sizeof(d.pare_quantizer))
        assert isinstance(a, Quantizer)
        for site in SITES:
            body = getattr(a, "quantize_" + site)
            if body is not None:
                setattr(q, site, d.pare_quantize_fn(self._quantize(body)))
        if a.backward is not None:
            self.direct = "out" in inspect.signature(a.backward).parameters
            q.backward = d.pare_qgrad_fn(self._backward)
        q.min_bits, q.max_bits = a.min_bits, a.max_bits
        self.struct.quantizer = pointer(q)
        self.keep.append(q)

    def _quantize(self, body: Callable[..., Any]) -> Callable[..., int]:
        direct = "out" in inspect.signature(body).parameters

        def fn(l: int, x: Any, y: Any, err: Any) -> int:
            def run() -> int:
                self.enter(lib.pare_layer_compression(l))
                to = view(y.contents, None, True)
                more = {"out": to} if direct else {}
                _store(to, body(self.algorithm.layer(l), view(x.contents), **more), body)
                return 0
            return int(_guard(err, run))
        return fn

    def _backward(self, l: int, site: int, x: Any, gy: Any, gx: Any, err: Any) -> int:
        def run() -> int:
            self.enter(lib.pare_layer_compression(l))
            body = self.algorithm.backward           # type: ignore[attr-defined]
            to = view(gx.contents, None, True)
            more = {"out": to} if self.direct else {}
            _store(to, body(self.algorithm.layer(l), SITES[site], view(x.contents), view(gy.contents), **more), body)
            return 0
        return int(_guard(err, run))


def _copy_mask(to: np.ndarray, mask: np.ndarray, name: str) -> None:
    if mask.shape != to.shape:
        raise ValueError("the mask of layer '%s' has shape %s, its weight has %s" % (name, mask.shape, to.shape))
    np.not_equal(mask, 0, out=to)


def _store(to: np.ndarray, value: Any, body: Any) -> None:
    if value is to:
        return
    value = as_array(value)
    if value.shape != to.shape:
        raise ValueError("%s() returned an array of shape %s, expected %s"
                         % (getattr(body, "__name__", "quantizer"), value.shape, to.shape))
    if value.ctypes.data != to.ctypes.data:
        to[...] = value


@functools.lru_cache(maxsize=None)
def _builtin_names(function: str) -> FrozenSet[str]:
    names: List[str] = []
    info = d.pare_algorithm_info()
    while getattr(lib, function)(None, len(names), byref(info)):
        names.append(string(info.name))
    return frozenset(names)


class Registry(Handle):
    """Algorithms in addition to the built-in ones: Python classes and plugins (.so)."""

    _free = "pare_registry_free"

    def __init__(self) -> None:
        err = d.pare_err()
        p = lib.pare_registry_new(byref(err))
        if not p:
            raise_error(err)
        super().__init__(c_void_p(p))
        self._borrowed = False
        self._descriptors: List[_Descriptor] = []
        self._users: List[List[Any]] = []        # compressions that use the descriptors, one [pointer] each

    @classmethod
    def borrow(cls, pointer: c_void_p) -> "Registry":
        """A registry that the command owns and frees; descriptors stay valid as long as this object."""
        r = cls.__new__(cls)
        Handle.__init__(r, pointer)
        r._descriptors, r._users, r._borrowed = [], [], True
        return r

    def close(self) -> None:
        if getattr(self, "_borrowed", False):
            self._pointer = None
        # The collector of reference cycles calls finalizers in any order.
        for user in getattr(self, "_users", []):
            if user[0]:
                lib.pare_compression_free(user[0])
                user[0] = None
        super().close()
        for descriptor in getattr(self, "_descriptors", []):     # its thunks refer to it
            descriptor.struct = None
            descriptor.keep.clear()

    def add(self, algorithm: Any, kind: Optional[str] = None) -> str:
        """Add a Pruner or Quantizer, as a class or an object; returns its name."""
        a = algorithm() if isinstance(algorithm, type) else algorithm
        wanted = {"pruner": Pruner, "quantizer": Quantizer}.get(kind or "", Algorithm)
        if not isinstance(a, wanted):
            raise Error("%r is not a name, a subclass of pare.%s or an object of one"
                        % (algorithm, wanted.__name__))
        name = a.name or _WORDS.sub("_", type(a).__name__).lower()
        builtin = _builtin_names("pare_list_pruner" if isinstance(a, Pruner) else "pare_list_quantizer")
        if a.name is None and name in builtin:           # a class L1 is not the built-in pruner l1
            name += "_python"
        descriptor = _Descriptor(a, name)
        if isinstance(a, Pruner):
            descriptor.pruner()
            call("pare_add_pruner", self.pointer, byref(descriptor.struct))
        else:
            descriptor.quantizer()
            call("pare_add_quantizer", self.pointer, byref(descriptor.struct))
        self._descriptors.append(descriptor)
        return name

    def load(self, path: str) -> None:
        """Load a plugin, a shared object."""
        call("pare_plugin_load", self.pointer, text(path))


class Compression(Handle):
    """A compression step by step, with hooks into training; see <pare/session.h>."""

    _free = "pare_compression_free"

    def __init__(self, model: Model, *, pruner: Any = None, quantizer: Any = None,
                 config: Optional[ConfigList] = None, registry: Optional[Registry] = None, seed: int = 0,
                 threads: int = 0, **options: Any) -> None:
        self.model, self.registry, self.training = model, registry, None
        if (pruner is None) == (quantizer is None):
            raise Error("a compression has either a pruner or a quantizer; pass one of them")
        algorithm = pruner if pruner is not None else quantizer
        if not isinstance(algorithm, str):
            self.registry = registry or Registry()
            algorithm = self.registry.add(algorithm, "pruner" if pruner is not None else "quantizer")
        o, p = d.pare_compression_opts(), c_void_p()
        o.size = sizeof(o)
        setattr(o, "pruner" if pruner is not None else "quantizer", text(algorithm))
        o.config = config_json(config)
        self._given, o.n_given = given(options)          # the library may keep these texts
        o.given = self._given
        self._opts = o
        o.registry = self.registry.pointer if self.registry else None
        o.seed, o.threads = seed, threads
        call("pare_compression_new", model.pointer, byref(o), byref(p))
        super().__init__(p)
        model._changed()
        self._cell: List[Any] = [p]
        if self.registry is not None:
            self.registry._users.append(self._cell)
        self._layers: Dict[int, Layer] = {}
        self._keep: Dict[int, Any] = {}

    def close(self) -> None:
        cell = getattr(self, "_cell", None)
        self.model._changed()                            # plans have nodes that call the compression
        if cell is not None and cell[0]:
            lib.pare_compression_free(cell[0])
            cell[0] = None
        self._pointer = None
        if cell is not None and self.registry is not None and cell in self.registry._users:
            self.registry._users.remove(cell)

    def layer_at(self, p: int) -> Layer:
        if p not in self._layers:
            self._layers[p] = Layer(p, self)
        return self._layers[p]

    @property
    def layers(self) -> List[Layer]:
        n = lib.pare_compression_layers(self.pointer)
        return [self.layer_at(lib.pare_compression_layer(self.pointer, i)) for i in range(n)]

    def follow(self, training: Any) -> None:
        call("pare_compression_follow", self.pointer, training.pointer)
        self.training = training

    def use_data(self, data: DataLike, batch: int = 64) -> None:
        self._data = data_of(data)
        call("pare_compression_use_data", self.pointer, self._data.pointer if self._data else None, batch)

    def compress(self, progress: Any = None) -> None:
        with Watch(progress) as fn:
            self._fn = fn
            lib.pare_compression_on_progress(self.pointer, fn, None)
            call("pare_compression_compress", self.pointer)
        self.model._changed()

    def update_masks(self) -> None:
        call("pare_compression_update_masks", self.pointer)
        self.model._changed()

    @property
    def zeros(self) -> int:
        return int(lib.pare_compression_zeros(self.pointer))

    def length(self) -> Tuple[int, int]:
        """Epochs and steps of training that the algorithm needs."""
        e, s = c_int64(), c_int64()
        call("pare_compression_length", self.pointer, byref(e), byref(s))
        return e.value, s.value

    def add_collector(self, collect: Callable[..., Any]) -> int:
        return _add_collector(self.pointer, collect, self.layer_at, self._keep)

    def remove_collector(self, number: int) -> None:
        call("pare_remove_collector", self.pointer, number)
        self._keep.pop(number, None)

    def export(self, *, model: Optional[str] = None, onnx: Optional[str] = None, masks: Optional[str] = None,
               calibration: Optional[str] = None, input_shape: Any = None) -> None:
        e = d.pare_export(size=sizeof(d.pare_export))
        e.model, e.onnx, e.masks, e.calibration = (text(p) for p in (model, onnx, masks, calibration))
        if input_shape is not None:
            e.input_shape, e.input_rank = (c_int64 * len(input_shape))(*input_shape), len(input_shape)
        call("pare_compression_export", self.pointer, byref(e))


__all__ = ["Algorithm", "Compression", "Layer", "Pruner", "Quantizer", "Registry", "NOT_YET"]
