# Errors are reported.
pare new mlp --input 1,8,8 -o m.onnx >/dev/null
pare new mlp --input 1,8,8 --classes 4 -o few.onnx >/dev/null
pare new mlp --input 3,32,32 -o big.onnx >/dev/null
try() { echo "--- $*"; pare train "$@"; echo "exit code $?"; }
exec 2>&1
try m.onnx
try m.onnx --data nowhere
try nowhere.onnx --data digits
try few.onnx --data digits
try big.onnx --data digits
try m.onnx --data digits -o m.onnx
try m.onnx --data digits -o nowhere/x.onnx
try m.onnx --data digits --momentun 0.9
try m.onnx --data digits --optimizer adam --nesterov
try m.onnx --data digits --optimizer rmsprop --teacher m.onnx --alpha 0.5
try m.onnx --data digits --optimizer adma
try m.onnx --data digits --loss mse
try m.onnx --data digits --resume
try m.onnx --data digits --freeze fc9.weight
try m.onnx --data digits --teacher big.onnx
try m.onnx --data digits --optimizer sgd --lr 1e9 --schedule constant --epochs 2 --threads 1
printf 'not data' >bad.npz
try m.onnx --data bad.npz
mkdir labels
{ printf '\0\0\10\3\0\0\0\2\0\0\0\10\0\0\0\10'; head -c 128 /dev/zero; } >labels/train-images-idx3-ubyte
printf '\0\0\10\1\0\0\0\2\0\14' >labels/train-labels-idx1-ubyte
try m.onnx --data labels --valid none
printf 'not a checkpoint' >bad.safetensors
try m.onnx --data digits --checkpoint bad.safetensors --resume
ls
mkdir folder
try m.onnx --data digits --checkpoint m.onnx
try m.onnx --data digits --checkpoint folder
try m.onnx --data digits --checkpoint nowhere/k.safetensors
try m.onnx --data digits --checkpoint x -o x
try m.onnx --data digits --teacher few.onnx -o few.onnx
try m.onnx --data digits --distill-layers fc1
try m.onnx --data digits --distill-lambda 2
try m.onnx --data digits --teacher m.onnx --distill-layers fc1,fcl2 --epochs 1
try m.onnx --data digits --teacher m.onnx --distill-layers fc1=fc2 --epochs 1
try m.onnx --data digits --teacher m.onnx --distill-layers fc1 --distill-method mean
