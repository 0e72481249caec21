# Weights in Constant nodes, batch normalization in training mode, merged parameters, Softmax.
pare inspect -v models/odd_export.onnx
pare export models/odd_export.onnx -o same.onnx
cmp same.onnx models/odd_export.onnx
pare export models/odd_export.onnx --intake -o plain.onnx
pare inspect -v plain.onnx
pare inspect -v --keep-training-mode models/odd_export.onnx | grep '^intake'
pare prune models/odd_export.onnx --pruner l1 --sparsity 0.5 --speedup -o pruned.onnx | tail -n 1
pare quantize models/odd_export.onnx --preset int8-weights -o int8.onnx | tail -n 1
pare inspect int8.onnx | grep -c Dequantize
pare train models/odd_export.onnx --data digits --epochs 6 --optimizer adam --lr 1e-2 --seed 1 \
    --quiet -o trained.onnx
pare eval trained.onnx --data digits | awk '/^top-1/ { print ($2 + 0 > 40) ? "learned" : $0 }'
