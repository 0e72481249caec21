# Models with several inputs: a .npz with an array for each; masks and residual sums stay float.
pare quantize models/tiny_bert.onnx --preset int8 --data models/tiny_bert.npz --batch 4 -o q.onnx
pare quantize models/tiny_bert.onnx --preset int8 --data models/tiny_bert.npz --limit 4 --batch 4 \
    -q -o l.onnx && echo "4 of 8 items"
pare run q.onnx --input models/tiny_bert.npz -o q.npy >/dev/null
pare run models/tiny_bert.onnx --input models/tiny_bert.npz --check q.npy --rtol 0 --atol 0.05 \
    2>&1 | tail -1
for preset in int8-weights w4; do
    pare quantize models/tiny_bert.onnx --preset $preset -o $preset.onnx | sed -n 2,3p
done
pare quantize models/tiny_bert.onnx --preset int8 --data models/add_in.npz -o bad.onnx
pare quantize models/tiny_bert.onnx --preset int8 --data digits -o bad.onnx
pare quantize models/tiny_bert.onnx --preset int8 --data models/tiny_bert.npz --scale 2 -o bad.onnx
ls
