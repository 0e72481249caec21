"""Training: the whole of it in one call, or a loop of your own."""
from __future__ import annotations

from ctypes import byref, c_double, c_int64, c_void_p, sizeof
from typing import Any, Callable, List, NamedTuple, Optional, Tuple

import numpy as np

from . import _declarations as d
from ._data import DataLike, split_pair
from ._library import Error, Handle, call, pend, string
from ._model import Model
from ._progress import Watch
from ._settings import given
from ._tensor import as_array, fill, tensor, view


class Epoch(NamedTuple):
    """The result of an epoch; accuracies in [0, 1], None: no classes, or not validated."""

    epoch: int
    loss: float
    accuracy: Optional[float]
    valid_loss: Optional[float]
    valid_accuracy: Optional[float]
    metric: Optional[str]
    value: Optional[float]


def _epoch(r: Any) -> Epoch:
    share = (lambda v: v if v >= 0 else None)
    name = string(r.valid_metric.name) or None
    return Epoch(r.epoch, r.loss, share(r.accuracy), r.valid_loss if r.validated else None,
                 share(r.valid_accuracy) if r.validated else None, name,
                 r.valid_metric.value if name else None)


_EPOCH_FN = d.CFUNCTYPE(d.c_bool, c_void_p, d.POINTER(d.pare_epoch_result))


class Training(Handle):
    """A training of a model: run() for all of it, or step(x, y) for batches of your own.  Options are
    those of `pare train`: epochs=3, optimizer="sgd", lr=0.01, checkpoint="c.safetensors", ..."""

    _free = "pare_training_free"

    def __init__(self, model: Model, data: DataLike = None, valid: DataLike = None, *,
                 teacher: Optional[Model] = None, progress: Any = None, epoch_steps: int = 0,
                 **options: Any) -> None:
        self.model, self.teacher = model, teacher
        self.data, self.valid = split_pair(data, valid)
        self._watch = Watch(progress)
        o, pointer = d.pare_training_opts(), c_void_p()
        o.size, o.epoch_steps = sizeof(o), epoch_steps
        o.data = self.data.pointer if self.data else None
        o.valid = self.valid.pointer if self.valid else None
        o.teacher = teacher.pointer if teacher else None
        self._given, o.n_given = given(options)          # the library keeps these texts
        o.given = self._given
        o.progress = self._watch.fn
        call("pare_training_new", model.pointer, byref(o), byref(pointer))
        super().__init__(pointer)

    def run(self, on_epoch: Optional[Callable[[Epoch], Any]] = None) -> List[Epoch]:
        """All epochs.  on_epoch(e) is called after each and ends the training by returning False.
        Ctrl-C ends it, too: the option `checkpoint` names the file to resume from (resume=True)."""
        history: List[Epoch] = []

        def each(user: Any, r: Any) -> bool:
            try:
                history.append(_epoch(r.contents))
                return on_epoch is None or on_epoch(history[-1]) is not False
            except BaseException as e:
                pend(e)
                return False

        fn = _EPOCH_FN(each)
        try:
            with self._watch:
                call("pare_training_run", self.pointer, fn, None)
        finally:
            self.model._changed()
        return history

    def validate(self) -> Epoch:
        r = d.pare_epoch_result()
        call("pare_training_validate", self.pointer, byref(r))
        return _epoch(r)

    def recalibrate(self, batches: int = 10) -> int:
        """Re-estimate the statistics of batch normalizations; the number of batches that were used."""
        done = c_int64()
        call("pare_training_recalibrate", self.pointer, batches, byref(done))
        self.model._changed()
        return done.value

    # ---- a loop of your own ----
    def next(self) -> Optional[Tuple[np.ndarray, np.ndarray]]:
        """The next batch of the data; None at the end of an epoch."""
        x, y = d.pare_tensor(), d.pare_tensor()
        call("pare_training_next", self.pointer, byref(x), byref(y))
        return (view(x, self), view(y, self)) if x.data else None

    def forward(self, *inputs: Any) -> np.ndarray:
        """The first output for a batch; a view that is valid until the next call."""
        tensors = (d.pare_tensor * len(inputs))()
        self._in = [fill(t, _number(a)) for t, a in zip(tensors, inputs)]
        out = d.pare_tensor()
        call("pare_training_forward", self.pointer, tensors, len(inputs), byref(out))
        self.model._changed()                            # running statistics
        return view(out, self)

    def loss(self, y: Any) -> float:
        self._y = tensor(_number(y), "the labels")
        loss = c_double()
        call("pare_training_loss", self.pointer, byref(self._y), byref(loss))
        return loss.value

    def backward(self) -> None:
        call("pare_training_backward", self.pointer)

    def optimize(self) -> None:
        call("pare_training_optimize", self.pointer)
        self.model._changed()

    def finish_step(self) -> None:
        """Call the hooks of a compression after an optimizer step."""
        call("pare_training_step", self.pointer)
        self.model._changed()

    def update_epoch(self, epoch: int) -> None:
        call("pare_training_update_epoch", self.pointer, epoch)
        self.model._changed()

    def step(self, x: Any, y: Any) -> float:
        """One step: forward, loss, backward, optimizer, hooks.  x may be a tuple of inputs."""
        self.forward(*(x if isinstance(x, tuple) else (x,)))
        loss = self.loss(y)
        self.backward()
        self.optimize()
        self.finish_step()
        return loss


def _number(a: Any) -> np.ndarray:
    a = as_array(a)
    if a.dtype == np.float64:
        return a.astype(np.float32)
    return a.astype(np.int64) if a.dtype in (np.dtype(np.int32), np.dtype(np.uint8)) and a.ndim == 1 else a


def train(model: Model, data: DataLike, valid: DataLike = None, *,
          on_epoch: Optional[Callable[[Epoch], Any]] = None, **options: Any) -> List[Epoch]:
    """Train a model in place; returns the results of its epochs."""
    if data is None:
        raise Error("training needs data")
    training = Training(model, data, valid, **options)
    try:
        return training.run(on_epoch)
    finally:
        training.close()
