# prune_repair.sh - least-squares repair after channels are removed: accuracy, speedup, errors.
pare new resnet20 --input 1,8,8 --seed 1 -o m.onnx >/dev/null
pare train m.onnx --data digits --epochs 3 --threads 1 --seed 1 -q -o t.onnx
pare prune t.onnx --pruner l1 --sparsity 0.4 --speedup --repair --data digits --threads 1 --no-bench -q --json --max-drop 20 \
    -o r.onnx >r.json
python3 - <<'PY' 2>/dev/null || echo "python3 is not installed"
import json
r = json.load(open("r.json"))
print("pruned below 0.8 of the accuracy:", r["unrepaired"]["accuracy"] < 0.8 * r["before"]["accuracy"])
print("repaired above 0.9 of it:", r["masked"]["accuracy"] > 0.9 * r["before"]["accuracy"])
PY
pare prune t.onnx --pruner l1 --sparsity 0.5 --repair -o e.onnx || echo "exit code $?"
pare prune t.onnx --pruner agp --sparsity 0.5 --repair --data digits --threads 1 -q -o e.onnx || echo "exit code $?"
