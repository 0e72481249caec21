# Every network can be created and inspected; the same seed gives the same bytes.
for n in lenet mlp resnet20 resnet18-cifar vgg16-cifar mobilenetv2-cifar vit-tiny; do
    pare new $n --input 3,32,32 --classes 10 -o $n.onnx || exit
    pare inspect $n.onnx >/dev/null || exit
done
pare new lenet --input 1,28,28 --seed 5 -o a.onnx
pare new lenet --input 1,28,28 --seed 5 -o b.onnx
pare new lenet --input 1,28,28 --seed 6 -o c.onnx
cmp a.onnx b.onnx && ! cmp -s a.onnx c.onnx && pare inspect a.onnx
