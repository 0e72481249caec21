#!/usr/bin/python3
"""results.py - RESULTS.md from the newest row of `make bench` for each model, batch size and thread count.

    python3 bench/results.py --build build > bench/RESULTS.md
"""
import argparse
import glob
import json
import math
import os
import platform

import summary
from summary import mean, ratio, start_ratio, text


def cpu():
    with open("/proc/cpuinfo") as f:
        names = [line.split(":")[1].strip() for line in f if line.startswith("model name")]
    return names[0] if names else platform.machine()


def newest(build, train):
    """The newest row of each key, in the order in which keys were first measured."""
    rows = {}
    for path in sorted(glob.glob(os.path.join(build, "bench", "2*.json"))):
        if path.endswith("-train.json") != train:
            continue
        with open(path) as f:
            found = json.load(f)
        for r in found["rows"]:
            r.setdefault("time", found["time"])
            if train or "group" in r:   # older files lack it
                rows[r["model"], r["batch"], r["threads"]] = r
    return list(rows.values())


def table(head, lines):
    yield "| " + " | ".join(head) + " |"
    yield "|---|" + "---:|" * (len(head) - 1)
    for line in lines:
        yield "| " + " | ".join(line) + " |"


def pairs(rows):
    """Rows of the same model and batch: {threads: row}."""
    found = {}
    for r in rows:
        found.setdefault((r["model"], r["batch"]), {})[r["threads"]] = r
    return found


def cells(rows, columns):
    """A line for each model and batch; `columns` are (title, digits, function of a row), for each number of threads."""
    threads = sorted({r["threads"] for r in rows})
    used = [c for c in columns if any(not math.isnan(c[2](r)) for r in rows)]
    head = ["model", "batch"] + [f"{title}, {t} thr" for t in threads for title, _, _ in used]
    lines = []
    for (model, batch), by in pairs(rows).items():
        lines.append([model, str(batch)] + [text(f(by[t]), digits) if t in by else "-"
                                            for t in threads for _, digits, f in used])
    return table(head, lines)


def ms(kind):
    return lambda r: r[kind]["ms"] if kind in r else math.nan


def first_start(r, what):
    return r.get("start", {}).get("pare", {}).get(what, math.nan)


SPEED = (("ms", 2, ms("pare")), ("of ORT", 2, lambda r: ratio(r, "ort")), ("of PyTorch", 2, lambda r: ratio(r, "torch")),
         ("avx2/avx512", 2, lambda r: ratio(r, "pare", "avx2")), ("bf16/f32", 2, lambda r: ratio(r, "pare", "bf16")))
START = (("ms", 1, lambda r: first_start(r, "ms")), ("of ORT", 2, lambda r: start_ratio(r, "ms")),
         ("MB", 0, lambda r: first_start(r, "mb")), ("of ORT MB", 2, lambda r: start_ratio(r, "mb")))
TRAIN = (("ms", 2, ms("pare")), ("of PyTorch", 2, lambda r: ratio(r, "torch")),
         ("bf16/f32", 2, lambda r: ratio(r, "pare", "bf16")),
         ("bf16 of PyTorch", 2, lambda r: ratio(r, "torch", "bf16")),
         ("memory of PyTorch's", 2, lambda r: r["pare"]["peak_mb"] / r["torch"]["peak_mb"]
          if "torch" in r and "pare" in r else math.nan))


def overview(rows, trained):
    if not rows and not trained:
        return ["Nothing was measured yet."]
    lines = ["## Summary", ""]
    if rows:
        head, *rest = summary.table(rows)
        lines += ["Geometric means of ratios, without unit.", ""] + list(table(head, rest)) + [""]
        lines += ["- " + s for s in summary.sentences(rows)]
        start = [[start_ratio(r, what) for r in rows] for what in ("ms", "mb")]
        if not math.isnan(mean(start[0])):
            lines.append(f"- load, plan and first run take {mean(start[0]):.2f} of ONNX Runtime's time and "
                         f"{mean(start[1]):.2f} of its memory (geometric means of {len(summary.numbers(start[0]))})")
        busy = [summary.cell_name(r) for r in rows if r["other_cpu"] > 0.2]
        if busy:
            lines.append("- measured while other programs used more than a fifth of a core: " + ", ".join(busy))
    for kind, title in (("pare", "float32"), ("bf16", "bf16")):
        values = summary.numbers(ratio(r, "torch", kind) for r in trained)
        if values:
            lines.append(f"- a training step in {title} takes {mean(values):.2f} of PyTorch's float32 step (geometric mean of "
                         f"{len(values)}, worst {max(values):.2f})")
    values = [f"{summary.cell_name(r)} {ratio(r, 'pare', 'bf16'):.2f}" for r in trained if "bf16" in r]
    if values:
        lines.append("- a training step in bf16 as a fraction of Pare's float32 step: " + ", ".join(values))
    return lines


def details(rows, trained):
    lines = []
    for group in summary.GROUPS:
        part = [r for r in rows if summary.group_of(r) == group]
        if part:
            lines += ["", f"## Inference: {summary.TITLES[group]}", ""] + list(cells(part, SPEED))
    part = [r for r in rows if not math.isnan(start_ratio(r, "ms"))]
    if part:
        lines += ["", "## Start: load, plan and run once", ""] + list(cells(part, START))
    if trained:
        lines += ["", "## Training step", ""] + list(cells(trained, TRAIN))
    return lines


INTRO = """# Results of `make bench`

Made by `make bench results`, on {cores} cores of an {cpu}, a virtual machine shared with others: read
ratios, not times; measured from {first} to {last}.  README.md in this folder describes the method:
alternating turns, the same files, inputs and threads, medians, each peer with its best settings.  *of X*
is Pare's time divided by X's: below 1 Pare is faster.  *avx2/avx512* is Pare's time with `PARE_ISA=avx2`
divided by that without it.  Rows are named by model, batch and number of threads: lenet 1/2.
"""

ZEROS = """
## Blocks of zeros, float32 (`make bench-sparse`)

Speed of layers whose weights are zero in blocks of 4x1 and 8x1 or individually, as a multiple of dense layers; *direct* is
oneDNN's direct convolution, *dense* the kernel that Pare uses for dense weights, mostly Winograd.

```text
"""


def main():
    ap = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    ap.add_argument("--build", default="build", help="the build folder")
    args = ap.parse_args()
    rows, trained = newest(args.build, False), newest(args.build, True)
    dates = sorted(r["time"] for r in rows + trained) or ["-"]
    print(INTRO.format(cores=os.cpu_count(), cpu=cpu(), first=dates[0].replace("T", " "), last=dates[-1].replace("T", " ")))
    print("\n".join(overview(rows, trained) + details(rows, trained)))
    zeros = os.path.join(args.build, "bench", "sparse.txt")
    if os.path.exists(zeros):
        with open(zeros) as f:
            print(ZEROS + f.read() + "```")


if __name__ == "__main__":
    main()
