# Pruned weights stay 0 in all later steps that train, also in one that quantizes.
pare new lenet --input 1,8,8 --width 0.5 -o m.onnx
cat >recipe.json <<'J'
{"model": "m.onnx", "data": "digits", "output": "a.onnx", "seconds": 0, "threads": 1, "keep_steps": true,
 "steps": [{"step": "prune", "pruner": "level", "sparsity": 0.7},
           {"step": "finetune", "epochs": 1, "limit": 320, "batch": 16},
           {"step": "quantize", "preset": "int8", "quantizer": "qat", "epochs": 1, "limit": 320, "batch": 16},
           {"step": "export", "input-shape": [7, 1, 8, 8]}]}
J
pare compress recipe.json --quiet >out 2>log || cat log
# The fraction of zeros of all four weights, to one digit: quantization adds some.
pare inspect --weights --json a.onnx | sed -n 's/.*"zeros": \(0.[0-9]\).*/\1/p'
# A fixed batch size that does not divide the number of items works as well.
pare eval a.onnx --data digits | head -1
pare eval --data digits --threads 1 a.onnx --json | grep '"loss"' | cut -c 1-14 >a
pare eval --data digits --threads 1 a.steps/03-quantize.onnx --json | grep '"loss"' | cut -c 1-14 >b
cmp a b && echo the same loss
