# Text, truncated and empty files, and a folder, as model and as input.
echo "this is not a model" >text.onnx
head -c 700 models/tiny_cnn.onnx >short.onnx
: >empty.onnx
mkdir folder.onnx
for f in text short empty folder; do
    pare inspect $f.onnx
    echo $? >&2
done
echo "this is not an array" >text.npy
head -c 130 models/add_b.npy >short.npy
head -c 300 models/add_in.npz >short.npz
for f in text.npy short.npy short.npz; do
    pare run models/add.onnx --input $f
    echo $? >&2
done
pare run models/add.onnx --input models/add.onnx
