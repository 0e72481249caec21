# prune_input_moments.sh - wanda, sparsegpt and obs: with data, without data, patterns, channels.
pare new lenet --input 1,8,8 --seed 1 -o m.onnx >/dev/null
pare train m.onnx --data digits --epochs 2 --threads 1 --seed 1 -q -o t.onnx
element='[{"op_types": ["Conv2d", "Linear"], "sparsity": 0.7, "granularity": "element"}]'
pattern='[{"op_types": ["Conv2d", "Linear"], "pattern": "2:4"}]'
for p in level wanda sparsegpt obs; do
    pare prune t.onnx --pruner $p --config "$element" --data digits --threads 1 -q --json -o $p.onnx >$p.json 2>$p.err
    pare prune t.onnx --pruner $p --config "$pattern" --data digits --threads 1 -q --json -o nm.onnx >nm-$p.json 2>nm-$p.err
done
pare prune t.onnx --pruner obs --sparsity 0.5 --speedup --data digits --threads 1 --no-bench -q --json -o s.onnx >channels.json \
    2>channels.err
python3 - <<'PY' 2>/dev/null || echo "python3 is not installed"
import json
def accuracy(name):
    r = json.load(open(name + ".json"))
    return (r["after"] if r.get("after") else r["masked"])["accuracy"]
before = json.load(open("obs.json"))["before"]["accuracy"]
print("obs keeps 0.97 of the accuracy at 0.7:", accuracy("obs") > 0.97 * before)
print("obs is not below level:", accuracy("obs") >= accuracy("level"))
print("sparsegpt keeps 0.9 of it:", accuracy("sparsegpt") > 0.9 * before)
print("2:4 keeps 0.9 of it:", [accuracy("nm-" + p) > 0.9 * before for p in ("wanda", "sparsegpt", "obs")])
print("half of the channels keep 0.9 of it:", accuracy("channels") > 0.9 * before)
PY
for p in wanda sparsegpt obs; do
    pare prune t.onnx --pruner $p --sparsity 0.5 -o e.onnx || echo "exit code $?"
done
pare prune t.onnx --pruner wanda --config '[{"op_types": ["Conv2d"], "pattern": "2-4"}]' --data digits -q -o e.onnx ||
    echo "exit code $?"
pare prune t.onnx --pruner obs --config "$pattern" --mode global --data digits -q -o e.onnx || echo "exit code $?"
pare prune t.onnx --pruner sparsegpt --config "$element" --mode global --data digits -q -o e.onnx || echo "exit code $?"
