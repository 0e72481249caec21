# Weight-only quantization without data: presets, files, scales and ranges.
pare new lenet --input 1,28,28 --seed 1 -o m.onnx >/dev/null
weights='[{"quant_types": ["weight"], "quant_bits": 8, "op_types": ["default"]}]'
pare quantize m.onnx --preset int8-weights -o a.onnx
pare quantize m.onnx --preset w4 -q -o b.onnx --calibration b.json --model-out b.npz
pare inspect b.onnx 2>/dev/null | sed -n '1,12p'
pare quantize m.onnx --preset w4 -q -o c.onnx --load-calibration b.json
cmp b.onnx c.onnx && echo "the same bytes with loaded scales"
pare quantize m.onnx --preset w4 --group-size 32 --range minmax --format nbits -o d.onnx
pare inspect d.onnx 2>/dev/null | tail -1
pare run d.onnx --seed 1 2>/dev/null >/dev/null || echo "d.onnx does not run"
for quantizer in naive dorefa bnn lsq lsq_plus pact qat; do
    pare quantize m.onnx --quantizer $quantizer --config "$weights" -o $quantizer.onnx | tail -2
    pare run $quantizer.onnx --seed 1 2>/dev/null >/dev/null || echo "$quantizer does not run"
done
pare quantize m.onnx --quantizer naive --config "$weights" --json -o n.onnx | sed -n '1,20p'
pare quantize m.onnx --preset int8-weights -q && ls m-quantized.onnx
