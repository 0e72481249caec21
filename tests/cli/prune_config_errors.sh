# Mistakes in a config_list are reported and no file is written.
pare new lenet --input 1,8,8 --seed 1 -o m.onnx >/dev/null
try() { pare prune m.onnx --config "$@" -o out.onnx; echo "exit code $?"; }
exec 2>&1
try nowhere.json
printf '[\n  {"sparsity": 0.5,\n   "op_types": ["Conv2d"],}\n]\n' >bad.json
try bad.json
printf "[{'sparsity': 0.5, 'op_types': ['default']}]" >python.json
try python.json
try '{"sparsity": 0.5, "op_types": ["default"]}'
try '[]'
try '[{"sparsity": 0.5}]'
try '[{"sparsity": 0.5, "op_types": "default"}]'
try '[{"sparsity": 0.5, "op_types": ["Conv2D"]}]'
try '[{"sparsity": 0.5, "op_names": ["conv3"]}]'
try '[{"sparsity": 0.5, "op_names": ["re:conv(1"]}]'
try '[{"sparsity": 0.5, "op_names": ["re:block.*"]}]'
try '[{"sparsity": 0.5, "op_types": ["Linear"], "op_names": ["conv1"]}]'
try '[{"sparsity": 1, "op_types": ["default"]}]'
try '[{"sparsity": "half", "op_types": ["default"]}]'
try '[{"sparsity": true, "op_types": ["default"]}]'
try '[{"sparcity": 0.5, "op_types": ["default"]}]'
try '[{"op_types": ["default"]}]'
try '[{"exclude": true, "op_types": ["default"]}]'
try '[{"sparsity": 0.5, "granularity": "row", "op_types": ["default"]}]'
try '[{"sparsity": 0.5, "quant_bits": {"weight": 8}, "op_types": ["default"]}]'
ls
