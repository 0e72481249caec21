# prune_repair.sh - least-squares repair after channels are removed: accuracy, speedup, errors.
pare new resnet20 --input 1,8,8 --seed 1 -o m.onnx >/dev/null
pare train m.onnx --data digits --epochs 3 --threads 1 --seed 1 -q -o t.onnx
pare prune t.onnx --pruner l1 --sparsity 0.4 --speedup --data digits --threads 1 --no-bench -q --json --max-drop 20 \
    -o r.onnx >r.json
pare prune t.onnx --pruner l1 --sparsity 0.4 --no-repair --recalibrate 0 --dependency-aware --masks k.npz --data digits --threads 1 \
    -q -o masked.onnx 2>/dev/null
pare speedup t.onnx --masks k.npz --repair --data digits --threads 1 --no-bench --json -q -o s.onnx >s.json
pare speedup masked.onnx --original t.onnx --repair --data digits --threads 1 --no-bench --json -q -o o.onnx >o.json
cmp s.onnx o.onnx && echo "the same with masks and with the original"
python3 - <<'PY' 2>/dev/null || echo "python3 is not installed"
import json
r, s = json.load(open("r.json")), json.load(open("s.json"))
print("pruned below 0.8 of the accuracy:", r["masked"]["accuracy"] < 0.8 * r["before"]["accuracy"])
print("repaired above 0.9 of it:", r["after"]["accuracy"] > 0.9 * r["before"]["accuracy"])
for v in r["repair"], s["repair"]:
    kl = v["loss"]
    print("ways:", ", ".join(kl), "- kept the best:", kl[v["kept"]] <= 1.001 * min(kl.values()))
PY
pare prune t.onnx --pruner level --sparsity 0.5 --data digits --threads 1 -o e.onnx | sed -n 's/.*: as it is .*, statistics .*kept: .*/level: statistics only/p'
pare prune t.onnx --pruner taylor --training-steps 5 --sparsity 0.3 --data digits --threads 1 -o e.onnx 2>/dev/null |
    sed -n 's/.*, repair .*kept: .*/taylor: repaired after its steps/p'
# With --epochs, they are repaired when the masks are made, and then trained: their zeros stay.
pare prune t.onnx --pruner taylor --training-steps 5 --sparsity 0.3 --data digits --epochs 1 --checkpoint k.safetensors \
    --threads 1 -o e.onnx 2>/dev/null | sed -n 's/.* steps of training, .*, repair .*, damped repair .*kept: .*/taylor: and before an epoch/p'
pare prune t.onnx --pruner taylor --training-steps 5 --sparsity 0.3 --data digits --epochs 1 --checkpoint k.safetensors \
    --resume --threads 1 -q -o f.onnx >/dev/null 2>&1
cmp e.onnx f.onnx && echo "the same from a checkpoint after it"
pare prune t.onnx --pruner l1 --sparsity 0.5 --repair -o e.onnx || echo "exit code $?"
pare prune t.onnx --pruner agp --sparsity 0.5 --repair --data digits --threads 1 -q -o e.onnx || echo "exit code $?"
pare speedup masked.onnx --repair --data digits -o e.onnx || echo "exit code $?"
pare speedup masked.onnx --repair --original t.onnx -o e.onnx || echo "exit code $?"
pare speedup masked.onnx --original t.onnx -o e.onnx || echo "exit code $?"
