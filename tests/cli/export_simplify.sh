# Nodes that are not needed are removed and batch normalization is folded, for any batch; the results stay the same.
pare new resnet20 --input 3,32,32 --seed 1 -o m.onnx >/dev/null
pare export m.onnx --simplify -o s.onnx | sed 's/difference.*/difference/'
pare inspect s.onnx | head -1
pare run m.onnx --shape input=3,3,32,32 --seed 3 -o a.npy >/dev/null
pare run s.onnx --shape input=3,3,32,32 --seed 3 --check a.npy | sed 's/;.*//'
pare export s.onnx --simplify --json -o t.onnx | grep -E '"nodes'
