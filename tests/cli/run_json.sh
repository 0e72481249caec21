# Outputs and comparison as JSON.
pare run models/add.onnx --check models/add_correct --json
