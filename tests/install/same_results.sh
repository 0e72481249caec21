#!/bin/sh
# same_results.sh - compare the results of two builds of the command: same_results.sh PARE OTHER_PARE
#
# Networks with all kinds of convolutions, float and int8, must give the same outputs up to rounding, and
# training must reach the same accuracy, up to two items in a hundred.
set -eu
a=$(realpath "$1")
b=$(realpath "$2")
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
cd "$tmp"
export OMP_WAIT_POLICY=passive PARE_CACHE=

compare() {
    "$a" run "$1" --shape N=3 --output a.npz >log 2>&1 || { cat log; exit 1; }
    "$b" run "$1" --shape N=3 --check a.npz >log 2>&1 || { echo "$1: other results"; cat log; exit 1; }
    echo "ok: $1"
}

for network in lenet resnet20 mobilenetv2-cifar vit-tiny; do
    case $network in
    lenet) shape=1,8,8 ;;
    *) shape=3,32,32 ;;
    esac
    "$a" new $network --input $shape --seed 1 -o $network.onnx >log 2>&1 || { cat log; exit 1; }
    compare $network.onnx
done
"$a" train lenet.onnx --data digits --epochs 2 --seed 1 -q -o t.onnx >log 2>&1 || { cat log; exit 1; }
"$a" quantize t.onnx --preset int8 --data digits -q -o int8.onnx >log 2>&1 || { cat log; exit 1; }
compare t.onnx
compare int8.onnx
"$b" train lenet.onnx --data digits --epochs 2 --seed 1 -q -o u.onnx >log 2>&1 || { cat log; exit 1; }
accuracy() { "$a" eval "$1" --data digits --json | sed -n 's/.*"top1": *\([0-9.]*\).*/\1/p'; }
echo "$(accuracy t.onnx) $(accuracy u.onnx)" | awk '{ d = $1 - $2; print "accuracy", $1, $2; exit !(d < 0.02 && d > -0.02 && $1 > 0.8) }'
echo "ok: training"
