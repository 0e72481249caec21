"""The names of nni.compression.torch.speedup."""
from . import *  # noqa: F401,F403
from . import __all__  # noqa: F401
