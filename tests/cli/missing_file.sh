# Files that do not exist.
pare inspect nowhere.onnx
echo $? >&2
pare run nowhere.onnx
echo $? >&2
pare run models/add.onnx --input a=nowhere.npy
echo $? >&2
pare bench models/add.onnx nowhere.onnx
