# Free dimensions that do not work at size 1; advice of a run that removes nothing.
pare inspect models/windows.onnx --groups
pare run models/windows.onnx 2>&1 | cut -c1-31
pare run models/windows.onnx --shape height=9 2>&1 | cut -c1-31
try() { echo "--- $*"; pare "$@" --speedup --no-bench -q -o a.onnx 2>&1; }
only='[{"sparsity": 0.5, "op_names": ["conv2"]}]'
both='[{"sparsity": 0.25, "op_names": ["conv1", "conv2"]}]'
try prune models/windows.onnx --pruner l1 --config "$only"
try prune models/windows.onnx --pruner l1 --mode normal --config "$both"
try prune models/windows.onnx --pruner l1 --dependency-aware --config "$only"
pare prune models/windows.onnx --pruner l1 --sparsity 0.5 --dependency-aware --speedup --no-bench -q -o b.onnx
pare prune models/windows.onnx --sparsity 0.5 --no-bench 2>&1
echo "--- a layer with the weight of another layer"
pare prune models/tiny_text.onnx --pruner level --config '[{"sparsity": 0.5, "op_names": ["layers.1.mix_2"]}]' -q -o c.onnx 2>&1
pare inspect models/tiny_text.onnx --shape ids=1,3 | grep mix
ls *.onnx
