# Errors are reported and no file is written.
pare new lenet --input 1,28,28 --seed 1 -o m.onnx >/dev/null
try() { echo "--- $*"; pare quantize m.onnx "$@"; echo "exit code $?"; }
exec 2>&1
try
try --preset int9
try --preset int8-weights --config '[]'
try --preset int8-weights --format qlinear
try --preset int8-weights --format nbits
try --preset w4 --group-size -2
try --preset w4 --range best
try --preset w4 --group-size 48 --format nbits
try --preset int8-weights --quantizer qatt
try --preset int8-weights --epochs 3
try --preset int8-weights -o m.onnx
try --preset int8-weights -o out.pth
try --preset int8-weights --load-calibration nowhere.json
try --quantizer naive
try --config '[{"quant_types": ["weight"], "quant_bits": 8, "op_types": ["default"]}]'
q() { try --quantizer qat --config "[{$1, \"op_types\": [\"Conv2d\"]}]" -o out.onnx; }
q '"quant_types": ["weight"], "quant_bits": 0'
q '"quant_types": ["weight"], "quant_bits": 40'
q '"quant_types": ["weight"], "quant_bits": 17'
q '"quant_types": ["wieght"], "quant_bits": 8'
q '"quant_types": [], "quant_bits": 8'
q '"quant_bits": 8'
q '"quant_types": ["weight", "input"], "quant_bits": {"weight": 8}'
q '"quant_types": ["weight"], "quant_bits": 8, "quant_dtype": "float"'
q '"quant_types": ["weight"], "quant_bits": 8, "quant_scheme": "per_row"'
q '"quant_types": ["weight"], "quant_bits": 8, "quant_start_step": 10'
q '"quant_types": ["output"], "quant_bits": 8'
try --quantizer qat -o out.onnx --config '[{"quant_types": ["weight"], "quant_bits": 8,
    "op_types": ["ReLU"]}]'
try --quantizer naive -o out.onnx --config '[{"quant_types": ["input"], "quant_bits": 8,
    "op_types": ["Conv2d"]}]'
try --quantizer dorefa -o out.onnx --config '[{"quant_types": ["weight"], "quant_bits": 8,
    "quant_scheme": "per_channel_affine", "op_types": ["Conv2d"]}]'
try --quantizer bnn -o out.onnx --config '[{"quant_types": ["output"], "quant_bits": 1,
    "op_names": ["conv1"]}]'
pare quantize m.onnx --preset int8-weights -q -o good.onnx --calibration good.json
try --preset w4 --load-calibration good.json -o out.onnx
echo '{"conv1": 3}' >bad.json
try --preset w4 --load-calibration bad.json -o out.onnx
echo '[1, 2' >bad.json
try --preset w4 --load-calibration bad.json -o out.onnx
ls
