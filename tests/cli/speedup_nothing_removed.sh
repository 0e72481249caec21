# Removing nothing prints a note; it is an error if layers are named and no channel of them is removed.
pare new lenet --input 1,28,28 --seed 1 -o m.onnx >/dev/null
pare prune m.onnx --sparsity 0.5 -q -o level.onnx >/dev/null
try() { echo "--- $*"; pare "$@" 2>&1 >out.txt; echo "exit code $?"; grep ^parameters out.txt | tr -s ' '; }
try prune m.onnx --sparsity 0.5 --speedup --no-verify -q -o l1.onnx
try prune m.onnx --pruner level --sparsity 0.5 --speedup --no-verify -q -o a.onnx
try speedup level.onnx --no-bench --no-verify -o b.onnx
try prune m.onnx --config '[{"sparsity": 0.05, "op_names": ["conv1"]}]' --speedup --no-verify -q -o c.onnx
try prune m.onnx --pruner level --config '[{"sparsity": 0.5, "op_names": ["conv1", "fc1"]}]' --speedup \
    --no-verify -q -o d.onnx
try prune m.onnx --pruner l1 --config '[{"sparsity": 0.5, "op_types": ["default"], "granularity": "element"}]' --speedup \
    --no-verify -q -o e.onnx
ls *.onnx
