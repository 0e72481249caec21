# Masked channels are taken out: from the weights, from a file of masks, and right after pruning.
pare new lenet --input 1,28,28 --seed 1 -o m.onnx >/dev/null
pare prune m.onnx --pruner l1 --sparsity 0.5 -q -o masked.onnx --masks masks.pth
say() { pare "$@" 2>/dev/null | sed 's/outputs: .*/outputs: .../'; }
say speedup masked.onnx --no-bench -o a.onnx
say speedup m.onnx --masks masks.pth --no-bench --quiet -o b.onnx
cmp a.onnx b.onnx && echo "the same bytes"
say speedup masked.onnx --round-to 8 --no-bench --no-verify -o c.onnx
say speedup masked.onnx --no-bench --json -o d.onnx | grep -c '"name"'
pare prune m.onnx --pruner l1 --sparsity 0.5 --speedup -o e.onnx 2>/dev/null | grep -c smaller
cmp a.onnx e.onnx && echo "the same bytes"
pare inspect a.onnx | head -20
