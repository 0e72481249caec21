"""Find, load and check libpare; call its functions with errors as exceptions."""
from __future__ import annotations

import ctypes
import ctypes.util
import os
import threading
from ctypes import byref, c_void_p, sizeof
from typing import Any, Dict, Iterator, List, Optional

from . import _declarations as d

_CODES = {d.PARE_ENOMEM: "NOMEM", d.PARE_EIO: "IO", d.PARE_EFORMAT: "FORMAT", d.PARE_ESHAPE: "SHAPE",
          d.PARE_ECONFIG: "CONFIG", d.PARE_EUNSUPPORTED: "UNSUPPORTED", d.PARE_ELIMIT: "LIMIT",
          d.PARE_EDYNAMIC: "DYNAMIC", d.PARE_ECANCEL: "CANCEL"}


class Error(Exception):
    """An error of the library: its sentence, and its kind as `code` ("IO", "SHAPE", ...)."""

    def __init__(self, message: str, code: str = "CONFIG") -> None:
        super().__init__(message)
        self.code = code


class Canceled(Error):
    """The operation was canceled, by a progress function or by Ctrl-C."""


def _candidates() -> Iterator[str]:
    """Files to try: PARE_LIBRARY, the package, a build folder of the source tree, the system."""
    given = os.environ.get("PARE_LIBRARY")
    if given:
        yield given
        return
    here = os.path.dirname(os.path.abspath(__file__))
    names = ("libpare.so.%d" % d.PARE_VERSION_MAJOR, "libpare.so")
    for name in names:
        if os.path.exists(os.path.join(here, name)):
            yield os.path.join(here, name)
    tree = os.path.dirname(os.path.dirname(here))
    if os.path.exists(os.path.join(tree, "include", "pare", "pare.h")):
        built = os.path.join(tree, os.environ.get("BUILD", "build"), "libpare.so")
        if os.path.exists(built):
            yield built
    yield from names
    for prefix in ("/usr/local/lib", "/usr/lib"):
        if os.path.exists(os.path.join(prefix, names[0])):
            yield os.path.join(prefix, names[0])


def _open() -> ctypes.CDLL:
    tried: List[str] = []
    for path in _candidates():
        try:
            return ctypes.CDLL(path)
        except OSError as e:
            tried.append("%s (%s)" % (path, e))
    raise ImportError("libpare was not found; install it ('make install' or the package 'pare') or name the "
                      "file in PARE_LIBRARY; tried " + ", ".join(tried))


def _check(lib: ctypes.CDLL) -> None:
    """Refuse a library with another binary interface than the declarations have."""
    name = getattr(lib, "_name", "libpare")
    try:
        lib.pare_abi.restype = ctypes.c_uint
        abi = lib.pare_abi()
        size = lib.pare_struct_size
    except AttributeError as e:
        raise ImportError("%s is not libpare, or is older than this package: %s" % (name, e)) from None
    if abi != d.PARE_ABI:
        raise ImportError("%s has binary interface %d, but this package needs %d; install the library and "
                          "the package of the same version" % (name, abi, d.PARE_ABI))
    size.restype, size.argtypes = ctypes.c_size_t, [ctypes.c_char_p]
    for s in d.STRUCTS:
        if s._fields_[0][0] == "size":      # states its own size, so it may be longer or shorter
            continue
        got = size(s.__name__.encode())
        if got != sizeof(s):
            raise ImportError("struct %s has %d bytes in %s, but %d in this package; install the library "
                              "and the package of the same version" % (s.__name__, got, name, sizeof(s)))


def _bind(lib: ctypes.CDLL) -> None:
    for name, (result, arguments) in d.FUNCTIONS.items():
        try:
            f = getattr(lib, name)
        except AttributeError:
            raise ImportError("%s has no function %s, so it is older than this package; install the library "
                              "and the package of the same version" % (lib._name, name)) from None
        f.restype, f.argtypes = result, arguments


lib = _open()
_check(lib)
_bind(lib)


class _Pending(threading.local):
    """The exception that a Python callback raised, until the C function that called it returns."""

    error: Optional[BaseException] = None


_pending = _Pending()


def pend(e: BaseException) -> None:
    """Keep an exception of a callback for the call that is under way; the first one counts."""
    if _pending.error is None:
        _pending.error = e


def failed() -> bool:
    """Has a callback raised an exception?"""
    return _pending.error is not None


def take_pending() -> Optional[BaseException]:
    e, _pending.error = _pending.error, None
    return e


def raise_error(err: Any) -> None:
    """Raise the exception of a callback, or else the error that the library reports."""
    e = take_pending()
    if e is not None:
        raise e
    kind = Canceled if err.code == d.PARE_ECANCEL else Error
    raise kind(err.msg.decode("utf-8", "replace"), _CODES.get(err.code, "UNKNOWN"))


def call(name: str, *arguments: Any, made: Optional[c_void_p] = None) -> None:
    """Call a function whose last parameter is a struct pare_err; raise what it reports.  made: where it stores a model, which
    is freed if a callback failed and the function did not notice."""
    err = d.pare_err()
    if getattr(lib, name)(*arguments, byref(err)):
        raise_error(err)
    e = take_pending()
    if e is not None:
        if made:
            lib.pare_model_free(made)
        raise e


def fields_of(struct: Any) -> Dict[str, Any]:
    """The types of a struct's fields, by name."""
    return {f[0]: f[1] for f in struct._fields_}


def text(s: Optional[str]) -> Optional[bytes]:
    return None if s is None else os.fsencode(s)


def string(b: Optional[bytes]) -> str:
    return "" if b is None else b.decode("utf-8", "replace")


class Handle:
    """An object of the library, freed with its Python object or by close()."""

    _free = ""

    def __init__(self, pointer: c_void_p) -> None:
        self._pointer: Optional[c_void_p] = pointer

    @property
    def pointer(self) -> c_void_p:
        if not self._pointer:
            raise Error("this %s was closed" % type(self).__name__.lower())
        return self._pointer

    def close(self) -> None:
        pointer, self._pointer = getattr(self, "_pointer", None), None
        if pointer:
            getattr(lib, self._free)(pointer)

    def __del__(self) -> None:
        try:
            self.close()
        except Exception:                    # at the end of the interpreter modules may be gone
            pass


class Arena(Handle):
    """Memory for lists that the library returns."""

    _free = "pare_arena_free"

    def __init__(self) -> None:
        pointer = lib.pare_arena_new(0)
        if not pointer:
            raise MemoryError("no memory for an arena")
        super().__init__(c_void_p(pointer))

    def __enter__(self) -> Arena:
        return self

    def __exit__(self, *unused: Any) -> None:
        self.close()
