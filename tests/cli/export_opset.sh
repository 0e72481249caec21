# The opset is raised and the results stay the same; it cannot be lowered, nor raised beyond the newest.
pare new lenet --input 1,8,8 --seed 1 -o m.onnx >/dev/null
pare export m.onnx --opset 21 -o raised.onnx
pare inspect m.onnx | head -1
pare inspect raised.onnx | head -1
pare run m.onnx --seed 3 >a && pare run raised.onnx --seed 3 >b && cmp a b && echo "the same results"
pare export raised.onnx --opset 17 -o lower.onnx || echo $?
pare export m.onnx --opset 99 -o higher.onnx || echo $?
