#!/bin/sh
# demo.sh - train, prune, fine-tune and quantize a network that reads handwritten digits.
#
# usage: tools/demo.sh BUILD_FOLDER
#
# The network is trained once and kept in demo/; then examples/demo.json removes half of its channels,
# fine-tunes it with the original as teacher, and quantizes it.
set -eu
cd "$(dirname "$0")/.."
pare=$1/pare

run() {
    printf '\n\033[1m$ %s\033[0m\n' "$*"
    "$@"
}
[ -t 1 ] || run() {
    printf '\n$ %s\n' "$*"
    "$@"
}

mkdir -p demo
if [ ! -f demo/digits.onnx ]; then
    run "$pare" new vgg7 --input 1,8,8 --width 0.5 -o demo/fresh.onnx
    run "$pare" train demo/fresh.onnx --data digits --epochs 5 --seed 1 --threads 1 -o demo/digits.onnx
fi
run "$pare" compress examples/demo.json
run "$pare" report demo/run.json -o demo/report.html
