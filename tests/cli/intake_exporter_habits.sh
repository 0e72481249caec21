# Weights in Constant nodes, batch normalization in training mode, merged parameters, Softmax.
pare inspect -v models/exporter_habits.onnx
pare export models/exporter_habits.onnx -o same.onnx
cmp same.onnx models/exporter_habits.onnx
pare export models/exporter_habits.onnx --intake -o plain.onnx
pare inspect -v plain.onnx
pare inspect -v --keep-training-mode models/exporter_habits.onnx | grep '^intake'
pare prune models/exporter_habits.onnx --pruner l1 --sparsity 0.5 --speedup -o pruned.onnx | tail -n 1
pare quantize models/exporter_habits.onnx --preset int8-weights -o int8.onnx | tail -n 1
pare inspect int8.onnx | grep -c Dequantize
pare train models/exporter_habits.onnx --data digits --epochs 6 --optimizer adam --lr 1e-2 --schedule constant --seed 1 \
    --quiet -o trained.onnx
pare eval trained.onnx --data digits | awk '/^top-1/ { print ($2 + 0 > 40) ? "learned" : $0 }'
