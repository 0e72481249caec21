#!/bin/sh
# budget_bounds.sh - does a promised bound of the accuracy hold on the test set?
#
#     tools/budget_bounds.sh PARE MODEL DATA [RUNS [SEED [LIMIT]]]
#
# RUNS (default: 50) searches with random budgets and bounds (--max-drop with --confidence 0.9).  A run that exits with 0
# promises that the accuracy drops by at most the bound; the test set, which the search does not see, says whether it does.
# LIMIT (default: 6000) training items, channels alone, expected losses and no training, so that a run takes seconds.
set -e
pare=$1 model=$2 data=$3 runs=${4:-50} seed=${5:-1} limit=${6:-6000}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"$pare" bench "$model" --table "$folder/times.jsonl" --threads 1 --seconds 5 >/dev/null 2>&1
awk -v n="$runs" -v seed="$seed" 'BEGIN { srand(seed); for (i = 1; i <= n; i++)
    printf "%d %.3f %.2f\n", i, 0.15 + 0.8 * rand(), 0.3 + 4 * rand() * rand() }' >"$folder/bounds"
while read -r i part bound; do
    code=0
    "$pare" compress "$model" --data "$data" --limit "$limit" --budget "macs=$part" --max-drop "$bound" --confidence 0.9 \
        --methods channels --sensitivity fisher --solver spdy --table "$folder/times.jsonl" --threads 1 --seed "$i" \
        --run "$folder/run.json" -q --json -o "$folder/out.onnx" >"$folder/out.json" 2>"$folder/err" </dev/null || code=$?
    [ $code = 0 ] || [ $code = 3 ] || { cat "$folder/err"; exit 1; }
    python3 - "$folder/out.json" "$i" "$part" "$bound" "$code" <<'PY'
import json, sys
path, i, part, bound, code = sys.argv[1:]
r = json.load(open(path))
held = 100 * (r["held_out_before"] - r["held_out_after"])
drop = 100 * (r["accuracy_before"] - r["accuracy_after"])
promised = code == "0"
print(i, part, bound, f"{held:.2f}", f"{drop:.2f}", "promised" if promised else "missed",
      ("holds" if drop <= float(bound) else "BROKEN") if promised else "-", flush=True)
PY
    rm -rf "$folder"/out.* "$folder"/run.*
done <"$folder/bounds" | tee "$folder/rows"
awk '{ p += $6 == "promised"; b += $7 == "BROKEN" } END { print NR " runs: " p " promised a bound, " b + 0 " of them were wrong" }' \
    "$folder/rows"
