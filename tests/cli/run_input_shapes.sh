# --shape and --batch, and shapes that do not fit.
pare run models/tiny_text.onnx --shape ids=2,5 | cut -c1-30
pare run models/tiny_text.onnx --shape ids=2
echo $? >&2
pare run models/tiny_text.onnx --shape idz=2,5
echo $? >&2
pare run models/add.onnx --batch 7
echo $? >&2
pare run models/tiny_text.onnx --shape ids=two
