# Dependency groups of layers.
pare inspect --groups models/tiny_cnn.onnx
