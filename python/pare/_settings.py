"""Options by name as the library takes them: Python values to "name=value"."""
from __future__ import annotations

import json
import os
from typing import Any, List, Mapping, Optional, Sequence, Tuple, Union

from . import _declarations as d
from ._library import Error

ConfigList = Union[str, Sequence[Mapping[str, Any]]]


def value_text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (list, tuple)):
        return ",".join(value_text(v) for v in value)
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if hasattr(value, "item"):
        value = value.item()
    return repr(value) if isinstance(value, float) else str(value)


def pairs(options: Mapping[str, Any]) -> List[Tuple[str, str]]:
    return [(k, value_text(v)) for k, v in options.items() if v is not None]


def given(options: Mapping[str, Any]) -> Tuple[Any, int]:
    """An array of struct pare_given and its length."""
    all = pairs(options)
    array = (d.pare_given * max(1, len(all)))()
    for i, (name, text) in enumerate(all):
        array[i].name, array[i].text = name.encode(), os.fsencode(text)
    return array, len(all)


def words(options: Mapping[str, Any]) -> Optional[bytes]:
    """The same as words "name=value"; None: no options."""
    all = pairs(options)
    for name, text in all:
        if not text or any(c.isspace() for c in text):
            raise Error("option %s is '%s'; a value here must not be empty or contain blanks" % (name, text))
    return os.fsencode(" ".join("%s=%s" % p for p in all)) if all else None


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(k): _plain(v) for k, v in value.items()}
    if isinstance(value, (list, tuple, set)):
        return [_plain(v) for v in value]
    if hasattr(value, "item") and not isinstance(value, (str, bytes)):
        return value.item()
    return value


def config_json(config: Optional[ConfigList]) -> Optional[bytes]:
    """A config_list as JSON, or the name of a file as it is."""
    if config is None:
        return None
    if isinstance(config, (str, os.PathLike)):
        return os.fsencode(config)
    if isinstance(config, Mapping):
        raise Error("a config_list is a list of dictionaries; put the dictionary in a list")
    return json.dumps([_plain(dict(e)) for e in config]).encode()
