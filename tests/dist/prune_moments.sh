# prune_moments.sh - masks by statistics of inputs of 2 and 4 processes are those of one, and so are fitted weights.
pare new lenet --input 1,8,8 -o m.onnx
pare train m.onnx --data digits --limit 400 --epochs 2 --optimizer adam --threads 1 --valid none -q -o t.onnx
element='[{"op_types": ["Conv2d", "Linear"], "sparsity": 0.6, "granularity": "element"}]'
channels='[{"op_names": ["conv1", "conv2", "fc1"], "sparsity": 0.4}]'
for n in 1 2 4; do
    for p in wanda sparsegpt obs channels; do
        config=$element pruner=$p
        if [ $p = channels ]; then config=$channels pruner=obs; fi
        mpi $n pare prune t.onnx --pruner $pruner --config "$config" --items 96 --data digits --batch 24 --threads 1 \
            --valid none --recalibrate 0 --masks $p$n.npz --model-out w-$p$n.safetensors -o $p$n.onnx -q >log 2>&1 || { cat log; exit 1; }
    done
done
for p in wanda sparsegpt obs channels; do
    cmp $p'1.npz' $p'2.npz'
    cmp $p'1.npz' $p'4.npz'
    compare_tensors w-$p"1.safetensors" w-$p"2.safetensors" 1e-5 zeros
    compare_tensors w-$p"1.safetensors" w-$p"4.safetensors" 1e-5 zeros
done
