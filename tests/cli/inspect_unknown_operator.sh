# A model with an operator of an unknown domain can be inspected.
pare inspect models/unknown_operator.onnx
