# A quantized checkpoint loaded into a new model that is compressed in the same way: scales, zero
# points and weights are the saved ones.
config='[{"quant_types": ["weight", "input"], "quant_bits": 8, "op_types": ["Linear"]}]'
for seed in 1 2; do
    pare new mlp --input 1,8,8 --seed $seed -o new.onnx >/dev/null
    pare quantize new.onnx --quantizer qat --config "$config" --data digits --epochs 1 --threads 1 \
        --checkpoint saved.safetensors --resume --calibration $seed.json -q -o $seed.onnx 2>/dev/null
done
cmp 1.json 2.json && grep -c weight_scale 1.json
cmp 1.onnx 2.onnx && echo the same file
