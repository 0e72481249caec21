# A front of models, its record and report; the record of one budget.  A runner, so that no measurement decides.
set -e
export TMPDIR=$PWD
pare new lenet --input 1,8,8 --seed 1 -o m.onnx >/dev/null
pare train m.onnx --data digits --epochs 2 --threads 1 --seed 1 -q -o t.onnx >/dev/null 2>&1
cat >by_size <<'X'
#!/bin/sh
for word; do
    case $word in
    *.onnx) echo $(($(wc -c <"$word") / 100)) ;;
    esac
done
X
chmod +x by_size
pare compress t.onnx --data digits --pareto 3 --methods channels --threads 1 --runner ./by_size -q -o f.onnx >front.txt
cut -c1-12 front.txt
for i in 1 2 3; do wc -c <f-$i.onnx; done | sort -nrc && echo "models become smaller"
tr -d ' \n' <f.run.json | grep -o '"finished":true'
pare report f.run.json -o f.html
grep -c 'Accuracy against latency' f.html
pare compress t.onnx --data digits --budget size=0.4 --budget macs=0.7 --threads 1 --search-time 2 -q -o s.onnx >/dev/null
pare report s.run.json -o s.html
grep -o '<h2>Budget</h2>' s.html
grep -o '<h2>Models</h2>' s.html
pare report s.run.json f.run.json -o both.html
pare compress t.onnx --data digits --pareto 3 --budget latency=0.5 -q 2>&1 | head -n 1 || true
pare compress t.onnx --data digits --pareto 3 --dry-run -q 2>&1 | head -n 1 || true
