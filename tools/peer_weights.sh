#!/bin/sh
# peer_weights.sh - level, l1, taylor and agp of Pare and of NNI 2.10 on the same LeNet, fine-tuned in the same way.
#
# usage: peer_weights.sh MODEL "PRUNER..." "SPARSITY..." [SEED...]
#
# MODEL is data/models/lenet.onnx (Fashion-MNIST); pruners are level, l1 and taylor (filters of both convolutions, 20 steps)
# and agp (over level, 3 iterations of one epoch); then one epoch with masks for all.  NNI's masks are made by nni_masks.py and
# trained by 'pare train --keep-zeros' with the options of 'pare prune' (TUNE replaces them).  Prints test accuracies of each
# seed (default: 1 2 3) and their mean.  PYTHON has NNI 2.10, PyTorch and onnx (default: python3).  PARE is the command
# (default: build/pare), WORK the folder of the results (default: peer-weights); results that exist are not made again.
set -eu
here=$(dirname "$(realpath "$0")")
pare=$(realpath "${PARE:-$here/../build/pare}")
if [ $# -lt 3 ]; then
    sed -n '3,11s/^# //p' "$0"
    exit 2
fi
model=$(realpath "$1") pruners=$2 sparsities=$3
shift 3
[ $# -gt 0 ] || set -- 1 2 3
mkdir -p "${WORK:=peer-weights}"
cd "$WORK"
: "${TUNE:=--optimizer sgd --lr 0.02 --momentum 0.9 --schedule constant --batch 64}"
common="--data fashion-mnist --valid none --last --threads 1 --quiet $TUNE"
iterations=3

accuracy() {
    "$pare" eval "$1" --data fashion-mnist --threads 1 --json |
        python3 -c 'import json, sys; print("%.2f" % (100 * json.load(sys.stdin)["top1"]))'
}

# masked MODEL PRUNER SPARSITY OUT [SEED]: with NNI's masks
masked() {
    "${PYTHON:-python3}" "$here/nni_masks.py" "$1" "$2" "$3" mask.npz ${5:+"$5"} >nni.log 2>&1
    "$pare" apply "$1" --masks mask.npz -o "$4" >/dev/null
}

# shellcheck disable=SC2086 # options are words
nni() {
    case $1 in
    agp)
        cp "$model" now.onnx
        for i in $(seq $iterations); do
            masked now.onnx level "$(awk -v s="$2" -v i="$i" -v n=$iterations \
                'BEGIN { print s - s * (1 - i / n) ^ 3 }')" masked.onnx
            "$pare" train masked.onnx --keep-zeros $common --epochs $((1 + (i == iterations))) --seed "$3" -o now.onnx >/dev/null
        done
        cp now.onnx "$4"
        ;;
    *)
        from=masked-$1-$2
        [ "$1" != taylor ] || from=$from-$3 # the masks depend on the seed
        [ -f "$from.onnx" ] || masked "$model" "$1" "$2" "$from.onnx" "$3"
        "$pare" train "$from.onnx" --keep-zeros $common --epochs 1 --seed "$3" -o "$4" >/dev/null
        ;;
    esac
}

# shellcheck disable=SC2086 # options are words
ours() {
    case $1 in
    l1 | taylor) set -- "$@" --config "[{\"op_types\": [\"Conv2d\"], \"sparsity\": $2}]" ;;
    agp) set -- "$@" --sparsity "$2" --total-iteration $iterations ;;
    *) set -- "$@" --sparsity "$2" ;;
    esac
    pruner=$1 seed=$3 out=$4
    shift 4
    "$pare" prune "$model" --pruner "$pruner" $common --epochs 1 --seed "$seed" "$@" -o "$out" >/dev/null
}

head=$(for s; do printf 'seed %s | ' "$s"; done)
echo "| pruner | sparsity | NNI: ${head}mean | Pare: ${head}mean |"
for pruner in $pruners; do
    for sparsity in $sparsities; do
        row="| $pruner | $sparsity"
        for tool in nni ours; do
            sum=0
            for seed; do
                name=$tool-$pruner-$sparsity-$seed
                [ -f "$name" ] || { $tool "$pruner" "$sparsity" "$seed" out.onnx && accuracy out.onnx >"$name"; }
                row="$row | $(cat "$name")"
                sum=$(awk -v a="$sum" -v b="$(cat "$name")" 'BEGIN { print a + b }')
            done
            row="$row | $(awk -v a="$sum" -v n=$# 'BEGIN { printf "**%.2f**", a / n }')"
        done
        echo "$row |"
    done
done
