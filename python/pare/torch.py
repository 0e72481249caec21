"""PyTorch in both directions: a torch.nn.Module as a Model, and weights back into a module."""
from __future__ import annotations

import io
from typing import Any, Dict, Optional, Sequence

import numpy as np

from ._library import Error
from ._model import Model, load


def export(module: Any, *example: Any, input_shape: Optional[Sequence[int]] = None, opset: int = 13) -> Model:
    """A model with the module's weights under their names, in eval mode, with a free batch.  example:
    inputs of the module, or input_shape for one random input."""
    import torch
    if not example:
        if input_shape is None:
            raise Error("a torch.nn.Module needs an example of its inputs: pare.load(module, x), or "
                        "input_shape=(1, 3, 32, 32)")
        example = (torch.rand(*input_shape),)
    example = tuple(torch.from_numpy(np.array(x)) if isinstance(x, np.ndarray) else x for x in example)
    training, f = module.training, io.BytesIO()
    names = ["input" if len(example) == 1 else "input%d" % i for i in range(len(example))]
    module.eval()
    try:
        # PRESERVE: in its eval mode the exporter folds batch normalization into convolutions.
        options: Dict[str, Any] = {"input_names": names, "output_names": ["output"], "opset_version": opset,
                                   "do_constant_folding": False, "training": torch.onnx.TrainingMode.PRESERVE,
                                   "dynamic_axes": {n: {0: "N"} for n in names + ["output"]}}
        if "dynamo" in torch.onnx.export.__code__.co_varnames:
            options["dynamo"] = False
        torch.onnx.export(module, example, f, **options)
    finally:
        module.train(training)
    model = load(f.getvalue())
    model.module = module
    return model


def state_dict(model: Model, module: Any = None) -> Dict[str, Any]:
    """Weights of a model as torch tensors by name, of the names that the module has."""
    import torch
    names = set(model.tensors())
    wanted = names if module is None else [n for n in module.state_dict() if n in names]
    return {n: torch.from_numpy(model[n].copy()) for n in wanted}


def _resize(module: Any, weight: Any) -> None:
    """Set the channel counts of a layer to those of its new weight."""
    kind = type(module).__name__
    if hasattr(module, "in_features"):
        module.out_features, module.in_features = weight.shape
    elif hasattr(module, "num_features"):
        module.num_features = weight.shape[0]
    elif hasattr(module, "out_channels"):
        first, second = ("in_channels", "out_channels") if "Transpose" in kind else ("out_channels", "in_channels")
        if module.groups > 1 and getattr(module, second) == module.groups and getattr(module, first) == module.groups:
            module.groups = weight.shape[0]      # depthwise
        setattr(module, first, weight.shape[0])
        setattr(module, second, weight.shape[1] * module.groups)
    else:
        raise Error("a %s of another size cannot be rebuilt in place" % kind, "UNSUPPORTED")


def update_module(model: Model, module: Any) -> Any:
    """Copy the weights of a model into a module, by name.  Layers that lost channels are changed in
    place: parameters, running statistics and channel counts.  Parameters that the model does not
    have under their names are an error if other sizes changed; see state_dict() then."""
    import torch
    if module is None:
        raise Error("the model was not made from a torch.nn.Module; pass one")
    names = set(model.tensors())
    found = []
    for prefix, layer in module.named_modules():
        for key, old in list(layer._parameters.items()) + list(layer._buffers.items()):
            name = "%s.%s" % (prefix, key) if prefix else key
            if old is not None and name in names:
                found.append((layer, key, old, torch.from_numpy(model[name].copy()).to(old.dtype)))
    lost = [n for n, p in module.named_parameters() if n not in names]
    changed = [layer for layer, key, old, value in found if value.shape != old.shape]
    if changed and lost:                         # before anything is changed
        raise Error("'%s' has no counterpart in the model, so the smaller network cannot be rebuilt in this "
                    "module; use pare.torch.state_dict(model)" % lost[0], "UNSUPPORTED")
    with torch.no_grad():
        for layer, key, old, value in found:
            if value.shape == old.shape:
                old.copy_(value)
                continue
            if key == "weight":
                _resize(layer, value)
            if key in layer._parameters:
                layer._parameters[key] = torch.nn.Parameter(value, old.requires_grad)
            else:
                layer._buffers[key] = value
    return module
