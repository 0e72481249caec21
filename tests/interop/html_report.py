#!/usr/bin/env python3
"""html_report.py - check the HTML report in Chromium against run.json.

usage: html_report.py BUILD_FOLDER [SCREENSHOT_FOLDER]

    renders at desktop and phone size, in light and dark mode, without console messages
    draws charts; without scripts it has tables
    makes no network requests
    has the numbers of run.json in its tables
    shows names from files as text, never as markup
    is smaller than 1 MB
"""
import html.parser
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile

from interop import sh

failed = 0


def check(good, what):
    global failed
    print(("ok   " if good else "FAIL ") + what, flush=True)
    failed += not good


class Tables(html.parser.HTMLParser):
    """Rows of numbers by the class of their table, with the text of their first cell."""

    def __init__(self):
        super().__init__()
        self.table, self.rows, self.row, self.head, self.tags = None, {}, None, None, []

    def handle_starttag(self, tag, attrs):
        attrs = dict(attrs)
        self.tags.append((tag, attrs))
        if tag == "table":
            self.table = attrs.get("class")
        elif tag == "tr":
            self.row, self.head = [], ""
        elif tag == "td" and self.row is not None:
            self.row.append(float(attrs["data-v"]) if "data-v" in attrs else None)
        elif tag == "th":
            self.in_head = True

    def handle_endtag(self, tag):
        if tag == "th":
            self.in_head = False
        elif tag == "tr" and self.table:
            self.rows.setdefault(self.table, []).append((self.head.strip(), self.row))
        elif tag == "table":
            self.table = None

    def handle_data(self, data):
        if getattr(self, "in_head", False) and self.head is not None:
            self.head += data


def chromium(work, *args):
    """Standard output, console messages, and requested addresses."""
    net = os.path.join(work, "net.json")
    done = subprocess.run(
        ["chromium", "--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars",
         "--disable-background-networking", "--disable-component-update", "--no-first-run",
         "--disable-sync", "--disable-default-apps", "--host-resolver-rules=MAP * ~NOTFOUND",
         "--enable-logging=stderr", "--user-data-dir=" + os.path.join(work, "profile"),
         "--log-net-log=" + net, "--virtual-time-budget=4000", *args],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=240)
    console = [l for l in done.stderr.splitlines() if "CONSOLE" in l]
    requested = []
    if os.path.exists(net):
        with open(net, errors="replace") as f:
            # Requests for other files, for example an icon, are logged; the page is the only file.
            for line in f:
                if '"initiator":"file://' in line or '"initiator":"null"' in line:
                    requested += re.findall(r'"url":"(\w+:[^"]*)"', line)
    return done.stdout, console, [u for u in requested if not u.startswith(("file:", "data:"))]


def tables(page):
    t = Tables()
    t.feed(page)
    return t.rows


def same(a, b):
    return a == b or (a is not None and b is not None and abs(a - b) <= 1e-6 * abs(b))


def compare(page, run):
    t = Tables()
    t.feed(page)
    keys = ["accuracy", "bytes", "parameters", "macs", "seconds"]
    head = {name: row for name, row in t.rows["headline"]}
    for name, key in zip(["Accuracy", "File", "Parameters", "MACs", "Latency"], keys):
        if key in run["input"]:
            row = head.get(name, [None, None])
            check(same(row[0], run["input"][key]) and same(row[1], run["output"][key]),
                  "headline: %s is %s before, %s after" % (name, row[0], row[1]))
    models = [s["model"] for s in run["steps"] if "model" in s]
    rows = t.rows["steps"][1:]
    order = ["accuracy", "parameters", "macs", "zeros", "bytes", "seconds"]
    good = len(rows) == len(models) + 2
    for (name, row), model in zip(rows, [run["input"], *models, run["output"]]):
        good &= all(same(v, model.get(k)) for v, k in zip(row, order))
    check(good, "steps: %d rows equal those of run.json" % len(rows))
    rows = t.rows["layers"][1:]
    good = [name for name, _ in rows] == [l["name"] for l in run["layers"]]
    for (_, row), layer in zip(rows, run["layers"]):
        after = layer["after"] or {"parameters": 0, "macs": 0}
        snr = layer.get("quantized", {}).get("weight", {}).get("signal_to_noise_db")
        good &= same(row[3], after["parameters"]) and same(row[4], after["macs"])
        good &= same(row[5], layer.get("sparsity")) and same(row[7], snr)
    check(good, "layers: %d rows equal those of run.json" % len(rows))
    epochs = [e for s in run["steps"] for e in s["result"].get("history", [])]
    rows = [row for name, row in t.rows.get("training", []) if row]
    check(len(rows) == len(epochs) and all(
        same(r[1], e["loss"]) and same(r[4], e.get("valid_top1")) for r, e in zip(rows, epochs)),
        "training: %d epochs equal those of run.json" % len(rows))
    return t


def hostile(run):
    """The same run with names that contain markup."""
    evil = '</script><script>document.title="owned"</script><img src=x onerror=alert(1)>"\'&'
    text = json.loads(json.dumps(run))
    for model in text["input"], text["output"]:
        model["path"] = evil
    for s in text["steps"]:
        s["step"] = evil
    for layer in text["layers"]:
        layer["name"] = layer["type"] = layer["why"] = evil
    text["recipe"]["model"] = text["data"] = text["versions"]["pare"] = evil
    return text, evil


def main():
    build = os.path.abspath(sys.argv[1])
    shots = os.path.abspath(sys.argv[2]) if len(sys.argv) > 2 else None
    pare = os.path.join(build, "pare")
    work = tempfile.mkdtemp(prefix="page-", dir=build)
    try:
        os.chdir(work)
        with open("recipe.json", "w") as f:
            json.dump({"model": "m.onnx", "data": "digits", "output": "small.onnx",
                       "run": "run.json", "seconds": 0.1, "threads": 1, "steps": [
                           {"step": "sensitivity", "sparsities": [0.25, 0.5, 0.75]},
                           {"step": "prune", "pruner": "l1", "sparsity": 0.5},
                           {"step": "speedup"},
                           {"step": "distil", "epochs": 6, "optimizer": "adam", "batch": 32},
                           {"step": "quantize", "preset": "int8"}]}, f)
        sh(pare, "new", "lenet", "--input", "1,8,8", "-o", "n.onnx")
        sh(pare, "train", "n.onnx", "--data", "digits", "--epochs", "6", "--batch", "32",
           "--optimizer", "adam", "--quiet", "--threads", "1", "-o", "m.onnx")
        sh(pare, "compress", "recipe.json", "--quiet")
        sh(pare, "report", "run.json", "-o", "report.html")
        with open("run.json") as f:
            run = json.load(f)
        url = "file://" + os.path.join(work, "report.html")
        check(os.path.getsize("report.html") < 1e6,
              "the page has %d bytes" % os.path.getsize("report.html"))
        dom, console, requested = chromium(work, "--dump-dom", url)
        check(not console, "no console messages %s" % console[:2])
        check(not requested, "no network requests %s" % requested[:2])
        t = compare(dom, run)
        drawn = [a for tag, a in t.tags if tag == "canvas" and "width" in a]
        check(len(drawn) >= 4, "%d charts are drawn" % len(drawn))
        with open("report.html") as f:
            text = f.read()
        check(not re.search(r'(src|href)="(?!data:|#)', text), "no links to other files")
        plain = re.sub(r"<script>.*?</script>", "", text, flags=re.S)
        check(len(tables(plain)) >= 5, "without scripts there are tables")
        for name, size, dark in [("desktop", "1280,2400", False), ("phone", "390,3200", False),
                                 ("dark", "1280,2400", True)]:
            flags = ["--force-dark-mode", "--blink-settings=preferredColorScheme=0"] if dark else []
            _, console, _ = chromium(work, "--screenshot=" + name + ".png",
                                     "--window-size=" + size, *flags, url)
            check(os.path.exists(name + ".png") and os.path.getsize(name + ".png") > 20000 and
                  not console, "screenshot: " + name)
            if shots:
                shutil.copy(name + ".png", shots)
        text, evil = hostile(run)
        with open("evil.json", "w") as f:
            json.dump(text, f)
        sh(pare, "report", "evil.json", "-o", "evil.html")
        dom, console, requested = chromium(work, "--dump-dom", "file://" + os.path.join(work, "evil.html"))
        t = Tables()
        t.feed(dom)
        check(not any(tag == "img" for tag, _ in t.tags) and not requested and not console and
              "<title>Pare: &lt;/script&gt;" in dom, "names are shown as text")
        sh(pare, "report", "run.json", "evil.json", "-o", "both.html")
        dom, console, _ = chromium(work, "--dump-dom", "file://" + os.path.join(work, "both.html"))
        check("2 runs compared" in dom and not console and dom.count('class="steps"') == 2,
              "comparison of two runs")
    finally:
        shutil.rmtree(work)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
