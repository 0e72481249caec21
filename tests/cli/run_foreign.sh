pare run models/foreign.onnx
