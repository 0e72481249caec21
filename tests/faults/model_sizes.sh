#!/bin/sh
# model_sizes.sh - time and memory limits for very large and very small models.
#
# usage: model_sizes.sh PARE SHIM [all|some]      (SIZED_MODEL: the program that generates them)
# With `some`, the 3 GB of weights are a sparse file.  With `all` they are written; the model is run,
# exported, and the exported one is run, which takes 6 GB of disk.
sized_model=$(realpath "${SIZED_MODEL:?}")
. "$(dirname "$0")/fault_functions.sh"
ran=0

# within MB CODE COMMAND...: the command must exit with CODE and use at most MB megabytes
within() {
    mb=$1 code=$2
    shift 2
    "$sized_model" peak "$mb" "$pare" "$@" >out 2>err
    got=$?
    grep ' MB, ' err
    [ $got = "$code" ] || wrong "$*: exit code $got, $(tail -2 err)"
    ran=$((ran + 1))
}

"$sized_model" empty 0 empty.onnx
for command in inspect run "export -o o.onnx" bench; do within 200 0 $command empty.onnx; done
within 200 1 prune empty.onnx --pruner level --sparsity 0.5 -o o.onnx
within 200 1 train empty.onnx --data digits --epochs 1 -o o.onnx

for kind in chain wide layers; do
    "$sized_model" $kind 20000 m.onnx
    within 400 0 inspect m.onnx
    within 400 0 run m.onnx
    within 400 0 export m.onnx -o o.onnx
done
within 400 0 prune m.onnx --pruner level --sparsity 0.5 -o o.onnx
within 600 0 speedup m.onnx --no-bench -o o.onnx
within 400 0 inspect --groups m.onnx

"$sized_model" rank 8 m.onnx
within 200 0 run m.onnx -o a.npz
within 200 0 run m.onnx --reference -o b.npz
within 200 0 run m.onnx --check b.npz

"$pare" new lenet --input 1,28,28 -o m.onnx >out
for batch in 1 2 64 1024; do within 600 0 run m.onnx --batch $batch -o b.npz; done

# 3 GB.  Weights are mapped and read when a kernel needs them: 3 GB of the peak are these pages, and
# --max-memory limits Pare's own memory.
"$sized_model" external 1500 big.onnx
within 200 0 inspect big.onnx
if [ "$how_many" = all ]; then
    "$sized_model" full 1500 big.onnx
    within 3300 0 run big.onnx --max-memory 512M -o a.npz
    within 200 0 export big.onnx -o again.onnx
    cmp big.onnx.data again.onnx.data || wrong "the weights differ"
    within 3300 0 run again.onnx --max-memory 512M -o b.npz
    cmp a.npz b.npz || wrong "the results differ"
    rm -f big.onnx* again.onnx*
fi
echo "$ran commands within their limits"
exit $((bad > 0))
