# States of recurrent layers are pruned as channels and removed; a layer whose states are inputs of the model is not.
m=models/rows_of_digits.onnx
exec 2>&1
# Rounding depends on the machine.
round() { sed -E 's/outputs: (0|[0-9.]+e-0[789]), relative: (0|[0-9.]+e-0[789])/outputs: below 1e-6/'; }
try() { echo "--- $*"; { pare "$@"; echo "exit code $?"; } | round; }
try inspect -v $m
try prune $m --pruner l1 --sparsity 0.5 --speedup --no-bench -o l1.onnx
try prune $m --pruner fpgm --sparsity 0.5 --dependency-aware --masks masks.npz -o fpgm.onnx
try speedup $m --masks masks.npz --no-bench -o small.onnx
echo "--- training: the states stay removed"
for p in taylor apoz; do
    pare prune $m --pruner $p --data digits --sparsity 0.5 --epochs 1 --quiet --speedup --no-bench -o $p.onnx >/dev/null
    pare inspect $p.onnx | grep -E '^(lstm|gru|fc) ' | awk '{ print $1, $2, $3, $4, $5, $6 }'
done
try analyze sensitivity $m --data digits --sparsities 0.5 --threads 1 -q --csv s.csv >/dev/null
sed 's/,.*//' s.csv
s=models/streaming.onnx
try prune $s --pruner l1 --sparsity 0.5 --speedup --no-bench -q -o s.onnx
try prune $s --pruner l1 --config '[{"sparsity": 0.5, "op_types": ["GRU", "Linear"]}]' -q -o t.onnx
try prune $s --pruner l1 --config '[{"sparsity": 0.5, "op_names": ["gru"]}]' -q -o u.onnx
try prune $s --pruner level --config '[{"sparsity": 0.5, "op_names": ["gru"]}]' -o v.onnx
ls *.onnx
