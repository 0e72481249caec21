# A value of the wrong type, out of range, or missing.
pare run --seed many models/add.onnx
echo $? >&2
pare run --threads=-1 models/add.onnx
echo $? >&2
pare run models/add.onnx --seed
echo $? >&2
pare run
echo $? >&2
pare run models/add.onnx extra
