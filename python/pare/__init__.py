"""Pare: make trained neural networks smaller and faster.  ONNX in, ONNX out.

    import pare
    model = pare.load("model.onnx")
    small = pare.prune(model, "l1", sparsity=0.5, speedup=True)
    small.train("digits", epochs=2, teacher=model)
    small.quantize("int8", data="digits").save("small.onnx")
"""
from __future__ import annotations

from typing import Any as _Any

from ._algorithms import Compression, Pruner, Quantizer, Registry
from ._compress import (apply_masks, compress, presets, prune, pruners, quantize, quantizers, speedup)
from ._data import Data
from ._library import Canceled, Error, lib as _lib
from ._model import Layer, Metrics, Model, load, new
from ._progress import Progress
from ._report import report
from ._train import Epoch, Training, train



def __getattr__(name: str) -> _Any:
    """pare.torch and pare.nni are imported when they are used."""
    if name in ("torch", "nni"):
        import importlib
        return importlib.import_module("." + name, __name__)
    raise AttributeError("module 'pare' has no attribute '%s'" % name)


__version__ = _lib.pare_version().decode()
__all__ = ["Canceled", "Compression", "Data", "Epoch", "Error", "Layer", "Metrics", "Model", "Progress", "Pruner", "Quantizer", "Registry", "Training",
           "apply_masks", "compress", "load", "new", "presets", "prune", "pruners", "quantize",
           "quantizers", "report", "speedup", "train", "__version__"]
