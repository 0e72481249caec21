# Networks that cannot be created.
pare new lenet -o x.onnx
pare new lenett --input 1,28,28 -o x.onnx
pare new lenet --input 28,28 -o x.onnx
pare new lenet --input 1,2,2 -o x.onnx
pare new mlp --input 1,8,8 --classes 0 -o x.onnx
pare new mlp --input 1,8,8 -o nowhere/x.onnx
ls
