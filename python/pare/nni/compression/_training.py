"""What NNI's pruners train with in compress(): a function trainer(model, optimizer, criterion[, epoch]), a
finetuner(model), or a TorchEvaluator.  Only for a torch.nn.Module; the library trains a pare.Model."""
from __future__ import annotations

import contextlib
import inspect
from typing import Any, Callable, Dict, Iterable, Iterator, Optional

from ..._library import Error
from ._core import matches, patch_step, torch


class TorchEvaluator:
    """NNI's TorchEvaluator: training_func(model, optimizers, criterion, lr_schedulers, max_steps, max_epochs), and what it
    is called with."""

    def __init__(self, training_func: Callable[..., Any], optimizers: Any, criterion: Any, lr_schedulers: Any = None,
                 dummy_input: Any = None, evaluating_func: Optional[Callable[..., Any]] = None) -> None:
        self.training_func, self.optimizers, self.criterion = training_func, optimizers, criterion
        self.lr_schedulers, self.dummy_input, self.evaluating_func = lr_schedulers, dummy_input, evaluating_func

    @property
    def optimizer(self) -> Any:
        """The optimizer whose steps update masks."""
        return self.optimizers[0] if isinstance(self.optimizers, (list, tuple)) else self.optimizers

    def train(self, model: Any, max_steps: Optional[int] = None, max_epochs: Optional[int] = None) -> None:
        more = {"lr_schedulers": self.lr_schedulers, "max_steps": max_steps, "max_epochs": max_epochs}
        self.training_func(model, self.optimizers, self.criterion, **matches(more, self.training_func))

    def evaluate(self, model: Any) -> Any:
        return None if self.evaluating_func is None else self.evaluating_func(model)


def _call(function: Callable[..., Any], model: Any, known: Dict[str, Any]) -> None:
    """Call a trainer by the names of its parameters as NNI 2.0 does, or else by position as NNI 2.6."""
    parameters = list(inspect.signature(function).parameters.values())
    kinds = {p.kind for p in parameters}
    if inspect.Parameter.VAR_KEYWORD in kinds or all(p.name in known for p in parameters[1:]) and len(parameters) > 1:
        function(model, **matches(known, function))
        return
    needed = [p for p in parameters[1:] if p.default is p.empty and p.kind is not p.VAR_POSITIONAL]
    n = 2 if inspect.Parameter.VAR_POSITIONAL in kinds else len(needed)
    function(model, *list(known.values())[:n])


class Trainer:
    """Calls what the user passed, once for each epoch."""

    def __init__(self, name: str, options: Dict[str, Any], optimizer: Any) -> None:
        self.function, self.evaluator = options.get("trainer"), options.get("evaluator")
        self.finetuner, self.criterion = options.get("finetuner"), options.get("criterion")
        self.lr_scheduler = options.get("lr_scheduler")
        traced = options.get("traced_optimizer")
        self.optimizer = optimizer if traced is None else traced
        for key in ("trainer", "finetuner"):
            if options.get(key) is not None and not callable(options[key]):
                raise Error("the %s of %s is a %s; expected a function" % (key, name, type(options[key]).__name__))
        self.metric = None
        if self.evaluator is not None and not hasattr(self.evaluator, "training_func"):
            if not callable(self.evaluator):
                raise Error("the evaluator of %s is a %s; expected a TorchEvaluator of pare.nni, or a function of the model "
                            "that returns a metric" % (name, type(self.evaluator).__name__))
            self.metric, self.evaluator = self.evaluator, None
        if self.evaluator is not None:
            self.optimizer, self.metric = self.evaluator.optimizer, self.evaluator.evaluate
        if self.function is not None and self.optimizer is None:
            raise Error("%s has a trainer, so it needs an optimizer" % name)

    def trains(self) -> bool:
        return self.function is not None or self.evaluator is not None or self.finetuner is not None

    def epoch(self, model: Any, epoch: int, max_steps: Optional[int] = None) -> None:
        if self.evaluator is not None:
            self.evaluator.train(model, max_steps, None if max_steps else 1)
        elif self.function is not None:
            _call(self.function, model, {"optimizer": self.optimizer, "criterion": self.criterion, "epoch": epoch})
        elif self.finetuner is not None:
            self.finetuner(model)


@contextlib.contextmanager
def patched_step(optimizer: Any, step: Callable[..., Any]) -> Iterator[None]:
    """Let step(old step, ...) run as optimizer.step(...) for a while."""
    before = optimizer.__dict__.get("step")
    patch_step(optimizer, step)
    try:
        yield
    finally:
        optimizer.step = before                          # of the compressor


@contextlib.contextmanager
def l1_penalty(c: Any, scale: float) -> Iterator[None]:
    """Add scale * |weight| of all layers of a compressor to the loss: its gradient, before each step of the optimizer."""
    def with_penalty(step: Callable[..., Any], *arguments: Any, **kwargs: Any) -> Any:
        with torch.no_grad():
            for w in c.modules_wrapper:
                if w.module.weight.grad is not None:
                    w.module.weight.grad.add_(w.module.weight.sign(), alpha=scale)
        return step(*arguments, **kwargs)

    with patched_step(c.trainer.optimizer, with_penalty):
        yield


def train_slim(c: Any, epochs: int, scale: float) -> None:
    with l1_penalty(c, scale):
        for epoch in range(epochs):
            c.trainer.epoch(c.bound_model, epoch)


def train_observed(c: Any, batches: int) -> None:
    """One epoch, in which the optimizer's steps collect the statistics and then make the masks."""
    c.trainer.epoch(c.bound_model, 0, batches)
    for w in c.modules_wrapper:
        if c._seen.get(w.name, 0) < batches:
            raise Error("%s needs %d batches, but the trainer made %d steps with the model's gradients"
                        % (type(c).__name__, batches, c._seen.get(w.name, 0)))


def train_gradual(c: Any, iterations: Iterable[int], epochs: int) -> None:
    """Masks and training in turn; the last iteration has the sparsity of the config_list."""
    for i in iterations:
        c.set_iteration(i)
        for epoch in range(epochs):
            c.trainer.epoch(c.bound_model, epoch)
