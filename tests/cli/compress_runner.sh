# Latency that another program measures: a runner whose time of a model is the size of its file; dry run; errors.
set -e
export TMPDIR=$PWD
pare new lenet --input 1,8,8 --seed 1 -o m.onnx >/dev/null
pare train m.onnx --data digits --epochs 2 --threads 1 --seed 1 -q -o t.onnx >/dev/null 2>&1
cat >by_size <<'X'
#!/bin/sh
echo "$@" >>calls.txt
for word; do
    case $word in
    *.onnx) echo $(($(wc -c <"$word") / 100)) ;;
    esac
done
X
chmod +x by_size
pare compress t.onnx --data digits --budget latency=0.5 --methods channels --threads 1 --runner ./by_size -q --json -o s.onnx >s.json
tr -d ' \n' <s.json | grep -o '"met":true'
test $(($(wc -c <s.onnx) * 19)) -le $(($(wc -c <t.onnx) * 10)) && echo "latency in the runner is at most half"
head -n 1 calls.txt | sed 's,[^ ]*/,,g'
pare bench t.onnx --table times.jsonl --threads 1 --seconds 2 >/dev/null 2>&1
set -- t.onnx --data digits --budget latency=0.5 --methods channels --threads 1 --runner ./by_size --table times.jsonl -q --json
pare compress "$@" -o s.onnx >s.json
pare compress "$@" --dry-run -o no.onnx >dry.json
part() {
    tr -d ' \n' <"$1" | sed 's/.*"latency_us":{"before":\([0-9.e+]*\),"after":\([0-9.e+]*\),.*/\1 \2/'
}
echo "$(part s.json) $(part dry.json)" | awk '{ r = $4 / $2; ok = r > 0.9 && r < 1.1; print ok ? "the dry run is within 10 %" : "dry run: " r }'
test ! -e no.onnx && echo "a dry run writes nothing"
pare compress t.onnx --data digits --budget latency=0.5 --runner false -q -o no.onnx 2>&1 || true
pare compress t.onnx --data digits --budget latency=0.5 --runner "echo fast" -q -o no.onnx 2>&1 || true
pare compress t.onnx --data digits --max-drop 1 --dry-run -q -o no.onnx 2>&1 || true
ls | grep -c pare-runner || true
