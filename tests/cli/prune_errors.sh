# Errors are reported and no file is written.
pare new lenet --input 1,28,28 --seed 1 -o m.onnx >/dev/null
pare prune m.onnx --sparsity 0.5 -q -o good.onnx --masks good.npz
try() { echo "--- $*"; pare "$@"; echo "exit code $?"; }
exec 2>&1
try prune m.onnx
try prune m.onnx --sparsity 0.5 --config '[]'
try prune m.onnx --sparsity 1
try prune m.onnx --sparsity 0.0001 --pruner l1
try prune m.onnx --sparsity 0.5 --pruner levl
try prune m.onnx --sparsity 0.5 --pruner slim
try prune m.onnx --sparsity 0.5 --pruner taylor
try prune m.onnx --sparsity 0.5 --epochs 3
try prune m.onnx --sparsity 0.5 --mode balance --balance-gran 7
try prune m.onnx --sparsity 0.5 --mode golbal
try prune m.onnx --sparsity 0.5 -o m.onnx
try prune m.onnx --sparsity 0.5 -o out.pth
try prune m.onnx --sparsity 0.5 --masks masks.txt
try prune m.onnx --sparsity 0.5 --masks nowhere/masks.pth
try prune m.onnx --sparsity 0.5 --input-shape 1,3,28,28 -o s.onnx
try prune m.onnx --config nowhere.json
try prune m.onnx --config '[{"sparsity": 0.5}]'
try prune m.onnx --config '[{"sparsity": "much", "op_types": ["default"]}]'
try prune m.onnx --config '[{"sparsity": 1.6, "op_types": ["default"]}]'
try prune m.onnx --config '[{"sparsity": 0.5, "op_types": "Conv2d"}]'
try prune m.onnx --config '[{"sparsity": 0.5, "op_types": ["Conv2D"]}]'
try prune m.onnx --config '[{"sparsity": 0.5, "op_names": ["conv3"]}]'
try prune m.onnx --config '[{"sparsty": 0.5, "op_names": ["conv1"]}]'
try prune m.onnx --config '[{"sparsity": 0.5, "op_names": ["re:conv["]}]'
try prune m.onnx --config '[{"sparsity": 0.5, "op_types": ["default"]},'
try prune m.onnx --pruner slim --config '[{"sparsity": 0.5, "op_types": ["Conv2d"]}]'
try prune m.onnx --sparsity 0.5 --plugin nowhere.so
try prune m.onnx --sparsity 0.5 --plugin m.onnx
try apply m.onnx --masks nowhere.pth
try apply m.onnx --masks m.onnx
try apply m.onnx
pare new lenet --input 1,28,28 --width 0.5 -o thin.onnx >/dev/null
pare new mlp --input 1,8,8 -o other.onnx >/dev/null
try apply thin.onnx --masks good.npz
try apply other.onnx --masks good.npz
pare prune m.onnx --sparsity 0.5 -q -o x.onnx --model-out weights.npz
rm x.onnx
try apply m.onnx --masks weights.npz
pare quantize m.onnx --preset int8-weights -q -o int8.onnx
try prune int8.onnx --sparsity 0.5
rm int8.onnx
ls
