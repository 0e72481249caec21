# Outputs that differ from the expected ones, and a missing folder of expected outputs.
pare run models/add.onnx --check models/add_incorrect
echo $? >&2
pare run models/add.onnx --check models/add_incorrect --atol 1 | tail -1
pare run models/add.onnx --check models/nowhere
