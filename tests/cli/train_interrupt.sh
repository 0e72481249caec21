# Ctrl-C writes a checkpoint and prints how to resume; the result is that of an uninterrupted run.
pare new lenet --input 1,8,8 -o m.onnx
opts="--data digits --limit 320 --epochs 40 --batch 32 --optimizer adam --threads 1"
pare train m.onnx $opts --quiet -o a.onnx
pare train m.onnx $opts -o b.onnx >log 2>message &
job=$!
while [ ! -s log ]; do sleep 0.01; done
kill -INT $job
wait $job
echo exit code $?
sed 's/epoch [0-9]*/epoch N/; s/[0-9]* steps/N steps/' message
ls b.onnx*
pare train m.onnx $opts --quiet -o b.onnx --checkpoint b.onnx.checkpoint.safetensors --resume &&
    cmp a.onnx b.onnx && echo the same bytes
