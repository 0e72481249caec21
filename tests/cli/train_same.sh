# The same seed gives the same bytes, also when killed in the middle of an epoch and resumed.
pare new lenet --input 1,8,8 -o m.onnx
opts="--data digits --limit 600 --epochs 6 --optimizer adam --threads 1 --seed 3 --pad 1 --keep-best -q"
keep="--checkpoint k.safetensors --checkpoint-steps 3"
pare train m.onnx $opts -o a.onnx
pare train m.onnx $opts -o b.onnx && cmp a.onnx b.onnx && echo the same bytes
pare train m.onnx $opts $keep -o c.onnx &
job=$!
while [ ! -s k.safetensors ]; do sleep 0.01; done
kill -9 $job
wait $job 2>/dev/null
[ -e c.onnx ] || echo killed in time
pare train m.onnx $opts $keep -o c.onnx --resume && cmp a.onnx c.onnx &&
    echo the same bytes after kill -9
