# A fixed batch of 1: calibration uses it, training frees it in memory, export in the file.
pare new lenet --input 1,8,8 -o free.onnx
pare export free.onnx --input-shape 1,1,8,8 -o one.onnx
pare inspect -v one.onnx | grep fixed_batch
pare quantize one.onnx --preset int8 --data digits --threads 1 -o int8.onnx | tail -n 1
pare train one.onnx --data digits --epochs 1 --quiet -o t.onnx && pare inspect t.onnx | grep -E '^(in|out)put  *[io]'
pare prune one.onnx --pruner l1 --sparsity 0.5 --data digits --epochs 1 --quiet -o p.onnx && pare inspect p.onnx | grep -E '^(in|out)put  *[io]'
pare export one.onnx --free-batch -o any.onnx
pare inspect any.onnx | grep free
pare export any.onnx --free-batch -o again.onnx
