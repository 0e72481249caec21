# Layer distillation: a student learns from the teacher's layers alone.
pare new lenet --input 1,8,8 --seed 1 -o teacher.onnx >/dev/null
pare new lenet --input 1,8,8 --seed 2 -o student.onnx >/dev/null
pare train teacher.onnx --data digits --epochs 8 --optimizer adam --lr 3e-3 --schedule onecycle \
    --batch 32 --threads 1 --quiet -o taught.onnx
for method in mse kl; do
    pare train student.onnx --data digits --epochs 8 --optimizer adam --lr 3e-3 --threads 1 --json -q \
        --batch 32 --schedule onecycle --teacher taught.onnx --alpha 0 --beta 0 \
        --distill-layers conv1,conv2,fc1,fc2=fc2 --distill-method $method -o $method.onnx >$method.json
    awk -v m=$method -F'[:,]' '/"top1"/ { last = $2 } END { print m, (last > 0.9 ? "learned" : last) }' \
        $method.json
done
# Resuming gives the same bytes.
opts="--data digits --schedule constant --limit 320 --batch 32 --threads 1 --quiet --teacher taught.onnx --distill-layers fc1"
pare train student.onnx $opts --epochs 4 -o a.onnx
pare train student.onnx $opts --epochs 2 --checkpoint k.safetensors -o b.onnx
pare train student.onnx $opts --epochs 4 --checkpoint k.safetensors --resume -o b.onnx
cmp a.onnx b.onnx && echo the same bytes
