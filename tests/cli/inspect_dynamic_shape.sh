# --shape sets a named free dimension; --weights lists the weights.
pare inspect --shape length=7 --weights models/tiny_text.onnx
