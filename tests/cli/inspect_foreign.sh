pare inspect models/foreign.onnx
