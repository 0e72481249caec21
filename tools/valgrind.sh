#!/bin/sh
# valgrind.sh - the demo's way through the commands under valgrind's memcheck, on few items.
#
# usage: tools/valgrind.sh BUILD_FOLDER
# An invalid read or write, a jump on what was never set, or memory that nobody can reach fails.
# valgrind has no AVX-512, so oneDNN takes AVX2.
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
