"""ModelSpeedup and apply_compression_results."""
from __future__ import annotations

import os
from typing import Any, Mapping

import numpy as np

from ..._compress import apply_masks, speedup
from ..._model import load
from ..._tensor import as_array
from . import _core as core


def read_masks(masks_file: Any, map_location: Any = None) -> Any:
    if isinstance(masks_file, Mapping):
        return masks_file
    return core.torch.load(os.fspath(masks_file), map_location)


def apply_compression_results(model: Any, masks_file: Any, map_location: Any = None) -> None:
    """Multiply the masks of a file into a model, in place."""
    if not core.is_torch(model):
        apply_masks(load(model), masks_file)
        return
    modules = dict(model.named_modules())
    with core.torch.no_grad():
        for name, masks in read_masks(masks_file, map_location).items():
            if name not in modules:
                raise ValueError("the masks have a layer '%s', the model has none" % name)
            m = getattr(modules[name], "module", modules[name])
            for key, mask in masks.items():
                value = getattr(m, key, None)
                if value is not None and mask is not None:
                    value.mul_(core.torch.as_tensor(mask).to(value.device, value.dtype))


def unwrap(model: Any) -> None:
    """Put the layers of a wrapped model in the places of their wrappers, as pruner._unwrap_model()."""
    for w in [m for m in model.modules() if isinstance(m, core.ModuleWrapper)]:
        if isinstance(w, core.QuantizerModuleWrapper):
            raise ValueError("layer '%s' is quantized; make the model smaller before it is quantized" % w.name)
        if w.owner.is_wrapped:
            w.owner._unwrap_model()


class ModelSpeedup:
    """Remove the masked channels of a model: of a torch.nn.Module in place; speedup_model() returns a smaller
    pare.Model of a pare.Model."""

    def __init__(self, model: Any, dummy_input: Any, masks_file: Any = None, map_location: Any = None, batch_dim: int = 0,
                 confidence: int = 8, masks_or_file: Any = None) -> None:
        # confidence: the size of the batch that NNI finds masks with; here they follow from the graph.
        if batch_dim != 0:
            raise ValueError("batch_dim is %s; only models whose batch is the first dimension are made smaller" % batch_dim)
        self.confidence = confidence
        self.bound_model, self.dummy_input = model, dummy_input
        self.masks_file, self.map_location = masks_file if masks_or_file is None else masks_or_file, map_location
        if core.is_torch(model) and self.masks_file is None:
            raise ValueError("ModelSpeedup needs masks: the file of export_model(), or those that compress() returns")

    def speedup_model(self) -> Any:
        model = self.bound_model
        if not core.is_torch(model):
            model = load(model)
            if self.masks_file is not None:              # None: the weights are masked already
                if not isinstance(self.masks_file, (str, os.PathLike)):
                    raise ValueError("the masks of a pare.Model are a file, not a %s" % type(self.masks_file).__name__)
                apply_masks(model, self.masks_file)
            x = None if self.dummy_input is None else np.asarray(as_array(self.dummy_input), dtype=np.float32)
            return speedup(model, inputs=x, progress=False)
        unwrap(model)
        apply_compression_results(model, self.masks_file, self.map_location)
        example = self.dummy_input if isinstance(self.dummy_input, tuple) else (self.dummy_input,)
        smaller = speedup(load(model, *example), progress=False)
        self.report = smaller.report
        return smaller.to_torch(model)
