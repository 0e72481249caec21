# quantize_rounding.sh - weights rounded by the data or without: presets, quantizer gptq, every method, errors.
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
    --rounding-toward layer --rounding-steps 5 --rounding-items 32 --threads 1 -o a.onnx | grep -o 'rounding.*layers'
for how in mse hqq kquant; do # without data, then with: rows that are worse on the data keep the nearest levels
    pare quantize m.onnx --preset w4 --rounding $how --format nbits -o $how.onnx | grep -o 'rounding.*'
    pare quantize m.onnx --preset w4 --rounding $how --data digits --limit 100 --rounding-items 32 --threads 1 \
        -o $how.onnx | grep -o 'rounding.*layers'
done
pare quantize m.onnx --preset w4 --rounding autoround --group-size 32 --data digits --limit 100 --rounding-steps 5 \
    --rounding-toward float --rounding-items 32 --threads 1 -o auto.onnx | grep -o 'rounding.*layers'
pare quantize m.onnx --preset w4 --rounding gptq --rounding-scales kquant --data digits --limit 100 \
    --rounding-items 32 --threads 1 -o scales.onnx | grep -o 'rounding.*layers'
pare list roundings | cut -d ' ' -f 1
pare quantize m.onnx --preset w4 --rounding gptq --rounding-scales gptq --data digits -o b.onnx || echo "exit code $?"
pare quantize m.onnx --quantizer gptq --config "$config" -o b.onnx || echo "exit code $?"
pare quantize m.onnx --preset w4 --rounding gptq -o b.onnx || echo "exit code $?"
pare quantize m.onnx --preset w4 --rounding best --data digits -o b.onnx || echo "exit code $?"
