# A fixed batch of 1: calibration uses it, training reports how to change it, export frees it.
pare new lenet --input 1,8,8 -o free.onnx
pare export free.onnx --input-shape 1,1,8,8 -o one.onnx
pare quantize one.onnx --preset int8 --data digits --threads 1 -o int8.onnx | tail -n 1
pare train one.onnx --data digits --epochs 1 -o t.onnx
pare export one.onnx --free-batch -o any.onnx
pare train any.onnx --data digits --epochs 1 --quiet -o t.onnx && echo trained
pare export any.onnx --free-batch -o again.onnx
