#!/bin/sh
# prune_runs.sh - accuracy of pruned LeNets on Fashion-MNIST: prune_runs.sh [--short] [SEED...]
#
# For each seed, a LeNet is trained (dense), then pruned in several ways, each with a few epochs of
# fine-tuning; the table has test accuracies of every seed and their means.  level (90 %) and agp
# (95 %) rank the weights of all layers together.  The filter pruners (l1, fpgm, taylor, movement)
# remove half of the filters of both convolutions; l1, fpgm and taylor are fine-tuned equally long,
# taylor collects gradients for 100 training steps before that.  movement scores how training changes
# weights, so it starts from an untrained network and takes 14 epochs, the total of the others, of which
# the first 4 remove filters.  movement2 starts from the trained network, like the others, and learns scores
# in 3 epochs before 4 epochs of fine-tuning.  --short: 6000 images, to test the script.
# PARE is the command (default: build/pare); THREADS the number of threads (default: one per core);
# WORK a folder for models, which is kept: models in it are reused.
set -eu
pare=$(realpath "${PARE:-$(dirname "$0")/../build/pare}")
data="--data fashion-mnist --threads ${THREADS:-0} --batch 64"
if [ "${1:-}" = --short ]; then
    data="$data --limit 6000"
    shift
fi
[ $# -gt 0 ] || set -- 1 2 3
if [ -z "${WORK:-}" ]; then
    WORK=$(mktemp -d)
    trap 'rm -rf "$WORK"' EXIT
fi
mkdir -p "$WORK"
cd "$WORK"
sgd="--optimizer sgd --momentum 0.9 --weight-decay 5e-4"
tune="$sgd --schedule cosine"
filters='[{"sparsity": 0.5, "op_types": ["Conv2d"]}]'
moving='[{"sparsity": 0.5, "op_types": ["Conv2d"], "granularity": "out_channel"}]'

# prune NAME SEED OPTION...
prune() {
    name=$1 seed=$2
    shift 2
    [ -e "$name-$seed.onnx" ] ||
        "$pare" prune "dense-$seed.onnx" $data $tune --seed "$seed" --quiet "$@" -o "$name-$seed.onnx"
}

for seed; do
    [ -e "fresh-$seed.onnx" ] ||
        "$pare" new lenet --input 1,28,28 --seed "$seed" -o "fresh-$seed.onnx" >/dev/null
    if [ ! -e "dense-$seed.onnx" ]; then
        "$pare" train "fresh-$seed.onnx" $data $sgd --schedule onecycle --lr 0.05 --epochs 10 \
            --valid none --seed "$seed" --quiet -o "dense-$seed.onnx"
    fi
    prune level "$seed" --pruner level --mode global --sparsity 0.9 --weight-decay 0 --lr 0.02 --epochs 2
    prune agp "$seed" --pruner agp --mode global --sparsity 0.95 --total-iteration 5 --lr 0.02 --epochs 3
    for pruner in l1 fpgm; do
        prune $pruner "$seed" --pruner $pruner --config "$filters" --lr 0.02 --epochs 4
    done
    prune taylor "$seed" --pruner taylor --config "$filters" --training-steps 100 --lr 0.02 --epochs 4
    prune movement2 "$seed" --pruner movement --config "$moving" --warm-up-step 200 \
        --cool-down-beginning-step 1876 --training-steps 2814 --lr 0.02 --epochs 4
    [ -e "movement-$seed.onnx" ] ||
        "$pare" prune "fresh-$seed.onnx" $data $sgd --schedule onecycle --lr 0.05 --seed "$seed" \
            --quiet --pruner movement --config "$moving" --warm-up-step 938 \
            --cool-down-beginning-step 3700 --training-steps 3752 --epochs 10 -o "movement-$seed.onnx"
done

printf '%-10s' pruner
for seed; do printf '%10s' "seed $seed"; done
printf '%10s%10s\n' mean 'vs dense'
dense=
for name in dense level agp l1 fpgm taylor movement movement2; do
    line=
    for seed; do
        line="$line $("$pare" eval "$name-$seed.onnx" --data fashion-mnist --threads "${THREADS:-0}" |
            awk '$1 == "top-1" { printf "%.2f", $2 }')"
    done
    mean=$(echo "$line" | awk '{ for (i = 1; i <= NF; i++) s += $i; printf "%.2f", s / NF }')
    [ -n "$dense" ] || dense=$mean
    printf '%-10s' $name
    printf '%10s' $line
    printf '%10s%10s\n' "$mean" "$(awk "BEGIN { printf \"%+.2f\", $mean - $dense }")"
done
