# prune_reconstruct.sh - parameters trained toward the original's outputs after pruning: loss, zeros, speedup, a trial of the
# training that follows a repair, errors.
pare new lenet --input 1,8,8 --seed 1 -o m.onnx >/dev/null
pare train m.onnx --data digits --epochs 4 --optimizer adam --lr 2e-3 --threads 1 --seed 1 -q -o t.onnx
cat >check.py <<'PY'
import json, sys
r = json.load(open(sys.argv[1]))["repair"]
loss = r["loss"]
print("ways:", ", ".join(loss), "- kept the best:", loss[r["kept"]] <= 1.002 * min(loss.values()), "- kept:", r["kept"])
PY
prune="--data digits --threads 1 --max-drop 100 -q --json --reconstruct-steps 60"
for name in a b; do
    pare prune t.onnx --pruner level --sparsity 0.95 --reconstruct $prune -o $name.onnx >$name.json
done
cmp a.onnx b.onnx && echo "the same bytes"
python3 check.py a.json 2>/dev/null || echo "python3 is not installed"
pare inspect a.onnx --weights --json | python3 -c 'import json, sys; print("zeros:", sum(l["zeros"] for l in json.load(sys.stdin)["layers"]))'
pare prune t.onnx --pruner level --sparsity 0.95 -q -o l.onnx
pare inspect l.onnx --weights --json | python3 -c 'import json, sys; print("zeros:", sum(l["zeros"] for l in json.load(sys.stdin)["layers"]))'
pare prune t.onnx --pruner l1 --sparsity 0.5 --speedup --no-bench --reconstruct $prune -o s.onnx >s.json
python3 check.py s.json
pare prune t.onnx --pruner l1 --sparsity 0.8 --data digits --threads 1 --epochs 1 --seed 1 --json -q -o f.onnx >f.json
python3 check.py f.json
pare prune t.onnx --pruner level --sparsity 0.5 --reconstruct -o e.onnx || echo "exit code $?"
pare prune t.onnx --pruner level --sparsity 0.5 --reconstruct-lr 0.1 --data digits -o e.onnx || echo "exit code $?"
