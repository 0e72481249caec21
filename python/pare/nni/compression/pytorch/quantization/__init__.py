"""The names of nni.compression.pytorch.quantization."""
from .. import *  # noqa: F401,F403
from .. import __all__  # noqa: F401
