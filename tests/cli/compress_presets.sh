# Presets that are budgets: what they promise holds, or the exit code is 3; options override them.
set -e
pare new lenet --input 1,8,8 --seed 1 -o m.onnx >/dev/null
pare train m.onnx --data digits --epochs 3 --threads 1 --seed 1 -q -o t.onnx >/dev/null 2>&1
pare bench t.onnx --table times.jsonl --threads 1 --seconds 2 >/dev/null 2>&1
try() {
    code=0
    pare compress t.onnx --data digits --threads 1 --table times.jsonl -q -o s.onnx "$@" --json >s.json 2>err.txt || code=$?
    met=$(tr -d ' \n' <s.json | grep -o '"met":[a-z]*')
}
# A latency may be missed on a busy machine: then the exit code must say so.
agree() {
    try "$@"
    case "$code $met" in
    "0 "*false* | "3 "*) [ "$code" = 3 ] && echo "$met" | grep -q false || { echo "$*: $code $met"; return; } ;;
    "0 "*) ;;
    *) echo "$*: $code $met"; return ;;
    esac
    echo "$*: the exit code says whether the limits hold"
}
exact() { try "$@"; echo "$* $code $met"; }
agree --preset fast
exact --preset tiny
test $(($(wc -c <s.onnx) * 9)) -le "$(wc -c <t.onnx)" && echo "tiny is small"
agree --preset balanced
exact --preset balanced --max-drop 0.001 --finetune 0
code=0
pare compress m.onnx --data digits --threads 1 --preset int8 --seconds 0 -q -o int8.onnx >/dev/null 2>&1 || code=$?
echo "int8 $code"
pare compress t.onnx --preset fast --budget macs=0.5 --data digits 2>&1 | head -n 1 || true
