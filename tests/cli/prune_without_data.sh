# Pruning without data: tables, files, and contents of the written model.
pare new lenet --input 1,28,28 --seed 1 -o m.onnx >/dev/null
pare prune m.onnx --sparsity 0.75 -o level.onnx --masks level.pth --model-out level.safetensors
pare prune m.onnx --pruner l1 --sparsity 0.5 -o l1.onnx
pare prune m.onnx --pruner fpgm --config '[{"sparsity": 0.5, "op_types": ["Conv2d"]},
    {"exclude": true, "op_names": ["conv1"]}]' -o fpgm.onnx
pare prune m.onnx --pruner nm --config '[{"sparsity": 0.5, "op_types": ["Linear"]}]' -o nm.onnx
pare prune m.onnx --mode balance --balance-gran 5 --sparsity 0.7 -q -o balance.onnx --masks b.npz
pare prune m.onnx --pruner l2 --mode global --sparsity 0.3 -q -o global.onnx
# Masks from a file give the same model.
pare apply m.onnx --masks level.pth -o applied.onnx
cmp level.onnx applied.onnx && echo "the same bytes"
pare prune m.onnx --sparsity 0.75 -q -o again.onnx && cmp level.onnx again.onnx && echo "the same bytes again"
pare prune m.onnx --sparsity 0.75 -q -o fixed.onnx --input-shape 4,1,28,28
pare inspect fixed.onnx | head -3
ls
