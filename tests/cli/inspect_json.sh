pare inspect --json --weights models/tiny_text.onnx
