"""Progress of long operations: a bar on terminals and in notebooks; Ctrl-C cancels."""
from __future__ import annotations

import ctypes
import signal
import sys
import threading
import time
from typing import Any, Callable, NamedTuple, Optional, Union

from . import _declarations as d
from ._library import failed, pend, string


class Progress(NamedTuple):
    """How far a long operation is: what it does, done of total (0: not known), seconds so far."""

    what: str
    done: int
    total: int
    seconds: float


ProgressFunction = Callable[[Progress], Optional[bool]]


def _notebook() -> Optional[Any]:
    """display() of the notebook that runs this; None: a terminal or a script."""
    module = sys.modules.get("IPython")
    shell = module.get_ipython() if module else None
    if shell is None or type(shell).__name__ != "ZMQInteractiveShell":
        return None
    from IPython.display import display          # type: ignore
    return display


class Bar:
    """A line on the terminal, or a widget of a notebook, for operations longer than half a second."""

    def __init__(self) -> None:
        self.shown, self.drawn, self.handle = False, 0.0, None
        self.display = _notebook()

    def __call__(self, p: Progress) -> bool:
        now = time.monotonic()
        if p.seconds < 0.5 or now - self.drawn < 0.1:
            return True
        self.drawn = now
        share = min(1.0, p.done / p.total) if p.total > 0 else 0.0
        text = "%s %d%s  %.0f s" % (p.what, p.done, "/%d" % p.total if p.total > 0 else "", p.seconds)
        if self.display:
            html = _Html("<progress max='1' value='%.3f'></progress> %s" % (share, text))
            if self.handle is None:
                self.handle = self.display(html, display_id=True)
            else:
                self.handle.update(html)
        else:
            filled = int(share * 24)
            sys.stderr.write("\r%-48s [%s%s]" % (text[:48], "#" * filled, " " * (24 - filled)))
            sys.stderr.flush()
        self.shown = True
        return True

    def close(self) -> None:
        if self.shown and not self.display:
            sys.stderr.write("\r" + " " * 76 + "\r")
            sys.stderr.flush()


class _Html:
    def __init__(self, text: str) -> None:
        self.text = text

    def _repr_html_(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return self.text


_stack: Any = None


def _own_signal_stack() -> None:
    """Python's signal handler must not write to the stack of the interrupted function: matrix products
    of oneDNN use the stack pointer as a data pointer.  CPython 3.10 and later runs it on the
    alternate stack, if there is one."""
    global _stack
    if _stack is not None or threading.current_thread() is not threading.main_thread():
        return

    class stack_t(ctypes.Structure):
        _fields_ = [("sp", ctypes.c_void_p), ("flags", ctypes.c_int), ("size", ctypes.c_size_t)]

    libc = ctypes.CDLL(None)
    old, disabled = stack_t(), 2
    if libc.sigaltstack(None, ctypes.byref(old)) or not old.flags & disabled:
        _stack = ()
        return
    memory = ctypes.create_string_buffer(1 << 17)
    _stack = (memory, stack_t(ctypes.addressof(memory), 0, len(memory)))
    libc.sigaltstack(ctypes.byref(_stack[1]), None)


class Watch:
    """`with Watch(progress) as fn:` gives the C function to pass as `progress`.  progress: True shows a
    bar on a terminal or in a notebook, False nothing, a function is called with a Progress and
    cancels by returning False.  Exceptions of it, and Ctrl-C, cancel the operation and come out of
    it; a second Ctrl-C ends the process."""

    def __init__(self, progress: Union[bool, None, ProgressFunction] = None) -> None:
        self.bar: Optional[Bar] = None
        if progress is None:
            progress = sys.stderr.isatty() or _notebook() is not None
        if progress is True:
            self.bar = Bar()
            progress = self.bar
        self.function = progress or None
        self.interrupted, self.installed = False, False
        self.fn = d.pare_progress_fn(self._step)

    def _step(self, user: Any, p: Any) -> bool:
        try:
            if self.interrupted:
                raise KeyboardInterrupt
            if failed():                         # a callback that returns nothing
                return False
            if self.function is None:            # still a place where signals arrive
                return True
            c = p.contents
            answer = self.function(Progress(string(c.what), c.done, c.total, c.seconds))
            return answer is not False and not self.interrupted
        except BaseException as e:
            self.interrupted = False
            pend(e)
            return False

    # An exception of a signal handler could be raised anywhere in a callback, also where nothing
    # catches it; so the handler only takes a note, which the next step reads.
    def _interrupt(self, number: int, frame: Any) -> None:
        self.interrupted = True
        signal.signal(signal.SIGINT, signal.SIG_DFL)

    def __enter__(self) -> Any:
        if threading.current_thread() is threading.main_thread():
            _own_signal_stack()
            if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
                signal.signal(signal.SIGINT, self._interrupt)
                self.installed = True
        return self.fn

    def __exit__(self, kind: Any = None, value: Any = None, trace: Any = None) -> None:
        if self.bar:
            self.bar.close()
        if self.installed:
            signal.signal(signal.SIGINT, signal.default_int_handler)
            self.installed = False
        if self.interrupted:
            self.interrupted = False
            if kind is None or kind.__name__ == "Canceled":
                raise KeyboardInterrupt
