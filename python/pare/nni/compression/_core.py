"""Compressor, Pruner, Quantizer, WeightMasker and QuantGrad as NNI has them, over torch.nn.Module or pare.Model."""
from __future__ import annotations

import copy
import enum
import inspect
import logging
import types
from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence, Tuple

import numpy as np


from ..._model import load
from ..._tensor import as_array
from ._config import by_full_names, select  # noqa: F401
from ._names import DEFAULT_TYPES

try:
    import torch
    _Module: Any = torch.nn.Module
except ImportError:                                      # numpy arrays, pare.Model
    torch = None                                         # type: ignore[assignment]
    _Module = object


logger = logging.getLogger("pare.nni")


class QuantType(enum.IntEnum):
    """What is quantized; both spellings of NNI."""

    QUANT_INPUT = 0
    QUANT_WEIGHT = 1
    QUANT_OUTPUT = 2
    INPUT = 0
    WEIGHT = 1
    OUTPUT = 2


SITE = {QuantType.QUANT_INPUT: "input", QuantType.QUANT_WEIGHT: "weight", QuantType.QUANT_OUTPUT: "output"}


def is_torch(model: Any) -> bool:
    return torch is not None and isinstance(model, torch.nn.Module)


def as_tensor(a: Optional[np.ndarray]) -> Any:
    """A torch tensor on the array's memory if PyTorch is installed, else the array."""
    if a is None or torch is None:
        return a
    import warnings
    with warnings.catch_warnings():                      # the tensor must not be written; PyTorch cannot say so
        warnings.simplefilter("ignore")
        return torch.from_numpy(a)


def matches(kwargs: Mapping[str, Any], function: Callable[..., Any]) -> Dict[str, Any]:
    """Of the keyword arguments, those that a function takes."""
    parameters = inspect.signature(function).parameters
    if any(p.kind is p.VAR_KEYWORD for p in parameters.values()):
        return dict(kwargs)
    return {k: v for k, v in kwargs.items() if k in parameters}


# ---- wrappers -----------------------------------------------------------------------------------

class ModuleWrapper(_Module):
    """A layer of the model: module (with weight, bias), name, type, config, and attributes of the algorithm."""

    def __init__(self, module: Any, name: str, type_: str, config: Mapping[str, Any], owner: Any) -> None:
        if _Module is not object:
            super().__init__()
        self.module = module
        self.name, self.type, self.config = name, type_, dict(config)
        self.__dict__["owner"] = owner                   # not a submodule
        self.__dict__["layer"] = None                    # the library's, if it computes the algorithm

    @property
    def weight(self) -> Any:
        return self.module.weight

    @property
    def bias(self) -> Any:
        return getattr(self.module, "bias", None)

    def _copied(self) -> Dict[str, Any]:
        """What a copy has of its own: not the compressor, nor its collectors."""
        hooks = type(self.__dict__.get("_forward_hooks", {}))()
        return {**self.__dict__, "owner": None, "layer": None, "_forward_hooks": hooks}

    def __getstate__(self) -> Dict[str, Any]:
        return self._copied()

    def __deepcopy__(self, memo: Dict[int, Any]) -> Any:
        new = memo[id(self)] = type(self).__new__(type(self))
        new.__dict__.update({k: copy.deepcopy(v, memo) for k, v in self._copied().items()})
        new.__dict__.update(owner=self.owner, layer=self.layer)
        return new


class PrunerModuleWrapper(ModuleWrapper):
    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        if not isinstance(getattr(self.module, "weight", None), torch.Tensor):
            raise ValueError("layer '%s' is a %s, which has no weight to prune; choose others by op_types or op_names"
                             % (self.name, self.type))
        for key in ("weight", "bias"):
            value = getattr(self.module, key, None)
            mask = None if value is None else torch.ones_like(value)
            self.register_buffer(key + "_mask", mask)

    def apply_masks(self) -> None:
        with torch.no_grad():
            for key in ("weight", "bias"):
                value, mask = getattr(self.module, key, None), getattr(self, key + "_mask")
                if value is not None and mask is not None:
                    value.mul_(mask)

    def forward(self, *inputs: Any, **kwargs: Any) -> Any:
        self.apply_masks()
        return self.module(*inputs, **kwargs)


class _Quantize(torch.autograd.Function if torch is not None else object):  # type: ignore[misc]
    """Forward: the quantizer; backward: its quant_grad."""

    @staticmethod
    def forward(ctx: Any, x: Any, quantizer: Any, wrapper: Any, kind: QuantType) -> Any:
        ctx.save_for_backward(x)
        ctx.quantizer, ctx.wrapper, ctx.kind = quantizer, wrapper, kind
        y = quantizer._quantize(x.detach(), wrapper, kind)
        return y.clone() if y.data_ptr() == x.data_ptr() else y

    @staticmethod
    def backward(ctx: Any, gy: Any) -> Any:
        (x,) = ctx.saved_tensors
        return ctx.quantizer._backward(x, gy.clone(), ctx.wrapper, ctx.kind), None, None, None


class QuantizerModuleWrapper(ModuleWrapper):
    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        types = self.config.get("quant_types", [])
        self.sites = [s for s in ("weight", "input", "output") if s in types]
        m = self.module
        if "weight" in self.sites and isinstance(m._parameters.get("weight"), torch.nn.Parameter):
            old = m._parameters.pop("weight")            # the optimizer keeps training it
            m.register_parameter("old_weight", old)
            m.register_buffer("weight", old.detach().clone())
        for site in self.sites:
            m.register_buffer(site + "_scale", torch.zeros(1))
            m.register_buffer(site + "_zero_point", torch.zeros(1))
        m.register_buffer("scale", torch.zeros(1))
        m.register_buffer("zero_point", torch.zeros(1))
        self.__dict__["loaded"] = False

    def _load_from_state_dict(self, state: Any, prefix: str, *more: Any) -> None:
        # Scales may have one number for each channel.
        for key in list(self.module._buffers):
            name = prefix + "module." + key
            if name in state and self.module._buffers[key] is not None:
                self.module._buffers[key] = torch.empty_like(state[name])
        super()._load_from_state_dict(state, prefix, *more)
        self.__dict__["loaded"] = True

    def quantized_weight(self) -> Any:
        return _Quantize.apply(self.module.old_weight, self.owner, self, QuantType.QUANT_WEIGHT)

    def forward(self, *inputs: Any, **kwargs: Any) -> Any:
        if self.owner is None:
            raise ValueError("layer '%s' was saved without its quantizer; save state_dict() instead, and load it into a model "
                             "with a quantizer" % self.name)
        if "input" in self.sites:
            inputs = tuple(_Quantize.apply(x, self.owner, self, QuantType.QUANT_INPUT) for x in inputs)
        if "weight" in self.sites and "old_weight" in self.module._parameters:
            self.module.weight = self.quantized_weight()
        out = self.module(*inputs, **kwargs)
        if "output" in self.sites:
            out = _Quantize.apply(out, self.owner, self, QuantType.QUANT_OUTPUT)
        if "weight" in self.sites and "old_weight" in self.module._parameters:
            self.module.weight = self.module.weight.detach()
        return out


# ---- compressors --------------------------------------------------------------------------------

def patch_step(optimizer: Any, step: Callable[..., Any]) -> None:
    """Let step(old step, ...) run as optimizer.step(...), a method, which schedulers of PyTorch wrap in turn."""
    old = optimizer.step

    def new(unused: Any, *arguments: Any, **kwargs: Any) -> Any:
        return step(old, *arguments, **kwargs)

    if hasattr(old, "_with_counter"):                    # of a scheduler, which looks for it
        new._with_counter = True                         # type: ignore[attr-defined]
    optimizer.step = types.MethodType(new, optimizer)


class Compressor:
    """Base of Pruner and Quantizer: wraps the layers that a config_list chooses."""

    wrapper_class: Any = ModuleWrapper

    def __init__(self, model: Any, config_list: Sequence[Mapping[str, Any]], optimizer: Any = None) -> None:
        if not is_torch(model):
            model = load(model)
        self.bound_model, self.config_list, self.optimizer = model, config_list, optimizer
        self.is_wrapped = False
        self.modules_wrapper: List[Any] = []
        self.engine: Any = None
        self.compression: Any = None
        self.training: Any = None
        self._hooks: Dict[int, List[Any]] = {}
        self.validate_config(model, config_list)
        self._prepare()
        self._patch_optimizer()

    # ---- what subclasses of NNI override ----
    def validate_config(self, model: Any, config_list: Sequence[Mapping[str, Any]]) -> None:
        if not isinstance(config_list, (list, tuple)) or not all(isinstance(e, Mapping) for e in config_list):
            raise ValueError("config_list must be a list of dictionaries")

    def update_epoch(self, epoch: int) -> None:
        """Called at the beginning of each epoch."""

    def step(self) -> None:
        """Called after each batch."""

    # ---- layers ----
    def _leaves(self) -> List[Tuple[str, Any]]:
        return [(n, m) for n, m in self.bound_model.named_modules() if n and not list(m.children())]

    def _prepare(self) -> None:
        if not is_torch(self.bound_model):
            from ._engine import PareEngine
            self.engine = PareEngine(self)
            return
        self.engine = None
        leaves = self._leaves()
        chosen = select(self.config_list, [(n, type(m).__name__, type(m).__name__ in DEFAULT_TYPES) for n, m in leaves])
        if not chosen:                                   # NNI warns, too
            logger.warning("no layer of the model matches the config_list")
        self._wrap([(n, m, chosen[n]) for n, m in leaves if n in chosen])

    def _wrap(self, layers: Sequence[Tuple[str, Any, Mapping[str, Any]]]) -> None:
        for name, module, config in layers:
            self.modules_wrapper.append(self.wrapper_class(module, name, type(module).__name__, config, self))
        self._wrap_model()

    def _wrap_model(self) -> None:
        for w in self.modules_wrapper:
            _replace(self.bound_model, w.name, w)
        self.is_wrapped = True

    def _unwrap_model(self) -> None:
        for w in self.modules_wrapper:
            _replace(self.bound_model, w.name, w.module)
        self.is_wrapped = False

    def get_modules_wrapper(self) -> List[Any]:
        return self.modules_wrapper

    def get_modules_to_compress(self) -> List[Tuple[Any, Dict[str, Any]]]:
        return [(w, w.config) for w in self.modules_wrapper]

    def set_wrappers_attribute(self, name: str, value: Any) -> None:
        """Give every wrapper an attribute; tensors become buffers, lists are copied."""
        for w in self.modules_wrapper:
            if torch is not None and isinstance(value, torch.Tensor) and isinstance(w, _Module):
                w.register_buffer(name, value.clone())
            else:
                setattr(w, name, type(value)(value) if isinstance(value, (list, dict, set)) else value)

    # ---- collectors ----
    def add_activation_collector(self, collector: Callable[[Any, Any, Any], Any]) -> int:
        """Call collector(wrapper, input, output) after every forward pass; returns its number."""
        number = len(self._hooks)
        if self.engine is not None:
            self._hooks[number] = self.engine.add_collector(collector)
        else:
            self._hooks[number] = [w.register_forward_hook(collector) for w in self.modules_wrapper]
        return number

    def remove_activation_collector(self, number: int) -> None:
        if number not in self._hooks:
            raise ValueError("there is no collector %s" % number)
        for h in self._hooks.pop(number):
            h.remove()
        self._hooks[-number - 1] = []                    # numbers are not used again

    # ---- optimizer ----
    def _patch_optimizer(self) -> None:
        """Update masks and scales after each optimizer.step()."""
        if self.optimizer is None or not hasattr(self.optimizer, "step"):
            return
        def step(old: Callable[..., Any], *arguments: Any, **kwargs: Any) -> Any:
            result = old(*arguments, **kwargs)
            self._after_step()
            return result

        patch_step(self.optimizer, step)

    def _after_step(self) -> None:
        pass

    def compress(self) -> Any:
        return self.bound_model


def _replace(model: Any, name: str, value: Any) -> None:
    *path, last = name.split(".")
    for p in path:
        model = getattr(model, p)
    setattr(model, last, value)


class WeightMasker:
    """Calculates the mask of one layer."""

    def __init__(self, model: Any, pruner: Any, **kwargs: Any) -> None:
        self.model, self.pruner = model, pruner

    def calc_mask(self, sparsity: float, wrapper: Any, wrapper_idx: Optional[int] = None) -> Any:
        raise NotImplementedError("%s must overload calc_mask()" % type(self).__name__)


class Pruner(Compressor):
    """Base of pruners.  calc_mask(wrapper, wrapper_idx) returns {"weight_mask": ..., "bias_mask": ...}, or
    None to keep the present masks; it is called by compress() and after each optimizer.step()."""

    wrapper_class = PrunerModuleWrapper

    def calc_mask(self, wrapper: Any, **kwargs: Any) -> Any:
        raise NotImplementedError("Pruners must overload calc_mask()")

    def update_mask(self) -> None:
        for i, w in enumerate(self.modules_wrapper):
            masks = self.calc_mask(w, **matches({"wrapper_idx": i}, self.calc_mask))
            if masks is None:
                continue
            for key, value in masks.items():
                self._set_mask(w, key, value)

    def _set_mask(self, w: Any, key: str, value: Any) -> None:
        if key not in ("weight_mask", "bias_mask"):
            raise ValueError("calc_mask() returned '%s'; expected weight_mask or bias_mask" % key)
        if value is None:
            return
        old = getattr(w, key)
        if old is None:
            raise ValueError("layer '%s' has no tensor for %s" % (w.name, key))
        new = value if isinstance(value, torch.Tensor) else torch.from_numpy(np.ascontiguousarray(as_array(value)))
        if new.shape != old.shape:
            raise ValueError("%s of layer '%s' has shape %s, expected %s"
                             % (key, w.name, tuple(new.shape), tuple(old.shape)))
        old.copy_(new.to(old.dtype))

    def compress(self) -> Any:
        if self.engine is not None:
            self.engine.compress()
        else:
            self.update_mask()
            for w in self.modules_wrapper:
                w.apply_masks()
        return self.bound_model

    def _after_step(self) -> None:
        if self.engine is None:
            self.update_mask()
            for w in self.modules_wrapper:
                w.apply_masks()

    def compressed_masks(self) -> Dict[str, Dict[str, Any]]:
        """{layer: {"weight": mask, "bias": mask}}, for ModelSpeedup; copies."""
        return {w.name: {k: copy.deepcopy(getattr(w, k + "_mask")) for k in ("weight", "bias")
                         if getattr(w, k + "_mask") is not None} for w in self.modules_wrapper}

    def get_pruned_weights(self, dim: int = 0) -> Dict[str, Tuple[int, int]]:
        """Of each layer, the indices along a dimension that have weights left, and all; also as log records."""
        result = {}
        for w in self.modules_wrapper:
            mask = np.asarray(as_array(w.weight_mask))
            left = np.moveaxis(mask, dim, 0).reshape(mask.shape[dim], -1).any(1)
            result[w.name] = (int(left.sum()), mask.shape[dim])
            logger.info("simulated prune %s remain/total: %d/%d", w.name, *result[w.name])
        return result

    show_pruned_weights = get_pruned_weights

    def load_model_state_dict(self, model_state: Any) -> None:
        """Load a state with the names that the model has without wrappers."""
        if self.engine is not None:
            self.bound_model.load_state_dict(model_state)
            return
        wrapped = self.is_wrapped
        self._unwrap_model()
        try:
            self.bound_model.load_state_dict(model_state)
        finally:
            if wrapped:
                self._wrap_model()

    def export_model(self, model_path: str, mask_path: Optional[str] = None, onnx_path: Optional[str] = None,
                     input_shape: Any = None, device: Any = None, dummy_input: Any = None,
                     opset_version: Optional[int] = None) -> None:
        """The state with masked weights 0, the masks, and an .onnx of input_shape, or for inputs as dummy_input."""
        if not model_path:
            raise ValueError("model_path must be specified")
        if onnx_path is not None and input_shape is None and dummy_input is None:
            raise ValueError("input_shape must be specified to export onnx model")
        if self.engine is not None:
            if dummy_input is not None and input_shape is None:
                input_shape = tuple(np.shape(as_array(dummy_input)))
            if opset_version is not None:
                raise ValueError("opset_version of a pare.Model is that of the file it was loaded from")
            self.engine.export(model_path, mask_path, onnx_path, input_shape)
            return
        for w in self.modules_wrapper:
            w.apply_masks()
        masks, wrapped = self.compressed_masks(), self.is_wrapped
        self._unwrap_model()
        try:
            torch.save(self.bound_model.state_dict(), model_path)
            if mask_path is not None:
                torch.save(masks, mask_path)
            if onnx_path is not None:
                example = () if dummy_input is None else dummy_input if isinstance(dummy_input, tuple) else (dummy_input,)
                shape = tuple(input_shape) if dummy_input is None else None
                load(self.bound_model, *example, input_shape=shape, opset=opset_version or 13).save(onnx_path)
        finally:
            if wrapped:
                self._wrap_model()


class QuantGrad:
    """The backward pass of quantization; the default is the straight-through estimator."""

    @staticmethod
    def quant_backward(tensor: Any, grad_output: Any, quant_type: Any) -> Any:
        return grad_output

    @classmethod
    def apply(cls, *unused: Any) -> Any:
        """NNI 2.x assigns Class.apply to quant_grad; here it stands for the class."""
        raise TypeError("%s.apply is called by the library; assign it to quant_grad" % cls.__name__)


class Quantizer(Compressor):
    """Base of quantizers: quantize_weight, quantize_input, quantize_output, and quant_grad."""

    wrapper_class = QuantizerModuleWrapper
    quant_grad: Any = QuantGrad

    def quantize_weight(self, weight: Any, wrapper: Any, **kwargs: Any) -> Any:
        raise NotImplementedError("Quantizer must overload quantize_weight()")

    def quantize_output(self, output: Any, wrapper: Any, **kwargs: Any) -> Any:
        raise NotImplementedError("Quantizer must overload quantize_output()")

    def quantize_input(self, *inputs: Any, wrapper: Any, **kwargs: Any) -> Any:
        raise NotImplementedError("Quantizer must overload quantize_input()")

    def validate_config(self, model: Any, config_list: Sequence[Mapping[str, Any]]) -> None:
        super().validate_config(model, config_list)
        for e in config_list:
            types, bits = e.get("quant_types"), e.get("quant_bits")
            if e.get("exclude"):
                continue
            if not isinstance(types, (list, tuple)):
                raise ValueError("quant_types of an entry is %r; expected a list of weight, input and output" % (types,))
            for t in types:
                if t not in ("weight", "input", "output"):
                    raise ValueError("quant_types has '%s'; expected weight, input or output" % t)
                if not isinstance(bits, int) and (not isinstance(bits, Mapping) or t not in bits):
                    raise ValueError("quant_bits is %r; expected a number, or one for each of quant_types" % (bits,))

    def _quantize(self, x: Any, wrapper: Any, kind: QuantType) -> Any:
        """Call the method with the arguments that its signature names: (weight, config), (weight, wrapper),
        (wrapper) or (inputs, wrapper)."""
        f = getattr(self, "quantize_" + SITE[kind])
        names = list(inspect.signature(f).parameters)
        known = matches({"wrapper": wrapper, "config": wrapper.config, "op": wrapper, "op_type": wrapper.type,
                         "op_name": wrapper.name}, f)
        if names and names[0] == "wrapper":              # NNI 2.x: it reads, and may write, wrapper.module.weight
            known.pop("wrapper", None)
            if kind is QuantType.QUANT_WEIGHT and "weight" in getattr(wrapper.module, "_buffers", {}):
                wrapper.module.weight = x.clone()
            y = f(wrapper, **known)
        else:
            y = f(x, **{k: v for k, v in known.items() if k != names[0]})
        y = y[0] if isinstance(y, (tuple, list)) else y
        if y is None:                                    # NNI 2.x may write wrapper.module.weight
            y = wrapper.module.weight
        if torch is not None and isinstance(x, torch.Tensor) and not isinstance(y, torch.Tensor):
            y = torch.from_numpy(np.ascontiguousarray(y, dtype=np.float32))
        if tuple(y.shape) != tuple(x.shape):
            raise ValueError("quantize_%s of layer '%s' returned shape %s, expected %s"
                             % (SITE[kind], wrapper.name, tuple(y.shape), tuple(x.shape)))
        return y

    def _backward(self, x: Any, gy: Any, wrapper: Any, kind: QuantType) -> Any:
        """quant_backward(tensor, grad_output, quant_type), or as NNI 2.5 with scale, zero_point, qmin, qmax, too."""
        body = getattr(self.quant_grad, "__self__", self.quant_grad).quant_backward
        names = list(inspect.signature(body).parameters)
        return body(x, gy, kind, *(self._levels(wrapper, kind) if len(names) == 7 else ()))

    def _levels(self, wrapper: Any, kind: QuantType) -> Tuple[Any, Any, int, int]:
        site = SITE[kind]
        bits = wrapper.config.get("quant_bits", 8)
        bits = int(bits[site] if isinstance(bits, Mapping) else bits)
        dtype = wrapper.config.get("quant_dtype", "uint")
        dtype = dtype.get(site, "uint") if isinstance(dtype, Mapping) else dtype
        qmin, qmax = (1 - 2 ** (bits - 1), 2 ** (bits - 1) - 1) if dtype == "int" else (0, 2 ** bits - 1)
        m = wrapper.module
        scale, zero = (getattr(m, "%s_%s" % (site, k), getattr(m, k)) for k in ("scale", "zero_point"))
        return scale, zero, qmin, qmax

    def compress(self) -> Any:
        if self.engine is not None:
            self.engine.compress()
        return self.bound_model

    def export_model(self, model_path: str, calibration_path: Optional[str] = None, onnx_path: Optional[str] = None,
                     input_shape: Any = None, device: Any = None) -> Dict[str, Any]:
        """The state, and the scales of the layers; returns {layer: {"weight_bits": ..., "weight_scale": ...}}."""
        if not model_path:
            raise ValueError("model_path must be specified")
        if self.engine is not None:
            return self.engine.export_quantized(model_path, calibration_path, onnx_path, input_shape)
        scales: Dict[str, Any] = {}
        for w in self.modules_wrapper:
            entry = scales[w.name] = {}
            for s in w.sites:
                bits = w.config.get("quant_bits", 8)
                entry[s + "_bits"] = bits[s] if isinstance(bits, Mapping) else bits
                if bool((getattr(w.module, s + "_scale") > 0).all()):      # DoReFa and BNN have none
                    entry[s + "_scale"] = getattr(w.module, s + "_scale").clone()
                    entry[s + "_zero_point"] = getattr(w.module, s + "_zero_point").clone()
        state = {}
        for k, v in self.bound_model.state_dict().items():
            if not k.endswith((".old_weight", "scale", "zero_point")):
                state[k.replace(".module.", ".")] = v
        torch.save(state, model_path)
        if calibration_path is not None:
            torch.save(scales, calibration_path)
        if onnx_path is not None:
            if input_shape is None:
                raise ValueError("input_shape must be specified to export onnx model")
            self._unwrap_model()
            try:
                load(self.bound_model, input_shape=tuple(input_shape)).save(onnx_path)
            finally:
                self._wrap_model()
        return scales


