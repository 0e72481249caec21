#!/usr/bin/python3
"""sparse.py - measure block-sparse weights: single layers, then a whole pruned network.

usage: sparse.py --build FOLDER [--threads "1 2"] [--rounds 15] [--layer PART-OF-NAME] [--model FILE]

Layers are those of bench_sparse.c.  The network (resnet18 of tools/export_models.py, if it was exported)
is pruned by `pare prune --pruner level` with granularity block_4x1, block_8x1 and element, all
convolutions except the first; `pare bench` measures all files alternately.  The output is also written to
FOLDER/bench/sparse.txt for `make results`.
"""
import argparse
import os
import subprocess

KINDS = ["block_4x1", "block_8x1", "element"]
CONFIG = """[{"op_types": ["Conv"], "granularity": "%s", "sparsity": %g},
             {"exclude": true, "op_names": ["re:^/?conv1.*"]}]"""


def prune(pare, model, folder):
    """Write the pruned files and return their paths."""
    files = []
    for kind in KINDS:
        for sparsity in (0.7, 0.9):
            files.append(os.path.join(folder, f"{kind}-{sparsity}.onnx"))
            subprocess.run([pare, "prune", model, "--pruner", "level", "--config",
                            CONFIG % (kind, sparsity), "-q", "-o", files[-1]], check=True)
    return files


def run_logged(command, log, folder):
    """Run a command in the folder; print and log its output."""
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
                          cwd=folder) as p:
        for line in p.stdout:
            print(line, end="", flush=True)
            log.write(line)
    if p.returncode:
        raise SystemExit(p.returncode)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", required=True)
    parser.add_argument("--threads", default="1 2")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--layer")
    parser.add_argument("--model")
    args = parser.parse_args()
    args.build = os.path.abspath(args.build)
    pare = os.path.join(args.build, "pare")
    folder = os.path.join(args.build, "bench", "sparse")
    model = args.model or os.path.join(args.build, "models", "resnet18.onnx")
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(args.build, "bench", "sparse.txt"), "w") as log:
        for threads in args.threads.split():
            run_logged([os.path.join(args.build, "bench", "bench_sparse"), threads, str(args.rounds)] +
                 ([args.layer] if args.layer else []), log, folder)
        if args.layer or not os.path.exists(model):
            return
        files = [os.path.basename(f) for f in prune(pare, model, folder)]
        for threads in args.threads.split():
            run_logged([pare, "bench", "--threads", threads, "--repeat", str(args.rounds * 3),
                  os.path.relpath(model, folder)] + files, log, folder)


if __name__ == "__main__":
    main()
