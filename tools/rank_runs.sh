#!/bin/sh
# rank_runs.sh - compare ways to rank channels at equal multiply-accumulates, without training.
#
# usage: [MORE="OPTIONS"] rank_runs.sh PARE MODEL.onnx DATA SHARE ["PRUNER OPTIONS" ...]
#
# For each setting, the sparsity is bisected until the smaller model has SHARE of the
# multiply-accumulates; then it is repaired.  Prints sparsity, share, accuracy of the original, pruned
# and repaired (with MORE="--epochs 1": fine-tuned after that).  The tables of docs/pruning.md:
# SHARE 0.5, MORE="--limit 4000 --threads 1 --seed 1".
set -eu
pare=$1 model=$2 data=$3 share=$4
shift 4
[ $# -gt 0 ] || set -- 'l1 --mode dependency_aware' 'l1 --mode global_aware --normalize none' \
    'l1 --mode global_aware' 'l1 --mode global_aware --normalize max' \
    'l1 --mode global_aware --normalize lamp' 'l1 --mode global_aware --isomorphic' \
    'l1 --mode global_aware --min-keep 0.4' 'l2 --mode dependency_aware' 'l2 --mode global_aware'
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT

# The share of MACs that is left, in percent.
left() {
    # shellcheck disable=SC2086 # options are words
    "$pare" prune "$model" --pruner $1 --sparsity "$2" --speedup --no-bench --no-verify \
        -o "$tmp/small.onnx" | sed -n 's/^MACs .* \([0-9.]*\)%$/\1/p'
}

for how; do
    low=0.02 high=0.8 best=0.5 gap=100
    for _ in 1 2 3 4 5 6 7; do
        at=$(echo "$low $high" | awk '{ print ($1 + $2) / 2 }')
        now=$(left "$how" "$at")
        [ -n "$now" ]
        eval "$(echo "$now $share $at $gap" | awk '{ d = $1 - 100 * $2; a = d < 0 ? -d : d
            print (d > 0 ? "low=" : "high=") $3; if (a < $4) print "gap=" a " best=" $3 }')"
    done
    # shellcheck disable=SC2086 # options are words
    "$pare" prune "$model" --pruner $how --sparsity "$best" --speedup --no-bench --no-verify \
        --data "$data" ${MORE:-} -o "$tmp/small.onnx" >"$tmp/log" 2>/dev/null
    printf '%-45s %s %s%% %s\n' "$how" "$best" "$(sed -n 's/^MACs .* \([0-9.]*\)%$/\1/p' "$tmp/log")" \
        "$(sed -n 's/.*: *accuracy \([0-9.]*\)%.*/\1/p' "$tmp/log" | tr '\n' ' ')"
done
