# Preset int8-dynamic: integer operators whose inputs are quantized at run time, without data.
pare new lenet --input 1,28,28 --seed 1 -o m.onnx >/dev/null
pare quantize m.onnx --preset int8-dynamic -o d.onnx
pare inspect d.onnx 2>/dev/null | tail -1
pare quantize m.onnx --preset int8-weights --format dynamic -q -o e.onnx
cmp d.onnx e.onnx && echo "the preset equals --format dynamic"
pare quantize m.onnx --preset int8-dynamic --format qdq -q -o f.onnx
pare inspect f.onnx 2>/dev/null | tail -1
for batch in 1 5; do
    pare run m.onnx --seed 3 --batch $batch -o y.npz >/dev/null 2>&1
    pare run d.onnx --seed 3 --batch $batch --check y.npz --rtol 0 --atol 0.01 2>&1 | tail -1
    pare run d.onnx --seed 3 --batch $batch -o z.npz >/dev/null 2>&1
    pare run d.onnx --seed 3 --batch $batch --reference --check z.npz --atol 1e-6 2>&1 | tail -1
done
pare quantize m.onnx --preset w4 --group-size 32 --format dynamic -q -o g.onnx
pare inspect g.onnx 2>/dev/null | tail -1
pare quantize m.onnx --quantizer group --group-size 32 --format dynamic -o h.onnx \
    --config '[{"quant_types": ["weight"], "quant_bits": 8, "op_types": ["Linear"]}]' 2>&1
ls h.onnx 2>/dev/null || echo "no file is written"
