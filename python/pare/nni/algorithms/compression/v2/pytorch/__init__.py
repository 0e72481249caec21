"""The names of nni.algorithms.compression.v2.pytorch."""
from .....compression.pytorch.pruning import *  # noqa: F401,F403
from .....compression.pytorch.pruning import __all__  # noqa: F401
