#!/bin/sh
# load.sh - time and memory limits for very large and very small models.
#
# usage: load.sh PARE SHIM [all|some]      (LOAD_MODEL: the program that makes them)
# In `some`, the model of 3 GB is a file with holes; in `all` it is full, is run, written again, and that
# one is run, which takes 6 GB of disk.
load=$(realpath "${LOAD_MODEL:?}")
. "$(dirname "$0")/lib.sh"
ran=0

# within MB CODE COMMAND...: its exit code and its peak memory.
within() {
    mb=$1 code=$2
    shift 2
    "$load" peak "$mb" "$pare" "$@" >out 2>err
    got=$?
    grep ' MB, ' err
    [ $got = "$code" ] || wrong "$*: exit code $got, $(tail -2 err)"
    ran=$((ran + 1))
}

"$load" empty 0 empty.onnx
for command in inspect run "export -o o.onnx" bench; do within 200 0 $command empty.onnx; done
within 200 1 prune empty.onnx --pruner level --sparsity 0.5 -o o.onnx
within 200 1 train empty.onnx --data digits --epochs 1 -o o.onnx

for kind in chain wide layers; do
    "$load" $kind 20000 m.onnx
    within 400 0 inspect m.onnx
    within 400 0 run m.onnx
    within 400 0 export m.onnx -o o.onnx
done
within 400 0 prune m.onnx --pruner level --sparsity 0.5 -o o.onnx
within 600 0 speedup m.onnx --no-bench -o o.onnx
within 400 0 inspect --groups m.onnx

"$load" rank 8 m.onnx
within 200 0 run m.onnx -o a.npz
within 200 0 run m.onnx --reference -o b.npz
within 200 0 run m.onnx --check b.npz

"$pare" new lenet --input 1,28,28 -o m.onnx >out
for batch in 1 2 64 1024; do within 600 0 run m.onnx --batch $batch -o b.npz; done

# 3 GB.  Weights stay in the file until a kernel reads them, and then in its pages: 3 GB of the
# peak are these, and what is Pare's own has its limit.
"$load" outside 1500 big.onnx
within 200 0 inspect big.onnx
if [ "$how_many" = all ]; then
    "$load" full 1500 big.onnx
    within 3300 0 run big.onnx --max-memory 512M -o a.npz
    within 200 0 export big.onnx -o again.onnx
    cmp big.onnx.data again.onnx.data || wrong "the weights are others"
    within 3300 0 run again.onnx --max-memory 512M -o b.npz
    cmp a.npz b.npz || wrong "the results are others"
    rm -f big.onnx* again.onnx*
fi
echo "$ran commands within their bounds"
exit $((bad > 0))
