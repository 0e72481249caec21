#!/bin/sh
# compress_preset.sh - pare_compress() and `pare compress` with the same recipe write the same bytes:
# compress_preset.sh PARE PROGRAM
#
# The command runs each step on the file of the previous one; the library passes models in memory.
# The output file also has the recipe in its metadata, so the file of the last step is compared.
set -eu
pare=$1
program=$2
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
cd "$tmp"
export PARE_CACHE=

"$pare" new lenet --input 1,8,8 --width 0.5 -o n.onnx
"$pare" train n.onnx --data digits --limit 400 --epochs 4 --batch 32 --optimizer adam --threads 1 \
    --quiet -o m.onnx
quantize='{"step": "quantize", "preset": "int8"}'
echo '{"model": "m.onnx", "data": "digits", "steps": ['$quantize']}' >int8.json
echo '{"model": "m.onnx", "data": "digits", "steps": [
    {"step": "prune", "pruner": "l1", "sparsity": 0.5, "dependency-aware": true}, {"step": "speedup"},
    {"step": "distil", "epochs": 5, "optimizer": "adam", "schedule": "cosine"}, '$quantize']}' >balanced.json
for preset in int8 balanced; do
    for seed in 0 7; do
        "$pare" compress $preset.json --seed $seed --threads 1 --seconds 0 \
            --keep-steps --quiet -o c.onnx >log
        "$program" $preset m.onnx digits $seed l.onnx
        last=$(ls c.steps/*.onnx | tail -n 1)
        cmp "$last" l.onnx || { echo "preset $preset, seed $seed: the models differ" >&2; exit 1; }
        cp l.onnx $preset-$seed.onnx
        rm -rf c.steps
    done
done
# The comparison can fail: another seed gives another model.
if cmp -s balanced-0.onnx balanced-7.onnx; then
    echo "the seed has no effect" >&2
    exit 1
fi
