"""The names of nni.compression.pytorch.quantization_speedup."""
from .._builtin import absent as _absent

ModelSpeedupTensorRT = _absent("ModelSpeedupTensorRT", "pare.quantize(model, 'int8', data=...), whose file ONNX Runtime and "
                               "pare run with integers", object)
__all__ = ["ModelSpeedupTensorRT"]
