"""NNI's compressors on a pare.Model: the library trains and computes, Python classes are its algorithms."""
from __future__ import annotations

import json
import os
import tempfile
from typing import Any, Dict, List, Mapping, Optional

from ... import _algorithms as algorithms
from ..._library import Error
from ..._train import Training
from . import _core as core


class _PareModule:
    """weight, bias, scale and zero_point of a layer: tensors on the library's memory."""

    def __init__(self, layer: algorithms.Layer) -> None:
        self._layer = layer

    @property
    def weight(self) -> Any:
        return core.as_tensor(self._layer.weight)

    @property
    def bias(self) -> Any:
        return core.as_tensor(self._layer.bias)

    def _site(self) -> str:
        return next((s for s in ("weight", "output", "input") if self._layer.quant(s)), "weight")

    def _count(self, site: str) -> int:
        q = self._layer.quant(site)
        return self._layer.weight.shape[q.axis] if q and q.axis >= 0 and site == "weight" else 1

    @property
    def scale(self) -> Any:
        site = self._site()
        return core.as_tensor(self._layer.scale(site, self._count(site)))

    @property
    def zero_point(self) -> Any:
        site = self._site()
        return core.as_tensor(self._layer.zero_point(site, self._count(site)))


class PareWrapper:
    """The wrapper of a layer of a pare.Model."""

    def __init__(self, layer: algorithms.Layer, config: Mapping[str, Any]) -> None:
        self.layer, self.name, self.type, self.config = layer, layer.name, layer.type, dict(config)
        self.module = _PareModule(layer)

    @property
    def weight(self) -> Any:
        return self.module.weight

    @property
    def bias(self) -> Any:
        return self.module.bias

    @property
    def weight_mask(self) -> Any:
        return core.as_tensor(self.layer.mask)

    @property
    def bias_mask(self) -> Any:
        return core.as_tensor(self.layer.bias_mask)


class _PrunerAdaptor(algorithms.Pruner):
    """A pruner that is written with NNI's interface."""

    name, one_shot = "nni_pruner", False

    def __init__(self, engine: "PareEngine") -> None:
        self.engine = engine

    def calc_mask(self, layer: algorithms.Layer) -> Any:   # type: ignore[override]
        w, c = self.engine.wrapper(layer), self.engine.compressor
        return c.calc_mask(w, **core.matches({"wrapper_idx": layer.index}, c.calc_mask))


class _QuantizerAdaptor(algorithms.Quantizer):
    """A quantizer that is written with NNI's interface."""

    name = "nni_quantizer"

    def __init__(self, engine: "PareEngine") -> None:
        self.engine = engine

    def _call(self, layer: algorithms.Layer, x: Any, kind: core.QuantType, out: Any) -> Any:
        out[...] = x                                     # a method may change its argument in place
        return self.engine.compressor._quantize(core.as_tensor(out), self.engine.wrapper(layer), kind)

    def quantize_weight(self, layer: Any, x: Any, out: Any) -> Any:  # type: ignore[override]
        return self._call(layer, x, core.QuantType.QUANT_WEIGHT, out)

    def quantize_input(self, layer: Any, x: Any, out: Any) -> Any:   # type: ignore[override]
        return self._call(layer, x, core.QuantType.QUANT_INPUT, out)

    def quantize_output(self, layer: Any, x: Any, out: Any) -> Any:  # type: ignore[override]
        return self._call(layer, x, core.QuantType.QUANT_OUTPUT, out)

    def backward(self, layer: Any, site: str, x: Any, gy: Any, out: Any) -> Any:  # type: ignore[override]
        kind = {v: k for k, v in core.SITE.items()}[site]
        out[...] = gy
        return self.engine.compressor._backward(core.as_tensor(x), core.as_tensor(out), self.engine.wrapper(layer), kind)


class _Removable:
    def __init__(self, compression: algorithms.Compression, number: int) -> None:
        self.compression, self.number = compression, number

    def remove(self) -> None:
        self.compression.remove_collector(self.number)


class PareEngine:
    """A compression of the library for a Compressor.  Its `optimizer` is a pare.Training, or None."""

    def __init__(self, compressor: Any, algorithm: Any = None, options: Optional[Mapping[str, Any]] = None) -> None:
        self.compressor = compressor
        pruner = isinstance(compressor, core.Pruner)
        if algorithm is None:
            algorithm = _PrunerAdaptor(self) if pruner else _QuantizerAdaptor(self)
        config = core.by_full_names(compressor.config_list, [l.name for l in compressor.bound_model.layers])
        self.compression = algorithms.Compression(compressor.bound_model, config=config,
                                                  **{"pruner" if pruner else "quantizer": algorithm}, **(options or {}))
        layers = self.compression.layers
        chosen = core.select(compressor.config_list, [(l.name, l.type, True) for l in compressor.bound_model.layers] +
                             [(l.name, l.type, False) for l in layers])
        self._wrappers = {l.name: PareWrapper(l, chosen.get(l.name, {})) for l in layers}
        compressor.modules_wrapper = list(self._wrappers.values())
        compressor.is_wrapped = True
        if isinstance(compressor.optimizer, Training):
            self.compression.follow(compressor.optimizer)
        elif compressor.optimizer is not None:
            raise Error("the optimizer of a pare.Model is a pare.Training of it, or None; a torch optimizer trains "
                        "a torch.nn.Module")

    def wrapper(self, layer: algorithms.Layer) -> PareWrapper:
        return self._wrappers[layer.name]

    def compress(self) -> None:
        self.compression.compress()

    def add_collector(self, collector: Any) -> List[_Removable]:
        number = self.compression.add_collector(
            lambda layer, x, y: collector(self.wrapper(layer), (core.as_tensor(x),), core.as_tensor(y)))
        return [_Removable(self.compression, number)]

    def export(self, model: str, masks: Optional[str], onnx: Optional[str], shape: Any) -> None:
        self.compression.export(model=model, masks=masks, onnx=onnx, input_shape=shape)

    def export_quantized(self, model: str, calibration: Optional[str], onnx: Optional[str], shape: Any) -> Dict[str, Any]:
        with tempfile.TemporaryDirectory() as folder:
            path = calibration or os.path.join(folder, "calibration.json")
            self.compression.export(model=model, calibration=path, onnx=onnx, input_shape=shape)
            with open(path, encoding="utf-8") as f:
                return dict(json.load(f))


