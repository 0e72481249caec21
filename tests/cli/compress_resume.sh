# A run that was killed during training resumes there, with the same bytes as a result.
pare new lenet --input 1,8,8 --width 0.5 -o m.onnx
cat >recipe.json <<'J'
{"model": "m.onnx", "data": "digits", "output": "a.onnx", "seconds": 0, "threads": 1,
 "steps": [{"step": "prune", "pruner": "level", "sparsity": 0.5},
           {"step": "finetune", "epochs": 80, "limit": 320, "batch": 32, "optimizer": "adam"},
           {"step": "quantize", "preset": "int8", "limit": 64}]}
J
pare compress recipe.json >out 2>log || cat log
cp a.onnx whole.onnx
cp a.run.json whole.json
rm a.onnx a.run.json
rm log
pare compress recipe.json >out 2>log &
job=$!
while [ "$(cat log 2>/dev/null | grep -c '^epoch')" -lt 3 ]; do sleep 0.01; done
kill -KILL $job
wait $job 2>/dev/null
ls a.onnx a.run.json 2>/dev/null
ls a.steps | grep -v "tmp$" | sed 's/-[0-9a-f]*\././'
pare compress recipe.json --resume >out 2>log
head -4 out | sed 's/accuracy.*//'
[ "$(grep -c '^epoch' log)" -lt 80 ] && echo epochs are not repeated
cmp a.onnx whole.onnx && echo the same bytes
epochs() { grep -c '"valid_top1"' "$1"; }
[ "$(epochs a.run.json)" = "$(epochs whole.json)" ] && echo the history is complete
# Pruned weights stay 0 during training.
[ "$(grep -c '"zeros": 0.49\|"zeros": 0.5' a.run.json)" -ge 2 ] && echo pruned weights stay 0
# Ctrl-C prints how to resume.
rm a.onnx a.run.json
rm log
pare compress recipe.json >out 2>log &
job=$!
while [ "$(cat log 2>/dev/null | grep -c '^epoch')" -lt 3 ]; do sleep 0.01; done
kill -INT $job
wait $job 2>/dev/null
echo code $?
grep '^pare' log | sed 's/epoch [0-9]*/epoch N/; s/[0-9]* steps/N steps/'
pare compress recipe.json --resume >out 2>log && cmp a.onnx whole.onnx && echo the same bytes
# Nor are those with other data.
awk 'BEGIN { srand(1); print "a,b,c,kind"; for (i = 0; i < 90; i++) {
    a = rand(); printf "%.3f,%.3f,%.3f,%s\n", a, rand(), rand(), (a > 0.5 ? "x" : "y") } }' >h.csv
pare new mlp --input 1,1,3 --classes 2 --seed 1 -o f.onnx >/dev/null
cat >table.json <<'J'
{"model": "f.onnx", "data": "h.csv", "label": "kind", "columns": "a,b,c", "holdout": 0.2, "output": "t.onnx",
 "seconds": 0, "threads": 1, "steps": [{"step": "finetune", "epochs": 1}, {"step": "prune", "sparsity": 0.5}]}
J
pare compress table.json --keep-steps >/dev/null 2>&1
cp t.onnx first.onnx
pare compress table.json --keep-steps --resume >/dev/null 2>&1
cmp t.onnx first.onnx && echo "the same data: the same bytes"
sed -i 's/x$/z/; s/y$/x/' h.csv
pare compress table.json --keep-steps --resume >/dev/null 2>&1
cmp -s t.onnx first.onnx || echo "other data: another model"
# Steps of another recipe are not reused.
sed -i 's/0.5/0.6/' recipe.json
pare compress recipe.json --resume >out 2>log
head -2 out | sed 's/, accuracy.*//'
