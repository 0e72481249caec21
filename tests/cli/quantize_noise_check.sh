# The checker after quantization: noise of tensors, error of outputs, tensors that stay float.
set='--data models/tiny_bert.npz --batch 4'
u8='"quant_bits": 8, "quant_dtype": "uint", "quant_scheme": "per_tensor_affine"'
pare quantize models/tiny_bert.onnx --quantizer ptq --observer minmax $set -o m.onnx --config \
    "[{\"op_names\": [\"mask\", \"head\"], \"quant_types\": [\"output\"], $u8}]"
pare quantize models/tiny_bert.onnx --quantizer ptq --observer minmax $set -o m.onnx --config \
    "[{\"op_names\": [\"mask\"], \"quant_types\": [\"output\"], $u8}]"
pare quantize models/tiny_bert.onnx --quantizer ptq $set -q -o m.onnx --config \
    '[{"op_names": ["o"], "quant_types": ["weight"], "quant_bits": 2, "quant_dtype": "int"}]'
pare quantize models/tiny_bert.onnx --preset int8 $set -q --json -o j.onnx |
    sed -n '/"check"/,/]/p' | grep -v signal
# Outputs with more noise than signal, and no activation to blame; the range is that of 2 bits.
pare new lenet --input 1,8,8 --seed 1 -o l.onnx >/dev/null
pare quantize l.onnx --quantizer dorefa --data digits --epochs 0 --threads 1 -o d.onnx --config \
    '[{"quant_types": ["weight"], "quant_bits": 2, "op_types": ["Linear"]}]' 2>&1 |
    sed -n '/accuracy/d; s/-*[0-9.]* dB/N dB/; /^pare\|^layer\|^fc/p'
