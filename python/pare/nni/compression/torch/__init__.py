"""The names of nni.compression.torch and nni.compression.pytorch."""
from __future__ import annotations

from .. import _builtin
from .._builtin import OneshotPruner
from .._core import (Compressor, Pruner, PrunerModuleWrapper, QuantGrad, QuantType, Quantizer,
                     QuantizerModuleWrapper, WeightMasker)
from .._speedup import ModelSpeedup, apply_compression_results
from .._training import TorchEvaluator

_classes = _builtin.classes()
globals().update(_classes)

__all__ = ["Compressor", "ModelSpeedup", "OneshotPruner", "Pruner", "PrunerModuleWrapper", "QuantGrad", "QuantType",
           "Quantizer", "QuantizerModuleWrapper", "TorchEvaluator", "WeightMasker", "apply_compression_results", *_classes]
