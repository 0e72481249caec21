"""`python -m pare ...`: the whole command, with plugins in Python.

    python -m pare prune model.onnx --plugin my.py --pruner mine --sparsity 0.5 -o small.onnx
"""
from __future__ import annotations

import ctypes
import importlib.util
import os
import signal
import sys
import traceback
from ctypes import byref, c_char_p, c_void_p, sizeof
from typing import Any, Dict, List

from . import _declarations as d
from ._algorithms import Algorithm, Pruner, Quantizer, Registry, fail_callback
from ._library import Error, fields_of, lib, take_pending

_HOST = fields_of(d.pare_host)


def algorithms_of(path: str, modules: Dict[str, Any]) -> List[Any]:
    """The subclasses of pare.Pruner and pare.Quantizer that a file defines, in its order."""
    path = os.path.abspath(path)
    if path not in modules:
        name = os.path.splitext(os.path.basename(path))[0]
        spec = importlib.util.spec_from_file_location(name, path)
        if spec is None or spec.loader is None:
            raise Error("is not a Python file")
        module = modules[path] = importlib.util.module_from_spec(spec)
        sys.modules.setdefault(name, module)
        sys.path.insert(0, os.path.dirname(path))        # modules next to it
        try:
            spec.loader.exec_module(module)
        except BaseException:
            del modules[path]
            raise
        finally:
            sys.path.remove(os.path.dirname(path))
    module = modules[path]
    found = [c for c in vars(module).values() if isinstance(c, type) and issubclass(c, Algorithm)
             and c.__module__ == module.__name__ and c not in (Algorithm, Pruner, Quantizer)]
    if not found:
        raise Error("defines no subclass of pare.Pruner or pare.Quantizer")
    return found


class Host:
    """struct pare_host: loads plugins for the command, and keeps what their descriptors point to."""

    def __init__(self) -> None:
        self.registries: List[Registry] = []
        self.modules: Dict[str, Any] = {}
        self.struct = d.pare_host(size=sizeof(d.pare_host))
        self.struct.load_plugin = _HOST["load_plugin"](self.load)

    def load(self, user: Any, registry: Any, path: bytes, err: Any) -> int:
        try:
            r = Registry.borrow(c_void_p(registry))
            self.registries.append(r)
            for c in algorithms_of(os.fsdecode(path), self.modules):
                r.add(c)
            return 0
        except Error as e:
            err.contents.code, err.contents.msg = d.PARE_ECONFIG, str(e).encode()[:511]
            return d.PARE_ECONFIG
        except BaseException as e:
            return fail_callback(err, e)


def main() -> int:
    words = [b"pare"] + [os.fsencode(w) for w in sys.argv[1:]]
    argv = (c_char_p * (len(words) + 1))(*words)
    host = Host()
    signal.signal(signal.SIGINT, signal.SIG_DFL)         # the command has its own handlers
    if hasattr(signal, "SIGPIPE"):
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    sys.stdout.flush()
    code = int(lib.pare_main(len(words), ctypes.cast(argv, ctypes.POINTER(c_char_p)), byref(host.struct)))
    e = take_pending()
    if e is not None:
        traceback.print_exception(type(e), e, e.__traceback__)
    return code or (1 if e is not None else 0)


if __name__ == "__main__":
    sys.exit(main())
