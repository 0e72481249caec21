#!/bin/sh
# budget_results.sh - the table of docs/budget_results.md: models compressed to budgets.
#
#     tools/budget_results.sh PARE LENET [RESNET20 CIFAR [EPOCHS]]
#
# PARE: the command; LENET, RESNET20: trained models (data/models); CIFAR: a folder or name of CIFAR-10; EPOCHS: of
# fine-tuning (default: 3).  One thread, one seed.  The results of each run stay in the folder budget_results, and a run
# that has one is not repeated.  Without RESNET20: the runs of LeNet alone, with 3 epochs.
set -e
pare=$1 lenet=$2 resnet=$3 cifar=$4 epochs=${5:-3}
mkdir -p budget_results

# run NAME MODEL SET OPTIONS...: one line of the table
run() {
    name=$1 model=$2 set=$3
    shift 3
    out=budget_results/$name
    start=$(date +%s)
    if [ ! -s "$out.json" ]; then
        "$pare" compress "$model" --data "$set" "$@" --threads 1 --seed 1 -q --json -o "$out.onnx" >"$out.tmp" 2>"$out.err" || true
        mv "$out.tmp" "$out.json"
        echo $(($(date +%s) - start)) >"$out.seconds"
    fi
    python3 - "$name" "$out" "$*" <<'PY'
import json, sys
name, out, options = sys.argv[1:]
try:
    r = json.load(open(out + ".json"))
except ValueError:
    sys.exit(print(f"| {name} | `{options}` | {open(out + '.err').read().strip()[-80:]} |"))
c, s = r["costs"], open(out + ".seconds").read().strip()
t = c["latency_us"]
held = 100 * (r["held_out_before"] - r["held_out_after"])
drop = 100 * (r["accuracy_before"] - r["accuracy_after"])
print(f"| {name} | `{options}` | {t['after'] / t['before']:.3f} | {t['predicted'] / t['before']:.3f} | "
      f"{c['bytes']['after'] / c['bytes']['before']:.3f} | {c['macs']['after'] / c['macs']['before']:.3f} | "
      f"{held:.2f} | {drop:.2f} | {s} |")
PY
}

cat <<'HEAD'
| run | options | latency | predicted | size | MACs | drop, held out | drop, test | seconds |
|---|---|---|---|---|---|---|---|---|
HEAD
run lenet-0.3 "$lenet" fashion-mnist --budget latency=0.3
for solver in uniform fastnas halp spdy; do
    run "lenet-0.3-$solver" "$lenet" fashion-mnist --budget latency=0.3 --solver "$solver"
done
run lenet-0.3-channels "$lenet" fashion-mnist --budget latency=0.3 --methods channels
run lenet-0.3-int8 "$lenet" fashion-mnist --budget latency=0.3 --methods int8
run lenet-0.3-fisher "$lenet" fashion-mnist --budget latency=0.3 --sensitivity fisher
run lenet-0.3-tuned "$lenet" fashion-mnist --budget latency=0.3 --finetune "$epochs"
run lenet-0.25-tuned "$lenet" fashion-mnist --budget latency=0.25 --finetune "$epochs"
run lenet-0.1 "$lenet" fashion-mnist --budget latency=0.1
[ -n "$resnet" ] || exit 0
augment="--flip --pad 4 --crop 32"
run resnet20-0.2 "$resnet" "$cifar" --budget latency=0.2
run resnet20-0.2-tuned "$resnet" "$cifar" --budget latency=0.2 --finetune "$epochs" $augment
run resnet20-0.4 "$resnet" "$cifar" --budget latency=0.4
run resnet20-0.4-tuned "$resnet" "$cifar" --budget latency=0.4 --finetune "$epochs" $augment
run resnet20-channels-0.5 "$resnet" "$cifar" --budget latency=0.5 --methods channels --finetune "$epochs" $augment
run resnet20-macs-0.73 "$resnet" "$cifar" --budget macs=0.73 --methods channels --finetune "$epochs" $augment
