#!/bin/sh
# demo.sh - what Pare does today, on a small network that reads handwritten digits.
#
# usage: tools/demo.sh BUILD_FOLDER
set -eu
cd "$(dirname "$0")/.."
build=$1
data=data/digits

say() {
    printf '\n\033[1m$ %s\033[0m\n' "$*"
    "$@"
}
[ -t 1 ] || say() {
    printf '\n$ %s\n' "$*"
    "$@"
}

mkdir -p "$build/demo"
for part in images-idx3 labels-idx1; do
    gzip -dc "$data/test-$part-ubyte.gz" >"$build/demo/test-$part-ubyte"
done

say "$build/pare" inspect "$data/digits.onnx"
say "$build/examples/digits" "$data/digits.onnx" \
    "$build/demo/test-images-idx3-ubyte" "$build/demo/test-labels-idx1-ubyte"
say "$build/pare" run "$data/digits.onnx" --input "$data/sample.npz" \
    --check "$data/sample_logits.npz" --output "$build/demo/logits.npz"
say "$build/pare" bench "$data/digits.onnx" --batch 64 --seconds 1
