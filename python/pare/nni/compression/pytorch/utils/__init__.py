"""The names of nni.compression.pytorch.utils."""
from .counter import count_flops_params

__all__ = ["count_flops_params"]
