# killed_process.sh - a killed process ends the job within 30 seconds with a complete checkpoint, from which four
# processes resume to the same result, and two to a similar one: their sums have another order, and hundreds of steps
# amplify rounding.
pare new lenet --input 1,8,8 -o m.onnx
opts="--data digits --limit 320 --batch 8 --epochs 12 --optimizer sgd --schedule constant --threads 1 --seed 3 --valid none"
checkpoint="--checkpoint k.safetensors --checkpoint-steps 5"

mpi 4 pare train m.onnx $opts --checkpoint whole.safetensors -o whole.onnx -q
mpi 4 pare train m.onnx $opts $checkpoint -o k.onnx -q >log 2>&1 &
job=$!
while [ ! -s k.safetensors ]; do sleep 0.05; done
victim=$(pgrep -f "pare train m.onnx .*-o k.onnx" -P "$(pgrep -P $job mpirun || echo $job)" | sed -n 3p)
kill -9 "$victim"
start=$(date +%s)
if wait $job; then echo "the job succeeded"; exit 1; fi
seconds=$(($(date +%s) - start))
echo "ended after $seconds s"
[ $seconds -le 30 ]
[ ! -e k.onnx ]
cp k.safetensors half.safetensors
mpi 4 pare train m.onnx $opts $checkpoint --resume -o k.onnx -q
compare_tensors whole.safetensors k.safetensors 1e-7
mv half.safetensors k.safetensors
mpi 2 pare train m.onnx $opts $checkpoint --resume -o k2.onnx -q
compare_tensors whole.safetensors k.safetensors 1e-2
