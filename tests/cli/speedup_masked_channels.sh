# Masked channels are removed: by zeros in the weights, by a mask file, and by prune --speedup.
pare new lenet --input 1,28,28 --seed 1 -o m.onnx >/dev/null
pare prune m.onnx --pruner l1 --sparsity 0.5 -q -o masked.onnx --masks masks.pth
run() { pare "$@" 2>/dev/null | sed 's/outputs: .*/outputs: .../'; }
run speedup masked.onnx --no-bench -o a.onnx
run speedup m.onnx --masks masks.pth --no-bench --quiet -o b.onnx
cmp a.onnx b.onnx && echo "the same bytes"
run speedup masked.onnx --round-to 8 --no-bench --no-verify -o c.onnx
run speedup masked.onnx --no-bench --json -o d.onnx | grep -c '"name"'
pare prune m.onnx --pruner l1 --sparsity 0.5 --speedup -o e.onnx 2>/dev/null | grep -c smaller
cmp a.onnx e.onnx && echo "the same bytes"
pare inspect a.onnx | head -20
pare new lenet --input 1,8,8 --seed 1 -o d.onnx >/dev/null
run prune d.onnx --pruner l1 --sparsity 0.5 -q -o dm.onnx
run speedup dm.onnx --data digits --items 20 --batch 8 --no-bench --quiet -o ds.onnx | tail -3
pare speedup dm.onnx --data digits --items 20 --no-bench --json -o ds.onnx 2>/dev/null | grep items
pare speedup dm.onnx --data digits --no-verify -o ds.onnx 2>&1 | head -1
pare speedup dm.onnx --gray -o ds.onnx 2>&1 | head -1
pare speedup m.onnx --data digits -o ds.onnx 2>&1 | tail -1
