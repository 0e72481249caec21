"""NNI's model compression by name, over libpare."""
from __future__ import annotations

from typing import Any, TypeVar

_T = TypeVar("_T")


def trace(cls: _T, *unused: Any, **more: Any) -> _T:
    """NNI 2.x makes optimizers of traced classes again for wrapped models; parameters stay the same objects here, so the
    class itself is enough."""
    return cls
