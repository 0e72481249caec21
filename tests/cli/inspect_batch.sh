# --batch sets the free batch dimension.
pare inspect --batch 4 models/tiny_cnn.onnx | tail -n +4
