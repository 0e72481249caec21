# same_result.sh - 1, 2 and 4 processes with the same global batch: bit-identical masks and, after 50 steps, the
# same weights up to float rounding.  The last batch has 2 items, so that two of 4 processes have none.
pare new lenet --input 1,8,8 -o m.onnx
pare new resnet20 --input 1,8,8 --width 0.25 -o bn.onnx
opts="--data digits --limit 402 --batch 8 --epochs 1 --optimizer sgd --schedule constant --threads 1 --seed 3 --valid none -q"
config='[{"quant_types": ["weight", "input", "output"], "op_types": ["Conv2d", "Linear"],
          "quant_bits": {"weight": 8, "input": 8, "output": 8}}]'

# compare NAME TOLERANCE COMMAND...: run the command on 1, 2 and 4 processes
compare() {
    name=$1 tolerance=$2
    shift 2
    for n in 1 2 4; do
        mpi $n pare "$@" $opts --checkpoint $name$n.safetensors -o $name$n.onnx >log 2>&1 ||
            { cat log; exit 1; }
        echo "$name, $n: $(compare_tensors ${name}1.safetensors $name$n.safetensors $tolerance)"
        compare_tensors ${name}1.safetensors $name$n.safetensors $tolerance >log
    done
}

compare sgd 1e-6 train m.onnx
compare momentum 1e-6 train m.onnx --momentum 0.9 --weight-decay 1e-3 --clip-norm 1
compare syncbn 3e-5 train bn.onnx --sync-bn
compare ema 1e-6 train m.onnx --ema 0.9
compare repair 1e-5 prune m.onnx --pruner l1 --sparsity 0.4 --dependency-aware
compare level 1e-6 prune m.onnx --pruner level --sparsity 0.6
compare taylor 1e-6 prune m.onnx --pruner taylor --sparsity 0.4 --training-steps 10
compare apoz 1e-6 prune m.onnx --pruner apoz --sparsity 0.4 --training-steps 10
compare qat 1e-6 quantize m.onnx --quantizer qat --config "$config"
compare lsq 1e-6 quantize m.onnx --quantizer lsq --config "$config"
# Pairs are in one process if its part of every batch has an even size.
opts=$(echo "$opts" | sed 's/402/400/')
compare mixup 1e-6 train m.onnx --mixup 0.4 --cutout 3
