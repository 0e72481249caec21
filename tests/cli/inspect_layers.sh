# Layers, shapes, parameters and multiply-accumulates.
pare inspect models/tiny_cnn.onnx
