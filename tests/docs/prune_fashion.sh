#!/bin/sh
# prune_fashion.sh - run examples/prune_fashion on 1,000 items: prune_fashion.sh PARE PROGRAM
#
# Uses Fashion-MNIST if it is installed, else the built-in digits.
set -eu
pare=$(realpath "$1")
program=$(realpath "$2")
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
cd "$tmp"

data=fashion-mnist
fc1=400000
"$pare" new lenet --input 1,28,28 --seed 1 -o lenet.onnx
if ! "$pare" eval lenet.onnx --data $data --limit 10 >/dev/null 2>&1; then
    data=digits
    fc1=100000
    "$pare" new lenet --input 1,8,8 --seed 1 -o lenet.onnx
fi
"$program" lenet.onnx $data "limit=1000 epochs=1 lr=0.01 threads=1 seed=1" | tee log
grep -q '^conv1 .*250 of 500 weights left' log
grep -q '^conv2 .*7500 of 25000 weights left' log
grep -q "^fc1 .*$((fc1 * 3 / 10)) of $fc1 weights left" log
grep -q '^fc2 .*1500 of 5000 weights left' log
[ -s model.pth ]

# Applying the masks to the exported model changes nothing; its batch size is 1.
"$pare" apply model.onnx --masks mask.pth -o again.onnx | tee log
grep -Eq '^conv1 +weight +500 +50.0%' log
cmp model.onnx again.onnx
"$pare" inspect model.onnx | grep 'input .*(1, '

# A missing model is reported by one line.
code=0
"$program" nowhere.onnx digits 2>log || code=$?
[ $code = 1 ] && [ "$(wc -l <log)" = 1 ]
