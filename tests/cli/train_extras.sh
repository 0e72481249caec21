# Average of weights, mixup, cutout, warm restarts: each is resumed exactly; errors.
pare new resnet20 --input 1,8,8 --seed 1 -o m.onnx >/dev/null
try() {
    rm -f k.safetensors
    pare train m.onnx --data digits --limit 300 --epochs 3 --threads 1 --seed 3 "$@" -q -o a.onnx || exit
    pare train m.onnx --data digits --limit 300 --epochs 1 --threads 1 --seed 3 "$@" --checkpoint k.safetensors -q -o b.onnx || exit
    pare train m.onnx --data digits --limit 300 --epochs 3 --threads 1 --seed 3 "$@" --checkpoint k.safetensors --resume -q -o b.onnx || exit
    cmp a.onnx b.onnx && echo "$*: resumed exactly"
    cmp -s a.onnx plain.onnx || echo "$*: another result"
    cp a.onnx plain.onnx
}
# The default schedule depends on the number of epochs.
try --lr 0.01 --schedule constant
try --lr 0.01 --schedule constant --ema 0.9
try --lr 0.01 --schedule constant --ema 0.9 --last
try --lr 0.01 --schedule constant --mixup 0.4
try --lr 0.01 --schedule constant --cutout 4
try --lr 0.01 --schedule constant --cutout 3 --mixup 0.2 --ema 0.95
try --lr 0.01 --schedule cosine --restart 1 --restart-mult 2 --warmup 0
pare train m.onnx --data digits --limit 300 --epochs 3 --threads 1 --ema 0.9 --checkpoint k.safetensors --resume -q -o b.onnx
pare train m.onnx --data digits --limit 300 --epochs 1 --threads 1 --mixup 0.4 --checkpoint c.safetensors -q -o b.onnx
pare train m.onnx --data digits --limit 300 --epochs 2 --threads 1 --mixup 0.5 --checkpoint c.safetensors --resume -q -o b.onnx
pare quantize m.onnx --quantizer qat --config '[{"quant_types": ["weight"], "quant_bits": 8, "op_types": ["default"]}]' --data digits \
    --epochs 1 --ema 0.9 -q -o q.onnx
# An average of weights that are masked keeps the zeros.
pare prune m.onnx --pruner l1 --sparsity 0.5 --data digits --limit 300 --epochs 1 --ema 0.9 --dependency-aware --threads 1 -q -o p.onnx 2>/dev/null
pare speedup p.onnx --no-bench | grep -c "^parameters.* 2[0-9]\.[0-9]%"
