# same.sh - 1, 2 and 4 processes with the same global batch: bit-identical masks and, after 50 steps, the
# same weights up to float rounding.  The last batch has 2 items, so that two of 4 processes have none.
pare new lenet --input 1,8,8 -o m.onnx
pare new resnet20 --input 1,8,8 --width 0.25 -o bn.onnx
opts="--data digits --limit 402 --batch 8 --epochs 1 --threads 1 --seed 3 --valid none -q"
places='[{"quant_types": ["weight", "input", "output"], "op_types": ["Conv2d", "Linear"],
          "quant_bits": {"weight": 8, "input": 8, "output": 8}}]'

# three NAME TOLERANCE COMMAND...
three() {
    name=$1 tolerance=$2
    shift 2
    for n in 1 2 4; do
        mpi $n pare "$@" $opts --checkpoint $name$n.safetensors -o $name$n.onnx >log 2>&1 ||
            { cat log; exit 1; }
        echo "$name, $n: $(near ${name}1.safetensors $name$n.safetensors $tolerance)"
        near ${name}1.safetensors $name$n.safetensors $tolerance >log
    done
}

three sgd 1e-6 train m.onnx
three momentum 1e-6 train m.onnx --momentum 0.9 --weight-decay 1e-3 --clip-norm 1
three syncbn 3e-5 train bn.onnx --sync-bn
three level 1e-6 prune m.onnx --pruner level --sparsity 0.6
three taylor 1e-6 prune m.onnx --pruner taylor --sparsity 0.4 --training-steps 10
three apoz 1e-6 prune m.onnx --pruner apoz --sparsity 0.4 --training-steps 10
three qat 1e-6 quantize m.onnx --quantizer qat --config "$places"
three lsq 1e-6 quantize m.onnx --quantizer lsq --config "$places"
