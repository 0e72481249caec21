#!/bin/sh
# oneshot_runs.sh - accuracy of a network pruned without training: oneshot_runs.sh MODEL DATA [WHAT...]
#
# MODEL is an ONNX file of a convolutional network, DATA what --data takes.  WHAT are parts of the table:
# pattern (2:4), element (80 %), block (80 % in 4x1 blocks), channels (about 0.73 and half of the
# multiply-accumulates of ResNet-20); default: all.  Each line is one command; times are those of the whole
# command.  PARE is the command (default: build/pare); THREADS the number of threads (default: one per core);
# HOLDOUT=0.04 evaluates on that part of the training items instead of the test items.
# MORE are options of all commands ("--reconstruct --flip --pad 4").  PRUNERS="level obs" runs these pruners of single weights (default: level wanda sparsegpt obs).
set -eu
pare=$(realpath "${PARE:-$(dirname "$0")/../build/pare}")
if [ $# -lt 2 ]; then
    sed -n '3,9s/^# //p' "$0"
    exit 2
fi
model=$1 data=$2
shift 2
[ $# -gt 0 ] || set -- pattern element block channels
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT

# one NAME OPTION...: prune and print a row of the table.
one() {
    name=$1
    shift
    start=$(date +%s)
    # shellcheck disable=SC2086
    if ! "$pare" prune "$model" --data "$data" --threads "${THREADS:-0}" ${HOLDOUT:+--holdout "$HOLDOUT"} \
        "$@" ${MORE:-} --max-drop 100 --quiet --json -o "$tmp/out.onnx" >"$tmp/json" 2>"$tmp/err"; then
        echo "| $name | $(tail -1 "$tmp/err") |"
        return
    fi
    python3 - "$name" "$tmp/json" $(($(date +%s) - start)) <<'PY'
import json, sys
name, path, seconds = sys.argv[1:]
r = json.load(open(path))
last = r["after"] if r.get("after") else r["masked"]
s = r.get("speedup") or {}
left = "%.1f %%" % (100 * s["macs_left"] / s["macs"]) if s.get("macs") and s.get("macs_left") else ""
print("| %s | %s | %.2f | %.2f | %s |" % (name, left, 100 * r["before"]["accuracy"], 100 * last["accuracy"], seconds))
PY
}

# of_weights NAME CONFIG: the pruners of single weights.
of_weights() {
    what=$1 config=$2
    for p in ${PRUNERS:-level wanda sparsegpt obs}; do
        one "$what, $p" --pruner "$p" --config "$config"
    done
}

echo "| | MACs left | before | after | seconds |"
echo "|---|---|---|---|---|"
for what; do
    case $what in
    pattern) of_weights "2:4" '[{"op_types": ["Conv2d"], "pattern": "2:4"}]' ;;
    element)
        of_weights "80 %" '[{"op_types": ["Conv2d"], "sparsity": 0.8, "granularity": "element"}]'
        one "80 %, level --mode global" --pruner level --mode global --config '[{"op_types": ["Conv2d"], "sparsity": 0.8}]'
        ;;
    block) of_weights "80 % in 4x1 blocks" '[{"op_types": ["Conv2d"], "sparsity": 0.8, "granularity": "block_4x1"}]' ;;
    channels)
        for s in "0.16 0.13" "0.32 0.29"; do
            one "channels, l1 --no-repair" --pruner l1 --speedup --no-bench --no-repair --sparsity "${s% *}"
            one "channels, l1" --pruner l1 --speedup --no-bench --sparsity "${s% *}"
            one "channels, obs" --pruner obs --speedup --no-bench --sparsity "${s#* }"
        done
        ;;
    *) echo "oneshot_runs.sh: $what is not a part of the table" >&2 && exit 2 ;;
    esac
done
