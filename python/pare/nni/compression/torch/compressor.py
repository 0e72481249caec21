"""The names of nni.compression.torch.compressor."""
from .._core import (Compressor, Pruner, PrunerModuleWrapper, QuantGrad, QuantType, Quantizer,
                     QuantizerModuleWrapper, WeightMasker)

__all__ = ["Compressor", "Pruner", "PrunerModuleWrapper", "QuantGrad", "QuantType", "Quantizer",
           "QuantizerModuleWrapper", "WeightMasker"]
