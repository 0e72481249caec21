#!/usr/bin/python3
"""results.py - RESULTS.md from the newest row of `make bench` for each model, batch size and thread count.

    python3 bench/results.py --build build > bench/RESULTS.md
"""
import argparse
import glob
import json
import os
import platform
import statistics


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
            for r in json.load(f)["rows"]:
                if train or "group" in r:   # older files lack it
                    rows[r["model"], r["batch"], r["threads"]] = r
    return list(rows.values())


def mean(values):
    return f"{statistics.geometric_mean(values):.2f}" if values else "-"


def time_ratio(row, peer):
    """Pare's time divided by the peer's."""
    return row["pare"]["ms"] / row[peer]["ms"] if peer in row and "pare" in row else None


def cells(row, peers):
    out = []
    for p in peers:
        out.append(f"{row[p]['ms']:.2f}" if p in row else "-")
    for p in peers[1:]:
        value = time_ratio(row, p)
        out.append(f"{value:.2f}" if value else "-")
    return out


def table(rows, peers, titles):
    head = ["model", "batch", "threads"] + titles
    lines = ["| " + " | ".join(head) + " |", "|---|" + "---:|" * (len(head) - 1)]
    for r in rows:
        fields = [r["model"], str(r["batch"]), str(r["threads"])] + cells(r, peers)
        fields.append(f"{100 * r['other_cpu']:.0f} %")
        lines.append("| " + " | ".join(fields) + " |")
    return lines


def means(rows, peer, title):
    lines = []
    for batch in sorted({r["batch"] for r in rows}):
        for threads in sorted({r["threads"] for r in rows}):
            values = [time_ratio(r, peer) for r in rows
                      if r["batch"] == batch and r["threads"] == threads and time_ratio(r, peer)]
            if values:
                lines.append(f"- batch {batch}, {threads} thread{'s' * (threads > 1)}: "
                             f"{mean(values)} of {title} (of {len(values)}; "
                             f"worst {max(values):.2f})")
    values = [time_ratio(r, peer) for r in rows if time_ratio(r, peer)]
    if values:
        lines.append(f"- all: **{mean(values)}** of {title}")
    return lines


def inference(rows):
    plain = [r for r in rows if r["group"] == "torchvision" and not r["model"].endswith("-int8")]
    int8 = [r for r in rows if r["group"] == "torchvision" and r["model"].endswith("-int8")]
    ms = {(r["model"], r["batch"], r["threads"]): r["pare"]["ms"] for r in plain}
    titles = ["Pare ms", "ONNX Runtime ms", "PyTorch ms", "of ORT", "of PyTorch", "other load"]
    lines = ["## Inference, float32", ""]
    lines += means(plain, "ort", "ONNX Runtime's time") + means(plain, "torch", "PyTorch's time")
    lines += [""] + table(plain, ("pare", "ort", "torch"), titles)
    if int8:
        lines += ["", "## Inference, 8-bit integers (QDQ files of `pare quantize --preset int8`)", ""]
        lines += means(int8, "ort", "ONNX Runtime's int8 time")
        values = [r["pare"]["ms"] / ms[key] for r in int8
                  if (key := (r["model"][:-5], r["batch"], r["threads"])) in ms]
        lines.append(f"- {mean(values)} of Pare's float32 time, with Winograd convolutions")
        direct = [(r["model"], time_ratio(r, "direct")) for r in int8 if time_ratio(r, "direct")]
        if direct:
            names = ", ".join(dict.fromkeys(name[:-5] for name, _ in direct))
            lines.append(f"- {mean([v for _, v in direct])} of Pare's float32 time with direct convolutions "
                         f"({names}; worst {max(v for _, v in direct):.2f})")
        lines += [""] + table(int8, ("pare", "ort"), ["Pare ms", "ONNX Runtime ms", "of ORT",
                                                      "other load"])
    return lines


def start_ratio(row, what):
    start = row.get("start", {})
    return start["pare"][what] / start["ort"][what] if "ort" in start and "pare" in start else None


def real(rows):
    """Models that others ship, and the start of all."""
    lines = []
    for group, title in (("real", "float32 or float16, as shipped"), ("real int8", "8-bit integers")):
        part = [r for r in rows if r["group"] == group]
        if part:
            lines += ["", f"## Real models, {title}", ""] + means(part, "ort", "ONNX Runtime's time")
            lines += [""] + table(part, ("pare", "ort"), ["Pare ms", "ONNX Runtime ms", "of ORT", "other load"])
    part = [r for r in rows if start_ratio(r, "ms")]
    if part:
        lines += ["", "## Start: load, plan and run once", "",
                  f"- time: {mean([start_ratio(r, 'ms') for r in part])} of ONNX Runtime's (of {len(part)})",
                  f"- memory: {mean([start_ratio(r, 'mb') for r in part])} of ONNX Runtime's", "",
                  "| model | batch | threads | Pare ms | of ORT | Pare MB | of ORT |", "|---|---:|---:|---:|---:|---:|---:|"]
        for r in part:
            start = r["start"]["pare"]
            lines.append(f"| {r['model']} | {r['batch']} | {r['threads']} | {start['ms']:.1f} | {start_ratio(r, 'ms'):.2f} | "
                         f"{start['mb']:.0f} | {start_ratio(r, 'mb'):.2f} |")
    return lines


def training(rows):
    lines = ["", "## Training step, float32", ""]
    values = [time_ratio(r, "torch") for r in rows if time_ratio(r, "torch")]
    lines.append(f"- {mean(values)} of PyTorch's time (geometric mean of {len(values)})")
    memory = [f"{r['model']} {r['pare']['peak_mb'] / r['torch']['peak_mb']:.2f}" for r in rows
              if r["threads"] == 1 and "torch" in r]
    lines.append(f"- peak memory of the process as a fraction of PyTorch's: {', '.join(memory)}")
    lines += [""] + table(rows, ("pare", "torch"), ["Pare ms", "PyTorch ms", "of PyTorch",
                                                    "other load"])
    return lines


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
    print("# Results of `make bench`\n")
    print(f"Made by `make bench results`, on {os.cpu_count()} cores of an {cpu()}, a virtual machine")
    print("shared with others: read ratios, not times.  README.md in this folder describes the")
    print("method: alternating turns, the same files, inputs and threads, medians, each peer with its best")
    print("settings.  *of X* is Pare's time divided by X's: below 1 Pare is faster.  *other load* is how")
    print("much of a core was used by programs outside the benchmark.\n")
    rows = newest(args.build, False)
    print("\n".join(inference(rows) + real(rows)))
    rows = newest(args.build, True)
    if rows:
        print("\n".join(training(rows)))
    zeros = os.path.join(args.build, "bench", "sparse.txt")
    if os.path.exists(zeros):
        with open(zeros) as f:
            print(ZEROS + f.read() + "```")


if __name__ == "__main__":
    main()
