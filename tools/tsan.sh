#!/bin/sh
# tsan.sh - run the threaded tests of a build folder under the thread sanitizer.
#
# usage: tools/tsan.sh BUILD_FOLDER TEST...
# The build uses clang and LLVM's OpenMP, whose Archer reports fork, join and barriers to the sanitizer;
# oneDNN, libgomp and other libraries without instrumentation are not checked.  At the end, every
# file of src/ with parallel regions must have run one on several threads, unless `exempt` lists it.
set -eu
cd "$(dirname "$0")/.."
source=$PWD
build=$(realpath "$1")
shift
archer=$(find /usr/lib/llvm-*/lib -name libarcher.so 2>/dev/null | tail -1)
export OMP_TOOL_LIBRARIES="$build/omp_regions.so" OMP_REGIONS="$build/omp_regions.txt" OMP_REGIONS_NEXT="$archer"
export OMP_NUM_THREADS=4 PARE_GRAPHS=5 PARE_CACHE=
export TSAN_OPTIONS="ignore_noninstrumented_modules=1 halt_on_error=1 exitcode=66 suppressions=$PWD/tools/tsan.supp"
clang -O1 -D_GNU_SOURCE -shared -fPIC tools/omp_regions.c -o "$build/omp_regions.so"
rm -f "$OMP_REGIONS"
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

[ -n "$archer" ] || echo "tsan.sh: no libarcher.so: OpenMP barriers are not tracked" >&2
cd tests
for test; do
    [ ! -x "$build/tests/$test" ] || try "$test" "$build/tests/$test"
done
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
cd "$tmp"
pare=$build/pare
digits="--data digits --threads 4 --limit"
try new "$pare" new lenet --input 1,8,8 --width 0.5 -o m.onnx
try train "$pare" train m.onnx $digits 256 --epochs 2 -o t.onnx
try prune "$pare" prune m.onnx --pruner taylor --sparsity 0.5 $digits 128 -o p.onnx
try quantize "$pare" quantize m.onnx --preset int8 $digits 64 -o q.onnx
try run "$pare" run q.onnx --batch 16 --threads 4

# Networks of every kind in training and inference, by micro-batches and by parallel kernels.
try new_vit "$pare" new vit-tiny --input 1,8,8 -o v.onnx
try train_vit "$pare" train v.onnx $digits 16 --batch 16 --epochs 1 -o o.onnx
try new_large "$pare" new vit-tiny --input 1,32,32 -o v.onnx
try run_large "$pare" run v.onnx --threads 4
try w4 "$pare" quantize v.onnx --preset w4 -o o.onnx
try run_w4 "$pare" run o.onnx --threads 4
try sparse "$pare" prune v.onnx --pruner level --mode global --sparsity 0.95 -o o.onnx
try run_sparse "$pare" run o.onnx --threads 4
try new_mobile "$pare" new mobilenetv2-cifar --input 1,8,8 -o b.onnx
try train_mobile "$pare" train b.onnx $digits 16 --batch 16 --epochs 1 -o o.onnx
try run_mobile "$pare" run b.onnx --threads 4
try int8_mobile "$pare" quantize b.onnx --quantizer qat --preset int8 $digits 16 --batch 16 --epochs 1 -o o.onnx
try run_int8 "$pare" run o.onnx --threads 4
try run_microbatches "$pare" run o.onnx --batch 16 --threads 4
try new_residual "$pare" new resnet20 --input 1,8,8 -o r.onnx
try qat_residual "$pare" quantize r.onnx --quantizer qat --preset int8 $digits 64 --batch 64 --epochs 1 -o o.onnx

# Files whose parallel regions cannot run here.
exempt=""
sort -u "$OMP_REGIONS" | while read -r program place; do
    addr2line -e "$program" "$place"
done | sed -n 's/.*\(src\/[a-z0-9_/]*\.[ch]\):.*/\1/p' | sort -u >seen
(cd "$source" && grep -rl '#pragma omp parallel' src) | sort >all
for file in $(comm -13 seen all); do
    case " $exempt " in *" $file "*) continue ;; esac
    echo "FAIL  $file: no parallel region ran on several threads"
    failed=1
done
echo "$(comm -12 seen all | wc -l) of $(wc -l <all) files with parallel regions ran on several threads"
exit $failed
