# A CSV file: regression by its labels' column, classes by texts, in every command that takes data.
awk 'BEGIN { srand(1); print "area,rooms,age,price,kind"
    for (i = 0; i < 300; i++) { a = rand() * 2; r = int(rand() * 5); g = rand()
        printf "%.3f,%d,%.3f,%.3f,%s\n", a, r, g, a + r / 2 - g, (a > 1 ? "large" : r > 2 ? "many" : "small") } }' >h.csv
pare new mlp --input 1,1,3 --classes 1 --seed 1 -o one.onnx
pare train one.onnx --data h.csv --label price --columns area,rooms,age --holdout 0.2 --epochs 40 \
    --threads 1 -q -o t.onnx
pare eval t.onnx --data h.csv --label price --columns area,rooms,age --threads 1 2>/dev/null |
    awk '$1 == "r2" { print $1, ($2 > 0.9 ? "above 0.9" : $2) } $1 == "mse" || $1 == "mae" { print $1 }'
pare quantize t.onnx --preset int8 --data h.csv --label price --columns area,rooms,age --threads 1 \
    --holdout 0.2 -o q.onnx 2>&1 | grep -c '^quantized file: *mse'
pare quantize t.onnx --preset int8 --data h.csv --label price --columns area,rooms,age --holdout 0.2 \
    --accuracy-drop 1 -o q.onnx
cat >r.json <<J
{"model": "t.onnx", "data": "h.csv", "label": "price", "columns": "area,rooms,age", "holdout": 0.2,
 "metric": "r2", "threads": 1, "seconds": 0,
 "steps": [{"step": "prune", "pruner": "l1", "sparsity": 0.1}, {"step": "quantize", "preset": "int8"}]}
J
pare compress r.json -o c.onnx 2>&1 | sed -n '1p;/^r2/s/ .*/ N/p'
sed 's/{"step": "quantize", "preset": "int8"}/&, {"step": "finetune"}/' r.json >order.json
pare compress order.json --dry-run
sed 's/"label"/"lable"/' r.json >key.json
pare compress key.json --dry-run
pare new mlp --input 1,1,3 --classes 3 --seed 1 -o three.onnx
pare train three.onnx --data h.csv --label kind --columns area,rooms,age --holdout 0.2 --epochs 20 \
    --threads 1 -q -o k.onnx
pare eval k.onnx --data h.csv --label kind --columns area,rooms,age --per-class --threads 1 |
    awk '/^(large|many|small)/ { print $1 }'
pare eval k.onnx --data h.csv --label kind --threads 1
pare eval k.onnx --data h.csv --label kind --columns area,rooms,age --metric mse
pare analyze sensitivity t.onnx --data h.csv --label price --columns area,rooms,age --sparsities 0.5 \
    --threads 1 -q --metric mae 2>&1 | sed -n 's/0\.[0-9]*$/N/p' | tail -1
sed 's/^[^,]*,/,/;1s/^/area/' h.csv >m.csv
pare eval t.onnx --data m.csv --label price --columns area,rooms,age
# Classes for a model with one output.
pare eval t.onnx --data h.csv --label kind --columns area,rooms,age --task regression --threads 1 | grep -c '^mse'
pare eval t.onnx --data h.csv --label kind --columns area,rooms,age
