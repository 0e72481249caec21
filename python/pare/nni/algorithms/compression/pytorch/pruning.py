"""The names of nni.algorithms.compression.pytorch.pruning."""
from ....compression.pytorch import *  # noqa: F401,F403
from ....compression.pytorch import __all__  # noqa: F401
