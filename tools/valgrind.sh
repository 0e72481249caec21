#!/bin/sh
# valgrind.sh - run the demo's commands under valgrind's memcheck, on few items.
#
# usage: tools/valgrind.sh BUILD_FOLDER
# Invalid reads and writes, jumps on uninitialized values and leaks are failures.
# valgrind does not support AVX-512, so oneDNN uses AVX2.
set -eu
cd "$(dirname "$0")/.."
pare=$(realpath "$1/pare")
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
cd "$tmp"
export OMP_NUM_THREADS=1 OMP_WAIT_POLICY=passive ONEDNN_MAX_CPU_ISA=AVX2 DNNL_MAX_CPU_ISA=AVX2

check() {
    valgrind -q --error-exitcode=99 --leak-check=full --show-leak-kinds=definite \
        --errors-for-leak-kinds=definite "$pare" "$@" >out 2>err ||
        { tail -60 err; echo "FAIL  pare $*"; exit 1; }
    echo "ok    pare $*"
}

few="--data digits --limit 32 --threads 1"
check new vgg7 --input 1,8,8 --width 0.125 -o m.onnx
check train m.onnx $few --epochs 1 --batch 16 --optimizer adam -o t.onnx
check prune t.onnx --pruner l1 --sparsity 0.5 -o p.onnx --masks p.pth
check speedup p.onnx --no-bench --threads 1 -o s.onnx
check quantize s.onnx --preset int8 $few -o q.onnx
check run q.onnx --threads 1 -o y.npz
check eval q.onnx $few
check inspect q.onnx
