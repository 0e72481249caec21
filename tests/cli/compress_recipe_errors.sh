# Errors in a recipe are reported before anything runs, with the line and the closest valid name.
pare new lenet --input 1,8,8 --width 0.5 -o m.onnx
try() {
    printf '%s\n' "$1" >r.json
    pare compress r.json 2>&1
    echo "  code $?"
}
steps() { try "{\"model\": \"m.onnx\", \"data\": \"digits\", \"threads\": 1,
 \"steps\": [$1]}"; }
prune='{"step": "prune", "pruner": "l1", "sparsity": 0.5}'
try '{'
try '[]'
try '{"steps": []}'
try '{"model": "m.onnx", "steps": []}'
try '{"model": "m.onnx", "dta": "digits", "steps": [{"step": "speedup"}]}'
try '{"model": "none.onnx", "steps": [{"step": "speedup"}]}'
try '{"model": "m.onnx", "seed": "x", "steps": [{"step": "speedup"}]}'
steps '{"pruner": "l1"}'
steps '{"step": "prunes"}'
steps '{"step": "prune", "sparsty": 0.5}'
steps '{"step": "prune", "pruner": "l3", "sparsity": 0.5}'
steps '{"step": "prune", "config": [{"sparsity": 0.5, "op_names": ["conv9"]}]}'
steps '{"step": "prune", "sparsity": 1.5}'
steps "$prune, {\"step\": \"distil\", \"teacher\": \"none.onnx\"}"
steps "$prune, {\"step\": \"finetune\", \"optimiser\": \"adam\"}"
steps "$prune, {\"step\": \"finetune\", \"epochs\": 1, \"resume\": true}"
steps "$prune, {\"step\": \"quantize\"}"
steps "$prune, {\"step\": \"quantize\", \"preset\": \"int9\"}"
try "{\"model\": \"m.onnx\", \"steps\": [$prune, {\"step\": \"finetune\"}]}"
try "{\"model\": \"m.onnx\", \"output\": \"m.onnx\", \"steps\": [$prune]}"
pare compress m.onnx
pare compress --preset tny --data digits m.onnx
pare compress --preset tiny m.onnx
ls
