# --all lists every node, not only layers.
pare inspect --all models/tiny_cnn.onnx
