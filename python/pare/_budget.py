"""Compression to a budget of latency, size or multiply-accumulates, or to a loss of accuracy."""
from __future__ import annotations

import ctypes
import math
import os
import warnings
from ctypes import byref, c_void_p, sizeof
from typing import Any, List, Mapping, Optional, Union

from . import _declarations as d
from ._compress import Report, _metrics
from ._data import DataLike, split_pair
from ._library import Arena, Error, call, fields_of, pend, string, text
from ._model import Model, load
from ._progress import Watch
from ._report import html_table, text_table
from ._settings import words

Budget = Union[str, Mapping[str, Any]]

COSTS = ("latency", "size", "macs")              # as enum pare_budget_kind
_UNITS = {"latency": (1e-3, "ms"), "size": (1 / 1000, "KB"), "macs": (1e-6, "M")}
_SAY = fields_of(d.pare_compress_budget_opts)["say"]
# Fields that have an argument of compress(), or that callers do not fill in.
_TAKEN = ("size", "budget", "max_drop", "data", "valid", "train", "threads", "seed", "progress", "user", "say")


class BudgetReport(Report):
    """Numbers of a compression to a budget.  cost["latency"], cost["size"], cost["macs"]: before, after, predicted,
    limit (None: no limit), in microseconds, bytes, multiply-accumulates; layers: channels and format of each layer."""

    @property
    def met(self) -> bool:
        """The budget and the bound of accuracy hold."""
        return bool(self["budget_met"] and self["drop_met"])

    def _costs(self) -> List[List[str]]:
        rows = []
        for name, c in self["cost"].items():
            scale, unit = _UNITS[name]
            rows.append([name + " " + unit] + ["-" if v is None else "%.4g" % (v * scale)
                                               for v in (c.before, c.after, c.predicted, c.limit)] +
                        ["%.3f" % (c.after / c.before) if c.before > 0 else "-"])
        return rows

    def _layers(self) -> List[List[str]]:
        return [[l.name, l.format, "%d of %d" % (l.in_left, l.inputs), "%d of %d" % (l.out_left, l.out)]
                for l in self["layers"]]

    def _accuracy(self) -> str:
        parts = ["budget %s" % ("met" if self["budget_met"] else "missed")]
        if self["held_before"] is not None:
            parts.append("%.2f %% before and %.2f %% after on %d held-out items"
                         % (100 * self["held_before"], 100 * self["held_after"], self["held"]))
        if self["before"] is not None and self["before"].accuracy is not None:
            parts.append("%.2f %% and %.2f %% on %d items for validation"
                         % (100 * self["before"].accuracy, 100 * self["after"].accuracy, self["before"].n))
        return "; ".join(parts)

    _COST_HEAD = ["", "before", "after", "predicted", "limit", "part"]
    _LAYER_HEAD = ["layer", "format", "inputs", "outputs"]

    def __repr__(self) -> str:
        return "\n\n".join([text_table(self._LAYER_HEAD, self._layers()), text_table(self._COST_HEAD, self._costs()),
                            self._accuracy()])

    def _repr_html_(self) -> str:
        return "%s%s<p>%s</p>" % (html_table(self._LAYER_HEAD, self._layers()),
                                  html_table(self._COST_HEAD, self._costs()), self._accuracy())


def budget_text(budget: Optional[Budget]) -> Optional[bytes]:
    """A budget as the library takes it: "latency=0.5 size=400KB"."""
    if budget is None or isinstance(budget, str):
        return text(budget)
    if not isinstance(budget, Mapping):
        raise Error("a budget is a text or a dictionary, budget='latency=0.5' or {'latency': 0.5}, not %r" % (budget,))
    return words(budget)


def plain(s: Any) -> Report:
    """The numbers and texts of a struct, by name; pointers are left out.  NaN and infinity are None."""
    result = Report()
    for name, *_ in s._fields_:
        value = getattr(s, name)
        if isinstance(value, bytes):
            result[name] = string(value)
        elif isinstance(value, float):
            result[name] = value if math.isfinite(value) else None
        elif isinstance(value, (int, bool)):
            result[name] = value
    return result


def _budget_report(r: Any) -> BudgetReport:
    report = BudgetReport(plain(r))
    report["cost"] = Report((name, plain(r.cost[i])) for i, name in enumerate(COSTS))
    report["layers"] = []
    for l in r.layer[:r.n_layers]:
        entry = plain(l)
        entry["inputs"] = entry.pop("in")
        report["layers"].append(entry)
    report["before"], report["after"] = _metrics(r.before), _metrics(r.after)
    for name in ("held_before", "held_after"):
        report[name] = None if report[name] is None or report[name] < 0 else report[name]
    report["paired"], report["final"] = (plain(p) if p.n > 0 else None for p in (r.paired, r.final))
    return report


def compress_budget(model: Any, *, data: DataLike, valid: DataLike = None, budget: Optional[Budget] = None,
                    max_drop: float = 0, train: Optional[Mapping[str, Any]] = None, threads: int = 0, seed: int = 0,
                    progress: Any = None, say: Any = None, **options: Any) -> Model:
    source = load(model).copy()
    o, out, r = d.pare_compress_budget_opts(), c_void_p(), d.pare_compress_budget_report()
    first, second = split_pair(data, valid)
    if first is None:
        raise Error("compress needs data")
    fields = {name: kind for name, kind in fields_of(o).items() if name not in _TAKEN}
    for name, value in options.items():
        if name not in fields:
            raise Error("compress to a budget has no option '%s'; it has %s" % (name, ", ".join(sorted(fields))))
        if value is not None:
            setattr(o, name, text(os.fspath(value)) if fields[name] is ctypes.c_char_p else value)
    o.size, o.budget, o.max_drop = sizeof(o), budget_text(budget), max_drop
    o.data, o.valid = first.pointer, second.pointer if second else None
    o.train, o.threads, o.seed = words(train) if train else None, threads, seed

    def line(user: Any, words_: bytes) -> None:
        try:
            say(string(words_))
        except BaseException as e:
            pend(e)

    if say is not None:
        o.say = _SAY(line)
    with Arena() as a, Watch(progress) as fn:
        o.progress = fn
        call("pare_compress_budget", source.pointer, byref(o), a.pointer, byref(out), byref(r), made=out)
        report = _budget_report(r)
    result = Model(out, source) if out else source
    result.report = report
    if not report.met and not o.dry_run:
        warnings.warn("the %s is missed; this is the nearest model, see its report"
                      % ("budget" if not report["budget_met"] else "bound of the accuracy"), stacklevel=3)
    return result
