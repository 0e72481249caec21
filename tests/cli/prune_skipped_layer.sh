# A layer that the pruner cannot handle is skipped; it is an error if it is named or the only one.
m=models/sliced_weight.onnx
try() { echo "--- $*"; pare "$@"; echo "exit code $?"; }
exec 2>&1
try prune $m --pruner l1 --sparsity 0.5 -q -o a.onnx
try prune $m --pruner l1 --config '[{"sparsity": 0.5, "op_names": ["table"]}]' -q -o b.onnx
try prune $m --pruner l1 --config '[{"sparsity": 0.5, "op_types": ["default"]}, {"exclude": true,
    "op_names": ["fc1", "fc2", "fc3"]}]' -q -o c.onnx
ls
