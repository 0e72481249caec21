"""The names of nni.compression.pytorch.pruning: classes whose compress() returns the model and the masks, as in NNI 2.x."""
from .. import torch as _names
from .._builtin import newer as _newer

__all__ = _names.__all__
globals().update(_newer({name: getattr(_names, name) for name in __all__}))
