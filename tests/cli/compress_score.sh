# Candidates of a budget are scored by their real loss: the same table gives the same bytes, a bound of the time ends the
# search, and the other sensitivities decide too.
set -e
pare new lenet --input 1,8,8 --seed 1 -o m.onnx >/dev/null
pare train m.onnx --data digits --epochs 3 --threads 1 --seed 1 -q -o t.onnx >/dev/null 2>&1
pare bench t.onnx --table t.jsonl --threads 1 >/dev/null 2>&1
compress() {
    pare compress t.onnx --data digits --table t.jsonl --threads 1 --budget macs=0.4 --methods channels "$@" 2>err.txt >out.txt
}
compress -o a.onnx
grep -q '^candidate 1: loss' err.txt && echo "candidates are scored"
compress -q -o b.onnx
cmp a.onnx b.onnx && echo "the same bytes"
compress --solver uniform -o u.onnx
grep -c '^candidate' err.txt || echo "another solver decides alone"
for s in fisher noise; do
    compress --sensitivity $s --search-time 1 -q -o $s.onnx
    grep -c 'within the budget' out.txt
done
compress --finetune 1 --train "lr=0.002 batch=128" --flip -q -o f.onnx
grep -c 'within the budget' out.txt
pare compress t.onnx --data digits --budget macs=0.4 --sensitivity magic -q -o bad.onnx 2>&1 | head -n 1 | cut -c1-60 || true
