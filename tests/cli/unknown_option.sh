# Mistyped and unknown options.
pare bench --thread 2 models/add.onnx
echo $? >&2
pare inspect --frobnicate models/add.onnx
echo $? >&2
pare inspect -x models/add.onnx
echo $? >&2
pare bench --threads --json models/add.onnx
echo $? >&2
pare inspect models/add.onnx --all 0
echo $? >&2
pare --thread
