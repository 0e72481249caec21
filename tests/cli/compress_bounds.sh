# Bounds of a budget in pairs of predictions: the certificate of the written model, classes, confidence; a state of another
# search.
set -e
pare new lenet --input 1,8,8 --seed 1 -o m.onnx >/dev/null
pare train m.onnx --data digits --epochs 8 --threads 1 --seed 1 -q -o t.onnx >/dev/null 2>&1
pare bench t.onnx --table t.jsonl --threads 1 >/dev/null 2>&1
compress() {
    code=0
    pare compress t.onnx --data digits --table t.jsonl --threads 1 -q "$@" >out.txt 2>err.txt || code=$?
}
compress --budget macs=0.6 -o s.onnx
echo "exit code $code"
grep -c '^certificate: drop' out.txt
pare verify s.onnx --data digits --against t.onnx --threads 1 2>&1 | head -n 1
test ! -e s.onnx.work && echo "the folder of the search is removed"
compress --budget macs=0.3 --class-drop 0.1 -o c.onnx
echo "exit code $code"
grep -o 'the accuracy of class' err.txt
compress --budget macs=0.6 --max-drop 0.1 --confidence 0.99 -o b.onnx
echo "exit code $code: a bound with a confidence is larger than the drop"
mkdir r.onnx.work
echo "pare search 1 0000000000000000" >r.onnx.work/search.txt
compress --budget macs=0.6 --resume -o r.onnx
echo "exit code $code"
grep -o 'is of a search with another model, data or settings' err.txt
