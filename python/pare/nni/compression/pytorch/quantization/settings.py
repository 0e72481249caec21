"""set_quant_scheme_dtype() of nni.compression.pytorch.quantization.settings."""
from __future__ import annotations

from ..._builtin import QAT_DEFAULTS


def set_quant_scheme_dtype(quant_type: str, new_scheme: str = "", new_dtype: str = "") -> None:
    """The scheme and integer type of QAT_Quantizers that are made from now on, where their config_list has none."""
    if quant_type not in ("weight", "input", "output"):
        raise ValueError("quant_type is '%s'; expected weight, input or output" % quant_type)
    for key, value in (("quant_scheme", new_scheme), ("quant_dtype", new_dtype)):
        if value:
            QAT_DEFAULTS.setdefault(key, {})[quant_type] = value
