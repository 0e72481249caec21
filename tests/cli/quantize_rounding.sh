# quantize_rounding.sh - weights rounded by the data: presets, quantizer gptq, rounding of others, errors.
pare new lenet --input 1,8,8 -o m.onnx
for preset in w4a8 w4a4 w3; do
    pare quantize m.onnx --preset $preset --data digits --limit 100 --rounding-items 32 --threads 1 -o $preset.onnx |
        grep -o 'rounding.*layers\|[0-9]* layers quantized'
    pare inspect $preset.onnx >/dev/null
done
pare quantize m.onnx --preset w4 --rounding gptq --data digits --limit 100 --rounding-items 32 --threads 1 \
    --format nbits -o n.onnx | grep -o 'rounding.*layers'
pare quantize m.onnx --preset w4a8 --rounding nearest --data digits --limit 100 --threads 1 -o r.onnx |
    grep -c rounding || true
config='[{"op_types": ["default"], "quant_types": ["weight"], "quant_bits": 2, "quant_dtype": "int"}]'
pare quantize m.onnx --quantizer gptq --config "$config" --data digits --limit 100 --rounding adaround \
    --rounding-steps 5 --rounding-items 32 --threads 1 -o a.onnx | grep -o 'rounding.*layers'
pare quantize m.onnx --quantizer gptq --config "$config" -o b.onnx || echo "exit code $?"
pare quantize m.onnx --preset w4 --rounding gptq -o b.onnx || echo "exit code $?"
pare quantize m.onnx --preset w4 --rounding best --data digits -o b.onnx || echo "exit code $?"
