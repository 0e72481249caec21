# Layers with float16 weights and a Cast are compressed as others; layers with integer weights are
# reported by name.
pare new lenet --input 1,28,28 --seed 1 -o float.onnx >/dev/null
pare quantize float.onnx --preset fp16 --compute float --quiet -o half.onnx
pare inspect -v half.onnx
pare export half.onnx -o same.onnx >/dev/null
cmp same.onnx half.onnx
pare prune half.onnx --pruner l1 --sparsity 0.5 --speedup --quiet -o pruned.onnx >/dev/null
pare inspect pruned.onnx | tail -n 2
pare inspect pruned.onnx | head -n 1          # float16 again: half of what float32 takes
pare prune float.onnx --pruner l1 --sparsity 0.5 --speedup --quiet -o pruned_float.onnx >/dev/null
pare inspect pruned_float.onnx | head -n 1
pare quantize half.onnx --preset int8-weights -o int8.onnx | tail -n 2
pare quantize int8.onnx --preset int8-weights -o twice.onnx || echo "exit code $?"
ls twice.onnx 2>/dev/null
pare quantize float.onnx --quantizer ptq --quiet -o part.onnx --config \
    '[{"op_types": ["Conv2d"], "quant_types": ["weight"], "quant_bits": 8}]'
pare quantize part.onnx --preset int8-weights -o rest.onnx | tail -n 2
