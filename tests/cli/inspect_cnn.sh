pare inspect models/tiny_cnn.onnx
