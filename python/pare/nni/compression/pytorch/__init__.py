"""The names of nni.compression.pytorch."""
from ..torch import *  # noqa: F401,F403
from ..torch import __all__  # noqa: F401
