#!/bin/sh
# tsan.sh - threaded programs of a build folder under the thread sanitizer.
#
# usage: tools/tsan.sh BUILD_FOLDER TEST...
# The build uses clang and LLVM's OpenMP, whose Archer tells the sanitizer of fork, join and barriers;
# oneDNN, libgomp and other libraries without instrumentation are not looked at.
set -eu
cd "$(dirname "$0")/.."
build=$(realpath "$1")
shift
archer=$(find /usr/lib/llvm-*/lib -name libarcher.so 2>/dev/null | tail -1)
export OMP_TOOL_LIBRARIES="$archer" OMP_NUM_THREADS=4 PARE_GRAPHS=5
export TSAN_OPTIONS="ignore_noninstrumented_modules=1 halt_on_error=1 exitcode=66 suppressions=$PWD/tools/tsan.supp"
failed=0

try() {
    name=$1
    shift
    if "$@" >"$build/$name.log" 2>&1; then
        echo "ok    $name"
    else
        failed=1
        echo "FAIL  $name"
        grep -A25 'WARNING: ThreadSanitizer' "$build/$name.log" || tail -5 "$build/$name.log"
    fi
}

[ -n "$archer" ] || echo "tsan.sh: no libarcher.so: barriers of OpenMP are not understood" >&2
cd tests
for test; do
    [ ! -x "$build/tests/$test" ] || try "$test" "$build/tests/$test"
done
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
cd "$tmp"
pare=$build/pare
try new "$pare" new lenet --input 1,8,8 --width 0.5 -o m.onnx
try train "$pare" train m.onnx --data digits --limit 256 --epochs 2 --threads 4 -o t.onnx
try prune "$pare" prune m.onnx --pruner taylor --sparsity 0.5 --data digits --limit 128 --threads 4 -o p.onnx
try quantize "$pare" quantize m.onnx --preset int8 --data digits --limit 64 --threads 4 -o q.onnx
try run "$pare" run q.onnx --batch 16 --threads 4
exit $failed
