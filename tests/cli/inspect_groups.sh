pare inspect --groups models/tiny_cnn.onnx
