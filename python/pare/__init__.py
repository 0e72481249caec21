"""Pare: make trained neural networks smaller and faster.  ONNX in, ONNX out."""
from __future__ import annotations

from ._library import Canceled, Error, lib as _lib

__version__ = _lib.pare_version().decode()
__all__ = ["Canceled", "Error", "__version__"]
