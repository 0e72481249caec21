# Per-layer cost, pruning sensitivity and quantization error; the model is not changed.
pare new mlp --input 1,8,8 --seed 1 -o m.onnx >/dev/null
pare train m.onnx --data digits --epochs 6 --optimizer adam --threads 1 --seed 1 -q -o t.onnx
cp t.onnx before.onnx
pare analyze count t.onnx
pare analyze count --full models/tiny_cnn.onnx --json
pare analyze sensitivity t.onnx --data digits --sparsities 0.1,0.5,0.9 --threads 1 -q \
    --csv s.csv --early-stop dropped --early-stop-value 0.3 --json >s.json
sed 's/,.*//' s.csv
python3 - <<'PY' 2>/dev/null || echo "python3 is not installed"
import json
r = json.load(open("s.json"))
print(r["metric"], sorted(r), r["sparsities"])
for layer, points in r["sensitivity"].items():
    print(layer, "sparsity 0.1 costs less than 2 points:", points["0.1"] > r["base"] - 0.02)
    stopped = min(points.values()) < r["base"] - 0.3
    print(layer, "all measured, or stopped early:", len(points) == 3 or stopped)
rows = [l.strip().split(",") for l in open("s.csv")]
for row in rows[1:]:
    assert [float(v) for v in row[1:]] == list(r["sensitivity"][row[0]].values()), row
PY
pare analyze sensitivity t.onnx --data digits --sparsities 0.5 --layers fc1 --pruner level \
    --metric loss --threads 1 2>&1 >/dev/null | sed 's/:.*//'
pare analyze quantization t.onnx --data digits --bits 8 --threads 1 | awk '{ print $1, $2, $3 }'
pare analyze quantization t.onnx --threads 1 --weights-only --csv q.csv >/dev/null
cut -d, -f1,2 q.csv
cmp t.onnx before.onnx && echo "the model is unchanged"
for wrong in "guess t.onnx" "sensitivity t.onnx" "count t.onnx --data digits" \
    "sensitivity t.onnx --data digits --pruner taylor" "quantization t.onnx --layers fc9" \
    "sensitivity t.onnx --data digits --csv t.onnx" "quantization t.onnx --bits 1" "count"; do
    pare analyze $wrong 2>&1
    echo "exit code $?"
done
