pare inspect --all models/tiny_cnn.onnx
