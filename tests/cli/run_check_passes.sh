# Outputs equal the expected ones.
pare run models/add.onnx --check models/add_correct
