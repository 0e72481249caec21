pare run models/add.onnx --check models/add_wrong
echo $? >&2
pare run models/add.onnx --check models/add_wrong --atol 1 | tail -1
pare run models/add.onnx --check models/nowhere
