# search_netadapt.sh - pruners netadapt, sensitivity and auto_compress: history, resume, wrong settings.
pare new lenet --input 1,8,8 --width 0.5 --seed 1 -o m.onnx >/dev/null
pare train m.onnx --data digits --epochs 3 --threads 1 --seed 1 -q -o t.onnx
search() {
    out=$1 pruner=$2
    shift 2
    pare prune t.onnx --pruner $pruner --sparsity 0.4 --data digits --limit 600 --threads 1 --speedup --no-bench --no-repair -q \
        --json -o $out.onnx --experiment-data-dir $out "$@" >$out.json 2>$out.err || { cat $out.err; return 1; }
}
# twice NAME PRUNER OPTION...: the same from the beginning, and after an interruption
twice() {
    name=$1
    shift
    search $name-a "$@"
    search $name-b "$@"
    mkdir $name-c
    cp $name-a/search_settings.json $name-c
    head -3 $name-a/search_history.csv >$name-c/search_history.csv
    search $name-c "$@"
    for k in b c; do
        cmp $name-a/search_history.csv $name-$k/search_history.csv && cmp $name-a/search_result.json $name-$k/search_result.json &&
            cmp $name-a.onnx $name-$k.onnx && echo "$name-$k: the same"
    done
    head -1 $name-a/search_history.csv
    echo "$name: $(($(wc -l <$name-a/search_history.csv) - 1)) candidates"
}
left() { # NAME KEY: the part that speedup leaves
    python3 - "$1" "$2" <<'PY' 2>/dev/null || echo "python3 is not installed"
import json, sys
s = json.load(open(sys.argv[1] + ".json"))["speedup"]
k = sys.argv[2]
print(f"{sys.argv[1]}: 0.6 of the {k} left:", 0.5 < s[k + "_left"] / s[k] <= 0.61)
PY
}
twice netadapt netadapt --sparsity-per-iteration 0.2 --finetune-steps 5
twice netadapt-macs netadapt --sparsity-per-iteration 0.2 --finetune-steps 0 --resource macs
twice sensitivity sensitivity --sparsity-per-iter 0.2 --checkpoint-dir k
left netadapt-a parameters
left netadapt-macs-a macs
left sensitivity-a parameters
ls k | sed 's/[0-9.]*_sparsity_[0-9.]*[0-9]/N/'
twice tuned sensitivity --sparsity-per-iter 0.2 --finetune-steps 5 --acc-drop-threshold 0.2
twice auto auto_compress --num-iterations 2 --admm-num-iterations 1 --cool-down-rate 0.3
ls auto-a

echo "element pruning:"
pare prune t.onnx --pruner netadapt --base-algo level --sparsity 0.5 --sparsity-per-iteration 0.25 --finetune-steps 2 --data digits \
    --limit 600 --threads 1 -o e.onnx 2>/dev/null | sed -n 's/.* layers*, .*(\(.*\))/\1 left/p'
echo "wrong settings:"
search netadapt-a sensitivity || echo "exit code $?"
search x auto_compress --base-algo level || echo "exit code $?"
search x netadapt --sparsity-per-iteration 2 || echo "exit code $?"
search y netadapt --sparsity 0.9999 --finetune-steps 0 || echo "exit code $?"
pare prune t.onnx --pruner netadapt --config '[{"sparsity": 0.5, "op_names": ["fc1"], "granularity": "element"}]' --data digits \
    -q -o e.onnx 2>&1
echo "a config_list:"
pare prune t.onnx --pruner netadapt --config '[{"sparsity": 0.3, "op_names": ["conv2", "fc1"]}]' --finetune-steps 0 --data digits \
    --limit 600 --threads 1 -q --json -o e.onnx 2>/dev/null | grep -c '"asked"'
