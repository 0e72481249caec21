# compress_repeat.sh - recipe with a repeat: sparsities of the rounds, resume, the best round, errors.
pare new lenet --input 1,8,8 --width 0.5 --seed 1 -o m.onnx >/dev/null
pare train m.onnx --data digits --epochs 3 --threads 1 --seed 1 -q -o t.onnx
recipe() { # KEYS STEPS: a recipe with a repeat
    cat <<J
{"model": "t.onnx", "data": "digits", "limit": 300, "output": "r.onnx", "seconds": 0, "threads": 1,
 "steps": [{"repeat": 3, $1
            "steps": [$2]},
           {"step": "evaluate"}]}
J
}
masks='{"step": "prune", "pruner": "l1", "repair": false}'
tune='{"step": "finetune", "epochs": 1}'
small='{"step": "prune", "pruner": "l1"}, {"step": "speedup"}'
sparsities() {
    python3 -c 'import json
r = json.load(open("r.run.json"))
print(*[s["options"]["sparsity"] for s in r["steps"] if s["step"] == "prune"])' 2>/dev/null || echo "python3 is not installed"
}
for schedule in agp linear lottery; do
    recipe "\"sparsity\": 0.8, \"schedule\": \"$schedule\"," "$masks" >r.json
    pare compress r.json -q >/dev/null 2>&1 && echo "$schedule: $(sparsities)"
done
recipe '"sparsity": 0.8, "schedule": "linear",' "$small, $tune" >r.json
pare compress r.json --dry-run
pare compress r.json -q >/dev/null 2>&1 && echo "with speedup: $(sparsities)"
pare inspect r.onnx | sed -n '/^conv2/p' | tr -s ' '

echo "killed in a round, then resumed:"
mv r.onnx whole.onnx
rm -rf r.run.json r.steps
pare compress r.json -q >/dev/null 2>&1 &
until grep -q '"step": "finetune"' r.run.json 2>/dev/null; do sleep 0.02; done
kill -9 $!
wait $! 2>/dev/null
[ -e r.onnx ] || echo "killed"
pare compress r.json --resume -q >/dev/null 2>&1
pare export whole.onnx --state whole.npz -o w.onnx >/dev/null
pare export r.onnx --state r.npz -o w.onnx >/dev/null
cmp whole.npz r.npz && echo "the same weights"

echo "the best round:"
recipe '"sparsity": 0.95, "schedule": "linear", "keep": "best",' "$masks" >r.json
pare compress r.json -q || echo "exit code $?"
sed -i 's/"limit"/"valid": "digits", "limit"/' r.json
pare compress r.json -q --keep-steps >/dev/null 2>&1
pare export r.steps/01-prune.onnx --state first.npz -o w.onnx >/dev/null
pare export r.onnx --state r.npz -o w.onnx >/dev/null
cmp first.npz r.npz && echo "the first one"

echo "mistakes:"
try() {
    recipe "$1" "$2" >r.json
    pare compress r.json -q --dry-run 2>&1
}
try '' "$masks"
try '"sparsity": 2,' "$masks"
try '"sparsity": 0.5, "schedule": "cubic",' "$masks"
try '"sparsity": 0.5, "speed": 1,' "$masks"
try '"sparsity": 0.5,' "$tune"
try '"sparsity": 0.5,' '{"step": "prune", "sparsity": 0.5}'
try '"sparsity": 0.5,' "$masks, {\"step\": \"quantize\", \"preset\": \"int8\"}"
try '"sparsity": 0.5,' ''
try '"sparsity": 0.5,' "$masks, {\"repeat\": 2, \"sparsity\": 0.5, \"steps\": [$masks]}"
try '"sparsity": 0.5,' "$(for i in $(seq 40); do echo "$tune,"; done) $masks"
