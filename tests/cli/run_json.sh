pare run models/add.onnx --check models/add_right --json
