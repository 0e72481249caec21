# A budget of multiply-accumulates and size, which no measurement decides; usage errors; a budget that cannot be met.
set -e
pare new lenet --input 1,8,8 --seed 1 -o m.onnx >/dev/null
pare train m.onnx --data digits --epochs 3 --threads 1 --seed 1 -q -o t.onnx >/dev/null 2>&1
pare compress t.onnx --data digits --budget macs=0.5 --budget size=0.6 --methods channels --threads 1 \
    --search-time 2 -q --json -o s.onnx >s.json 2>err.txt || { cat err.txt; exit 1; }
tr -d ' \n' <s.json | grep -o '"met":true'
pare inspect s.onnx --json >/dev/null && echo "the file is a model"
code=0
pare compress t.onnx --data digits --budget macs=0.0001 --methods channels --threads 1 --search-time 2 -q --json \
    -o tiny.onnx >/dev/null 2>err.txt || code=$?
echo "missed: exit code $code"
cut -d: -f2 err.txt | head -n 1
test -s tiny.onnx && echo "the nearest model is written"
for bad in latency=2 latency=0.5km size macs=-1 speed=0.5; do
    pare compress t.onnx --data digits --budget $bad -q -o bad.onnx 2>&1 | cut -c1-60 || true
done
pare compress t.onnx --budget macs=0.5 2>&1 | head -n 1 || true
pare compress t.onnx --data digits --budget macs=0.5 --methods magic -q 2>&1 | head -n 1 || true
test ! -e bad.onnx && echo "nothing else is written"
pare compress models/any_size.onnx --data digits --budget latency=0.5 -q -o bad.onnx 2>&1 | head -n 1 || true
