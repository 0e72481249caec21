# Times of layers as a file: written, read, the same bytes from the same table, refused for another model.
set -e
pare new lenet --input 1,8,8 --seed 1 -o m.onnx >/dev/null
pare train m.onnx --data digits --epochs 2 --threads 1 --seed 1 -q -o t.onnx >/dev/null 2>&1
pare bench t.onnx --table times.jsonl --threads 1 --seconds 2 2>/dev/null | sed 's/ of [0-9]* models/ of N models/; s/[0-9.]*%/N%/g'
head -n 1 times.jsonl | tr -d '0-9.'
cp times.jsonl first.jsonl
for i in 1 2; do
    pare compress t.onnx --data digits --budget latency=0.5 --table times.jsonl --threads 1 -q --json -o s$i.onnx >s$i.json
done
cmp s1.onnx s2.onnx && echo "the same table, the same bytes"
cmp times.jsonl first.jsonl && echo "the table is only read"
tr -d ' \n' <s1.json | grep -o '"met":true'
pare compress t.onnx --data digits --budget latency=0.5 --methods channels --table times.jsonl --threads 1 -q -o c.onnx | tail -n 1
pare compress t.onnx --data digits --budget latency=0.5 --table times.jsonl --threads 2 -q -o x.onnx 2>&1 || true
pare new resnet20 --input 1,8,8 --seed 1 -o other.onnx >/dev/null
pare compress other.onnx --data digits --budget latency=0.5 --table times.jsonl --threads 1 -q -o x.onnx 2>&1 | cut -c1-60 || true
pare bench t.onnx m.onnx --table times.jsonl 2>&1 | head -n 1 || true
pare bench t.onnx --table t.onnx 2>&1 | head -n 1 || true
test ! -e x.onnx && echo "nothing else is written"
