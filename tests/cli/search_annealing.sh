# search_annealing.sh - pruner simulated_annealing: history, seeds, resume, wrong settings, recipe.
pare new lenet --input 1,8,8 --width 0.5 --seed 1 -o m.onnx >/dev/null
pare train m.onnx --data digits --epochs 3 --threads 1 --seed 1 -q -o t.onnx
search() {
    out=$1
    shift
    pare prune t.onnx --pruner simulated_annealing --sparsity 0.5 --data digits --limit 600 --threads 1 --no-repair -q --json \
        -o $out.onnx --experiment-data-dir $out "$@" >$out.json 2>$out.err || { cat $out.err; return 1; }
}
search a --cool-down-rate 0.7
search b --cool-down-rate 0.7
cmp a/search_history.csv b/search_history.csv && cmp a/search_result.json b/search_result.json && cmp a.onnx b.onnx &&
    echo "the same twice"
search c --cool-down-rate 0.7 --seed 2
cmp -s a/search_history.csv c/search_history.csv || echo "another seed: another history"
head -1 a/search_history.csv
echo "candidates: $(($(wc -l <a/search_history.csv) - 1))"

# the rest of an interrupted search
mkdir d
cp a/search_settings.json d
head -8 a/search_history.csv >d/search_history.csv
search d --cool-down-rate 0.7
cmp a/search_history.csv d/search_history.csv && cmp a/search_result.json d/search_result.json && cmp a.onnx d.onnx &&
    echo "resumed: the same"

# killed, then resumed
pare prune t.onnx --pruner simulated_annealing --sparsity 0.5 --data digits --threads 1 --no-repair -q -o k.onnx \
    --cool-down-rate 0.97 --experiment-data-dir k >/dev/null 2>&1 &
until [ "$(wc -l 2>/dev/null <k/search_history.csv || echo 0)" -gt 5 ]; do sleep 0.02; done
kill -9 $!
wait $! 2>/dev/null
[ -e k.onnx ] || echo "killed"
for out in k l; do
    pare prune t.onnx --pruner simulated_annealing --sparsity 0.5 --data digits --threads 1 --no-repair -q -o $out.onnx \
        --cool-down-rate 0.97 --experiment-data-dir $out >/dev/null 2>&1
done
cmp k/search_history.csv l/search_history.csv && cmp k.onnx l.onnx && echo "resumed after a kill: the same"
search e --nni --speedup --no-bench
echo "as NNI: $(($(wc -l <e/search_history.csv) - 1)) candidates"
search f --resource macs --optimize-mode minimize --cool-down-rate 0.5 --speedup --no-bench && echo "loss and MACs"

echo "wrong settings:"
search a --cool-down-rate 0.8 || echo "exit code $?"
sed 3s/0/x/ a/search_history.csv >d/search_history.csv
search d --cool-down-rate 0.7 || echo "exit code $?"
search g --base-algo agp || echo "exit code $?"
search g --base-algo nothing | sed 's/, only.*//'
search g --stop-temperature 200 || echo "exit code $?"
search g --sparsity-per-iteration 0.1 || echo "exit code $?"
pare prune t.onnx --pruner simulated_annealing --sparsity 0.5 -o g.onnx || echo "exit code $?"
pare prune t.onnx --pruner amc --sparsity 0.5 --data digits -o g.onnx || echo "exit code $?"
touch h
search h || echo "exit code $?"

cat >r.json <<'J'
{"model": "t.onnx", "data": "digits", "output": "r.onnx", "seconds": 0, "threads": 1,
 "steps": [{"step": "prune", "pruner": "simulated_annealing", "sparsity": 0.5, "cool_down_rate": 0.5, "limit": 600},
           {"step": "speedup"}]}
J
pare compress r.json --dry-run
pare compress r.json -q --json >r.out && echo "recipe: done"
