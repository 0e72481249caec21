# Layers and weights as JSON.
pare inspect --json --weights models/tiny_text.onnx
