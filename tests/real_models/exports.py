#!/usr/bin/python3
"""exports.py - PyTorch exports of many architectures through pruning and speedup, compared with ONNX Runtime.

usage: exports.py BUILD_FOLDER [NAME | NAME-OPSET ...] [--bless] [--keep]

For each architecture and opset of export_architectures.py:
    inspect   exit code 0
    run       Pare = ONNX Runtime
    speedup   half of the filters masked, coupled layers together, then removed: the smaller file = the masked file in
              ONNX Runtime, at three shapes that differ in every free dimension; the columns are parameters before and after
    simplify  the file of export --simplify = the original in ONNX Runtime; the last column is the number of nodes left
exports_must_pass.txt lists each file with the largest share of parameters that may remain, in percent.
"""
import argparse
import json
import os
import shutil
import sys
import tempfile

import export_architectures as exports
from real_models import PRUNE, Failed, Ort, Subject, same

HERE = os.path.dirname(os.path.abspath(__file__))
LIST = os.path.join(HERE, "exports_must_pass.txt")
SAME = 1e-4             # relative L2 distance, as real_models.py measures it


def shrink(subject):
    """Parameters before and after, once the smaller file equals the masked one at all shapes."""
    masked, small = subject.file("masked"), subject.file("small")
    subject.sh("prune", subject.path, *PRUNE, "--dependency-aware", "--quiet", "-o", masked)
    told = json.loads(subject.sh("prune", subject.path, *PRUNE, "--dependency-aware", "--speedup", "--quiet", "--json",
                                 "-o", small))
    worst = 0.0
    for k, f in enumerate(subject.feeds):
        worst = max(worst, same(f"shape {k}", subject.ort.run(small, f), subject.ort.run(masked, f), SAME))
        subject.as_in_ort(small, k, SAME)
    told = told["speedup"]
    return told["parameters"], told["parameters_left"], worst


def take(name, opset, build, folder, work):
    """One line of the table: the text, and the share of parameters that remain."""
    path = os.path.join(folder, f"{name}-{opset}.onnx")
    exports.export(name, opset, path)
    ort = Ort(build, work)
    try:
        subject = Subject(f"{name}-{opset}", {"inputs": exports.ARCHITECTURES[name][1], "tolerance": SAME}, path, build, work, ort)
        subject.inspect()
        run, simple = subject.run(), subject.simplify()
        before, after, worst = shrink(subject)
    finally:
        ort.close()
    share = 100 * after / before
    return f"{'ok':>8}{run:>8}{before:>10}{after:>10}{share:>8.1f} %{worst:>10.0e}{simple:>11}", share


def read_list():
    with open(LIST) as f:
        return {line.split()[0]: float(line.split()[1]) for line in f if line.strip() and not line.startswith("#")}


def write_list(most):
    with open(LIST, "w") as f:
        f.write("# Files of export_architectures.py, and the percentage of parameters that may remain at most.\n")
        f.writelines(f"{name} {share:.1f}\n" for name, share in sorted(most.items()))


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("build")
    ap.add_argument("names", nargs="*", default=[])
    ap.add_argument("--bless", action="store_true", help="write what passes to exports_must_pass.txt")
    ap.add_argument("--keep", action="store_true", help="keep the written files")
    args = ap.parse_args()
    build = os.path.abspath(args.build)
    folder = os.path.join(build, "exports")
    os.makedirs(folder, exist_ok=True)
    work = tempfile.mkdtemp(prefix="exports-", dir=build)
    most, problems, passed = read_list(), [], 0
    print(f"{'model':18}{'inspect':>8}{'run':>8}{'before':>10}{'after':>10}{'left':>10}{'differs':>10}{'nodes':>11}")
    for name in exports.ARCHITECTURES:
        for opset in exports.OPSETS:
            key = f"{name}-{opset}"
            if args.names and name not in args.names and key not in args.names:
                continue
            if (name, opset) in exports.IMPOSSIBLE:
                print(f"{key:18} not exported: {exports.IMPOSSIBLE[name, opset]}")
                continue
            try:
                text, share = take(name, opset, build, folder, work)
            except Failed as e:
                print(f"{key:18} {'WRONG' if e.wrong else 'fails'}: {e}")
                if e.wrong or key in most:
                    problems.append(f"{key}: {e}")
                continue
            print(f"{key:18}{text}", flush=True)
            passed += 1
            if args.bless:
                most[key] = share
            elif share > most.get(key, 100) + 0.1:
                problems.append(f"{key}: {share:.1f} % of the parameters remain, {most[key]:.1f} % before")
    if args.bless:
        write_list(most)
    if not args.keep:
        shutil.rmtree(work)
    for p in problems:
        print("FAIL " + p)
    print(f"{passed} passed, {len(problems)} failed")
    return bool(problems)


if __name__ == "__main__":
    sys.exit(main())
