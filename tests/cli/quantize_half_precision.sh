# Presets fp16 and bf16: weights in half precision, computation in half or float; float32 in- and outputs.
pare new lenet --input 1,28,28 --seed 1 -o m.onnx >/dev/null
pare quantize m.onnx --preset fp16 -o h.onnx
pare inspect h.onnx 2>/dev/null | sed -n '2,3p;$p'
pare quantize m.onnx --preset fp16 --compute float -o w.onnx
pare inspect -v w.onnx 2>/dev/null | sed -n "/^intake/p;\$p"
pare quantize m.onnx --preset bf16 --json -o b.onnx
pare quantize m.onnx --preset bf16 --compute half -o c.onnx
for batch in 1 4; do
    pare run m.onnx --seed 3 --batch $batch -o y.npz >/dev/null 2>&1
    for f in h:1e-3 w:1e-3 b:1e-2 c:2e-2; do
        pare run ${f%:*}.onnx --seed 3 --batch $batch --check y.npz --rtol 0 --atol ${f#*:} >o 2>&1 ||
            tail -1 o
    done
done
pare quantize h.onnx --preset fp16 -o again.onnx 2>&1
pare quantize m.onnx --preset fp16 --quantizer ptq -o x.onnx 2>&1 | head -2
pare quantize m.onnx --preset int8-weights --compute half -o x.onnx 2>&1 | head -2
ls again.onnx x.onnx 2>/dev/null || echo "no file is written"
pare new mlp --input 1,8,8 --seed 1 -o n.onnx >/dev/null
pare quantize n.onnx --preset fp16 --data digits --quiet -o d.onnx && pare inspect d.onnx 2>/dev/null | tail -1
pare quantize n.onnx --preset fp16 --data digits -o d.onnx 2>/dev/null | grep -v '^float:\|^converted'
# Layers that read dequantized values compute in float32, without a Cast after DequantizeLinear.
pare new lenet --input 1,28,28 --seed 1 -o part.onnx >/dev/null
pare quantize part.onnx --preset int8-weights --quiet -o w8.onnx
pare quantize w8.onnx --preset fp16 --quiet -o w8_half.onnx
pare inspect w8_half.onnx | tail -n 1
# What is left of a quantized model is less than the Cast nodes that it would need.
pare new resnet20 --input 1,8,8 --width 0.25 --seed 1 -o n.onnx >/dev/null
pare quantize n.onnx --preset int8-weights --quiet -o n8.onnx
pare quantize n8.onnx --preset fp16 -o n8_half.onnx 2>&1
ls n8_half.onnx 2>/dev/null || echo "no file is written"
