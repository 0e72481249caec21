"""A comparison of models as a table, for terminals and notebooks."""
from __future__ import annotations

import html
import statistics
import time
from typing import Any, Dict, List, Optional, Sequence

import numpy as np

from ._data import DataLike, data_of
from ._library import Error
from ._model import Model, load


def html_table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    cell = (lambda tag, v: "<%s>%s</%s>" % (tag, html.escape(str(v)), tag))
    return "<table><thead><tr>%s</tr></thead><tbody>%s</tbody></table>" % (
        "".join(cell("th", h) for h in head),
        "".join("<tr>%s</tr>" % "".join(cell("td", v) for v in row) for row in rows))


def text_table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Columns of a terminal: the first to the left, the others to the right."""
    table = [list(head), *rows]
    wide = [max(len(r[i]) for r in table) for i in range(len(table[0]))]
    return "\n".join("  ".join(v.ljust(w) if i == 0 else v.rjust(w) for i, (v, w) in enumerate(zip(r, wide)))
                     for r in table)


class ModelReport:
    """Rows of report(): name, bytes, params, macs, metrics, milliseconds."""

    def __init__(self, rows: List[Dict[str, Any]]) -> None:
        self.rows = rows
        self.metric = next((r["metric"] for r in rows if r["metric"]), None)

    def _table(self) -> List[List[str]]:
        return [[r["name"], "{:,}".format(r["bytes"]), "{:,}".format(r["params"]), "{:,.0f}".format(r["macs"]),
                 "-" if r["value"] is None else "%.4f" % r["value"],
                 "-" if r["ms"] is None else "%.3f" % r["ms"]] for r in self.rows]

    @property
    def _head(self) -> List[str]:
        return ["model", "bytes", "parameters", "MACs", self.metric or "metric", "ms"]

    def __repr__(self) -> str:
        return text_table(self._head, self._table())

    def _repr_html_(self) -> str:
        return html_table(self._head, self._table())

    def save(self, path: str) -> None:
        """Write the table as an HTML page."""
        with open(path, "w", encoding="utf-8") as f:
            f.write("<!DOCTYPE html><meta charset='utf-8'><title>Pare</title>" + self._repr_html_())


def _milliseconds(models: Sequence[Model], threads: int, seconds: float) -> List[Optional[float]]:
    """Median latency of one item; the models take turns."""
    feeds: List[Optional[Dict[str, np.ndarray]]] = []
    rng = np.random.default_rng(0)
    for m in models:
        feed = {p.name: rng.random([n if n > 0 else 1 for n in p.shape], dtype=np.float32)
                for p in m.inputs if p.dtype == "float32" and p.shape is not None}
        feeds.append(feed if len(feed) == len(m.inputs) else None)
    times: List[List[float]] = [[] for _ in models]
    end = time.perf_counter() + seconds * len(models)
    while time.perf_counter() < end or not all(t or f is None for t, f in zip(times, feeds)):
        for m, known, t in zip(models, feeds, times):
            if known is not None:
                start = time.perf_counter()
                m.run(known, threads=threads)
                t.append(1000 * (time.perf_counter() - start))
    return [statistics.median(t[1:] or t) if t else None for t in times]


def report(*models: Any, data: DataLike = None, names: Optional[Sequence[str]] = None, threads: int = 1,
           seconds: float = 0.2, progress: Any = None) -> ModelReport:
    """Compare models: size, parameters, MACs, the metric on data with labels, latency of one item."""
    if not models:
        raise Error("report needs at least one model")
    loaded = [load(m) for m in models]
    set_ = data_of(data, "test")
    latency = _milliseconds(loaded, threads, seconds) if seconds > 0 else [None] * len(loaded)
    rows = []
    for i, m in enumerate(loaded):
        metrics = m.evaluate(set_, progress=progress) if set_ is not None else None
        metric = next(iter(metrics), None) if metrics is not None else None
        name = names[i] if names else str(models[i]) if isinstance(models[i], str) else "model %d" % (i + 1)
        info = m.inspect()
        rows.append({"name": name, "bytes": len(m.to_bytes()), "params": info.params, "macs": info.macs,
                     "metric": metric, "value": metrics[metric] if metrics is not None and metric else None,
                     "ms": latency[i]})
    return ModelReport(rows)
