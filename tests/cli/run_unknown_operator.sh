# A model with an operator of an unknown domain cannot be run.
pare run models/unknown_operator.onnx
