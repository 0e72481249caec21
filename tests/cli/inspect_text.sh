pare inspect --shape length=7 --weights models/tiny_text.onnx
