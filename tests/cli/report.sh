# Reports: one record, two records compared, and files that are not records.
cat >a.json <<'J'
{"format": "pare run 1", "recipe": {"model": "m.onnx", "steps": []}, "seed": 0,
 "input": {"path": "m.onnx", "bytes": 1000, "parameters": 100, "macs": 10, "accuracy": 0.9},
 "output": {"path": "s.onnx", "bytes": 250, "parameters": 50, "macs": 5, "accuracy": 0.85},
 "steps": [], "layers": []}
J
sed 's/250/125/' a.json >b.json
pare report a.json && grep -o '<tr data-key.*' report.html
pare report a.json b.json -o both.html && grep -o '<tr data-key="bytes.*' both.html
pare report missing.json
echo code $?
echo '{"format": 1}' >c.json
pare report c.json
pare report a.json -o a.json
ls
