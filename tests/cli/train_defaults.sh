# Training without options learns; the best epoch is written, or with --last the last one; the
# checkpoint of another optimizer is rejected.
for seed in 1 2; do
    pare new lenet --input 1,8,8 --seed $seed -o m.onnx >/dev/null
    pare train m.onnx --data digits --threads 1 >text || exit 1
    pare eval m-trained.onnx --data digits | awk '/^top-1/ { print ($2 + 0 >= 97) ? "at least 97 %" : $0 }'
done
# A rate that rises too high: the first epochs are the best ones.
rising="--lr 0.3 --warmup 200 --schedule constant --epochs 5 --threads 1"
try() {
    pare train m-trained.onnx --data digits $rising --json -q "$@" -o t.onnx >json 2>/dev/null
    epoch=$(awk -F'[:,]' '/"best_epoch"/ { print $2 + 0 }' json)
    best=$(awk -F'[:,]' '/"valid_top1"/ { if ($2 > best) best = $2 } END { printf "%.2f%%", 100 * best }' json)
    last=$(awk -F'[:,]' '/"valid_top1"/ { last = $2 } END { printf "%.2f%%", 100 * last }' json)
    written=$(pare eval t.onnx --data digits | awk '/^top-1/ { print $2 }')
    [ "$best" != "$last" ] || echo "the last epoch is the best one"
    [ "$written" = "$best" ] && echo "$*: the best epoch is written"
    [ "$written" = "$last" ] && echo "$*: the last epoch is written"
}
try
try --last
for more in "" --last; do
    pare train m-trained.onnx --data digits $rising $more -o t.onnx 2>/dev/null | grep '^\*' | sed 's/epoch [0-9]*/epoch N/'
done
pare train m.onnx --data digits --limit 64 --epochs 1 --checkpoint k.safetensors -q -o t.onnx
pare train m.onnx --data digits --limit 64 --epochs 2 --checkpoint k.safetensors --resume --optimizer sgd -q -o t.onnx 2>&1
# The schedule ends where training ends: after the steps that the pruner itself needs, and again
# after those of --epochs.
pare prune m-trained.onnx --pruner taylor --training-steps 5 --sparsity 0.5 --data digits --epochs 2 --threads 1 -q \
    --json -o p.onnx | awk -F'[:,]' '/"lr"/ { lr = $2 } END { print (lr < 1e-5) ? "taylor ends at 0" : lr }'
pare prune m-trained.onnx --pruner agp --total-iteration 3 --sparsity 0.5 --data digits --epochs 2 --threads 1 -q \
    --json -o p.onnx | awk -F'[:,]' '/"lr"/ { printf "agp, epoch %d: %s\n", ++n, ($2 < 1e-5) ? 0 : "above 0" }'
# The rate is lower for a model with attention and in quantization-aware training.
rate() {
    pare "$@" --schedule constant --data digits --limit 20 --epochs 1 --threads 1 -q --json -o r.onnx 2>/dev/null |
        awk -F'[:,]' '/"lr"/ { print $2 + 0 }'
}
pare new vit-tiny --input 1,8,8 -o v.onnx >/dev/null
rate train m.onnx
rate train v.onnx
rate quantize m.onnx --quantizer qat --preset int8
