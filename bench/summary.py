"""summary.py - ratios and geometric means of the rows that run.py writes, for run.py and results.py."""
import math
import statistics

INT8 = "-int8"
GROUPS = ("torchvision", "torchvision int8", "real", "real int8")
TITLES = {"torchvision": "torchvision, float32", "torchvision int8": "torchvision, int8",
          "real": "real models, as shipped", "real int8": "real models, int8"}


def ratio(row, kind, base="pare"):
    """The time of `base` divided by that of `kind`; NaN: not measured."""
    return row[base]["ms"] / row[kind]["ms"] if kind in row and base in row else math.nan


def start_ratio(row, what):
    """Pare's milliseconds ("ms") or megabytes ("mb") of the start divided by ONNX Runtime's."""
    start = row.get("start", {})
    return start["pare"][what] / start["ort"][what] if "ort" in start and "pare" in start else math.nan


COLUMNS = {             # of the table of means
    "of ORT": lambda r: ratio(r, "ort"),
    "of PyTorch": lambda r: ratio(r, "torch"),
    "start": lambda r: start_ratio(r, "ms"),
    "memory": lambda r: start_ratio(r, "mb"),
    "avx2/avx512": lambda r: ratio(r, "pare", "avx2"),
    "bf16/f32": lambda r: ratio(r, "pare", "bf16"),
}


def group_of(row):
    return "torchvision int8" if row["group"] == "torchvision" and row["model"].endswith(INT8) else row["group"]


def numbers(values):
    return [v for v in values if not math.isnan(v)]


def mean(values):
    values = numbers(values)
    return statistics.geometric_mean(values) if values else math.nan


def text(value, digits=2):
    return "-" if math.isnan(value) else f"{value:.{digits}f}"


def cell_name(row):
    return f"{row['model']} {row['batch']}/{row['threads']}"


def table(rows):
    """Lines of texts: geometric means per group and number of threads, and the row that is worst compared with ONNX
    Runtime, as model batch/threads."""
    lines = [["", "threads", "rows", *COLUMNS, "worst of ORT", "above 1"]]
    for group in GROUPS:
        of_group = [r for r in rows if group_of(r) == group]
        counts = sorted({r["threads"] for r in of_group})
        for threads in counts + ([0] if len(counts) > 1 else []):
            part = [r for r in of_group if threads in (0, r["threads"])]
            compared = [r for r in part if not math.isnan(ratio(r, "ort"))]
            worst = max(compared, key=lambda r: ratio(r, "ort"), default=None)
            lines.append([TITLES[group], str(threads or "all"), str(len(part)),
                          *(text(mean(f(r) for r in part)) for f in COLUMNS.values()),
                          f"{ratio(worst, 'ort'):.2f} {cell_name(worst)}" if worst else "-",
                          str(sum(ratio(r, "ort") > 1 for r in compared))])
    return lines


def times(rows):
    return {(r["model"], r["batch"], r["threads"]): r["pare"]["ms"] for r in rows if "pare" in r}


def int8_ratios(rows):
    """Pare's int8 times divided by its float32 times; by its float32 times with direct convolutions."""
    ms = times(rows)
    base = {(model + INT8, *key): v for (model, *key), v in ms.items()}
    return [v / base[key] for key, v in ms.items() if key in base], numbers(ratio(r, "direct") for r in rows)


def slower_with_two(rows):
    """Rows whose time with 2 threads exceeds that with 1, with the ratio; None: nothing was measured with both."""
    ms = times(rows)
    pairs = [(m, b, v / ms[m, b, 1]) for (m, b, t), v in ms.items() if t == 2 and (m, b, 1) in ms]
    return [f"{m} {b} ({r:.2f})" for m, b, r in pairs if r > 1] if pairs else None


def sentences(rows):
    """What the table does not show."""
    to_float, to_direct = int8_ratios(rows)
    found = []
    for values, title in ((to_float, "Pare's float32"), (to_direct, "Pare's float32 with direct convolutions")):
        if values:
            found.append(f"int8 takes {mean(values):.2f} of the time of {title} (geometric mean of {len(values)})")
    slower = slower_with_two(rows)
    if slower is not None:
        found.append("slower with 2 threads than with 1: " + (", ".join(slower) or "none"))
    above = [f"{cell_name(r)} ({ratio(r, 'ort'):.2f})" for r in rows if ratio(r, "ort") > 1]
    if any("ort" in r for r in rows):
        found.append("slower than ONNX Runtime: " + (", ".join(above) or "none"))
    bf16 = [f"{cell_name(r)} {ratio(r, 'pare', 'bf16'):.2f}" for r in rows if "bf16" in r]
    if bf16:
        found.append("bf16 as a fraction of Pare's float32 time: " + ", ".join(bf16))
    wide = [f"{cell_name(r)} ({ratio(r, 'pare', 'avx2'):.2f})" for r in rows if ratio(r, "pare", "avx2") > 2.2]
    if any("avx2" in r for r in rows):
        found.append("avx2 takes more than 2.2 times as long as avx512: " + (", ".join(wide) or "none"))
    return found
