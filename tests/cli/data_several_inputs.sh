# A model with two inputs and a .npz with an array for each: every command that takes data.
pare train models/price.onnx --data models/price.npz --holdout 0.2 --epochs 40 --threads 1 -q -o t.onnx
pare eval t.onnx --data models/price.npz --threads 1 2>/dev/null |
    awk '$1 == "r2" { print $1, ($2 > 0.5 ? "above 0.5" : $2) }'
pare prune t.onnx --pruner l1 --sparsity 0.5 -o p.onnx | tail -1
pare speedup p.onnx --data models/price.npz --no-bench -o s.onnx | grep '^verified'
pare bench t.onnx --data models/price.npz --repeat 3 --threads 1 --no-tune |
    sed -n 's/.*thread, \(.*\) inputs;/\1/p'
pare bench t.onnx --norm imagenet
pare analyze quantization t.onnx --data models/price.npz --bits 8 --threads 1 -q 2>/dev/null | grep -c Linear
cat >r.json <<J
{"model": "t.onnx", "data": "models/price.npz", "holdout": 0.2, "seconds": 0,
 "steps": [{"step": "sensitivity", "metric": "top-1"}, {"step": "quantize", "preset": "int8"}]}
J
pare compress r.json --dry-run
pare train models/unet.onnx --data models/cells.npz --holdout 0.2 --epochs 2 --batch 16 --threads 1 -o u.onnx |
    sed 's/loss.*mean-iou [0-9.]*%.*/loss ... mean-iou/;/best/d'
pare eval u.onnx --data models/cells.npz --per-class --threads 1 2>/dev/null | awk '/^class/ { print; for (n = 0; n < 3 && getline; n++) print $1, $3 <= $2 }'
# Twenty inputs and outputs.
pare quantize models/many_inputs.onnx --preset int8 --data models/many_inputs.npz --threads 1 -q -o m.onnx
pare eval m.onnx --against models/many_inputs.onnx --data models/many_inputs.npz --threads 1 2>/dev/null | grep '^items'
pare train models/many_inputs.onnx --data models/many_inputs.npz --teacher self --epochs 1 --threads 1 -q -o n.onnx 2>/dev/null
pare eval u.onnx --data models/cells.npz --task regression
pare eval u.onnx --data models/cells.npz --loss mse
pare run models/many_inputs.onnx --seed 1 --threads 1 --output w.npz >/dev/null 2>&1
pare eval models/price.onnx --data w.npz
