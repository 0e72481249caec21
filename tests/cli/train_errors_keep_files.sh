# After any error, an existing checkpoint and model are unchanged.
exec 2>&1
pare new mlp --input 1,8,8 -o m.onnx >/dev/null
pare new mlp --input 1,8,8 --width 0.5 -o thin.onnx >/dev/null
run="--limit 64 --epochs 3 --threads 1 --quiet --checkpoint k.safetensors --resume -o out.onnx"
pare train m.onnx --data digits $run --epochs 1
cat k.safetensors out.onnx >before
try() {
    echo "--- $1"
    shift
    pare train "$@" $run
    echo "exit code $?"
    cat k.safetensors out.onnx | cmp - before
}
images() { printf '\0\0\10\3\0\0\0\2\0\0\0\10\0\0\0\10'; head -c "$1" /dev/zero; }
mkdir short label ghost
images 100 >short/train-images-idx3-ubyte
images 128 >label/train-images-idx3-ubyte
printf '\0\0\10\1\0\0\0\2\0\1' >short/train-labels-idx1-ubyte
printf '\0\0\10\1\0\0\0\2\0\14' >label/train-labels-idx1-ubyte
try "data that ends too early" m.onnx --data short --valid none
try "a label out of range" m.onnx --data label --valid none
try "no data" m.onnx --data ghost --valid none
try "a checkpoint of another shape" thin.onnx --data digits
(trap '' XFSZ; ulimit -f 20; try "a full disk" m.onnx --data digits)
ls
