"""Which entry of a config_list applies to which layer."""
from __future__ import annotations

from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple


def select(config_list: Sequence[Mapping[str, Any]], layers: Sequence[Tuple[str, str, bool]]) -> Dict[str, Dict[str, Any]]:
    """The entry of each layer (name, type, is chosen by 'default'): the last one that matches; exclude removes it."""
    chosen: Dict[str, Dict[str, Any]] = {}
    for e in config_list:
        for key in ("op_types", "op_names", "op_partial_names"):
            if not isinstance(e.get(key, []), (list, tuple)):
                raise ValueError("%s is %r; expected a list of texts" % (key, e[key]))
        if not set(e) & {"op_types", "op_names", "op_partial_names"}:
            raise ValueError("an entry of config_list needs op_types, op_names or op_partial_names: %s" % dict(e))
    named = [n for e in config_list for n in e.get("op_names", [])]
    unknown = sorted(set(named) - {n for n, _, _ in layers})
    if unknown:
        raise ValueError("op_names has '%s', but the model has no such layer" % unknown[0])
    for name, kind, default in layers:
        found: Optional[Dict[str, Any]] = None
        for entry in config_list:
            types, names, parts = (entry.get(k) for k in ("op_types", "op_names", "op_partial_names"))
            if types is not None and not (kind in types or ("default" in types and default)):
                continue
            if names is not None and name not in names:
                continue
            if parts is not None and not any(p in name for p in parts):
                continue
            found = None if entry.get("exclude") else dict(entry)
        if found is not None:
            chosen[name] = found
    return chosen


def by_full_names(config_list: Sequence[Mapping[str, Any]], names: Sequence[str]) -> List[Dict[str, Any]]:
    """The config_list with op_names instead of op_partial_names, which the library does not have."""
    result = [dict(e) for e in config_list]
    for e in result:
        parts = e.pop("op_partial_names", None)
        if parts is not None:
            e["op_names"] = [n for n in names if any(p in n for p in parts) and n in e.get("op_names", [n])]
            if not e["op_names"]:
                raise ValueError("op_partial_names %s match no layer of the model" % list(parts))
    return result
