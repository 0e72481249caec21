"""count_flops_params() of nni.compression.pytorch.utils.counter."""
from __future__ import annotations

from typing import Any, Dict, List, Tuple

from ....._library import Error
from ....._model import load
from ... import _core as core


def count_flops_params(model: Any, x: Any, custom_ops: Any = None, verbose: bool = True,
                       mode: str = "default") -> Tuple[int, int, List[Dict[str, Any]]]:
    """Multiply-accumulates of one item and parameters of convolutions and linear layers, and a row for each layer.
    x: an example of the inputs, or its shape."""
    if custom_ops is not None or mode != "default":
        raise Error("count_flops_params() counts convolutions and linear layers alone; use pare.load(model, x).inspect()",
                    "UNSUPPORTED")
    if core.is_torch(model):
        shape = isinstance(x, (tuple, list)) and all(isinstance(n, int) for n in x)
        example = x if isinstance(x, tuple) and not shape else (x,)
        loaded = load(model, input_shape=tuple(x)) if shape else load(model, *example)
    else:
        loaded = load(model)
    rows: List[Dict[str, Any]] = [{"name": l.name, "module_type": l.type, "weight_shape": tuple(loaded[l.weight].shape), "flops": int(l.macs),
             "params": l.params} for l in loaded.layers if l.type.startswith(("Conv", "Linear")) and l.weight]
    unknown = [r["name"] for r in rows if r["flops"] < 0]
    if unknown:
        raise Error("the shapes of layer '%s' are not known, so its multiply-accumulates are not" % unknown[0], "SHAPE")
    flops, params = sum(r["flops"] for r in rows), sum(r["params"] for r in rows)
    if verbose:
        wide = max([5] + [len(r["name"]) for r in rows])
        for r in rows:
            print("%-*s  %-16s %-20s %14d %12d" % (wide, r["name"], r["module_type"], r["weight_shape"], r["flops"],
                                                   r["params"]))
        print("FLOPs total: %d\n#Params total: %d" % (flops, params))
    return flops, params, rows
