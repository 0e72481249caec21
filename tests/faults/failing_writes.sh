#!/bin/sh
# failing_writes.sh - fail every system call that changes files once, in every command that writes.
#
# usage: failing_writes.sh PARE SHIM [all|some]
# The command must exit with code 1 and one message; each output is the old file or the complete new
# one, and no temporary file is left.  A short or interrupted write must not change the result.
. "$(dirname "$0")/fault_functions.sh"
kinds="full short"
[ "$how_many" = all ] && kinds="full io short intr"
failed=0 retried=0

# Inputs of the commands.
mkdir base
(
    cd base || exit 1
    "$pare" new lenet --input 1,8,8 --width 0.25 -o m.onnx
    "$pare" prune m.onnx --pruner l1 --sparsity 0.5 -o p.onnx --masks k.pth
    cat >r.json <<'J'
{"model": "m.onnx", "data": "digits", "output": "out.onnx", "seconds": 0, "threads": 1,
 "steps": [{"step": "prune", "pruner": "l1", "sparsity": 0.5}, {"step": "speedup"},
           {"step": "finetune", "epochs": 2, "limit": 32, "batch": 32},
           {"step": "quantize", "preset": "int8", "limit": 16}]}
J
    "$pare" compress r.json -q
    mv out.run.json done.json
    "$pare" bench m.onnx --table times.jsonl --threads 1 --seconds 1
    rm -rf out.onnx out.steps
) >/dev/null || exit 1

# try NAME "OUTPUT..." COMMAND...: fail each of the command's calls in turn
try() {
    name=$1 outputs=$2
    shift 2
    rm -rf want
    cp -r base want
    (cd want && "$pare" "$@" >../out 2>../err) || { wrong "$name fails without a fault: $(cat err)"; return; }
    for kind in $kinds; do
        n=0
        while :; do
            n=$((n + 1))
            rm -rf work hit
            cp -r base work
            for o in $outputs; do echo "# old" >"work/$o"; done
            (cd work && LD_PRELOAD=$shim FAULT_AT=$n FAULT_KIND=$kind FAULT_HIT=$tmp/hit "$pare" "$@" \
                >../out 2>../err)
            code=$?
            [ -e hit ] || break
            where="$name, $kind at call $n, $(cat hit)"
            if [ $kind = full ] || [ $kind = io ]; then
                failed=$((failed + 1))
                [ $code = 1 ] || wrong "$where: exit code $code"
                one_message || wrong "$where: $(cat err)"
                for o in $outputs; do
                    [ "$(cat "work/$o" 2>/dev/null | tr -d '\0')" = "# old" ] ||
                        cmp -s "work/$o" "want/$o" || is_new "$o" || wrong "$where: $o is neither old nor new"
                done
            else
                retried=$((retried + 1))
                [ $code = 0 ] || wrong "$where: exit code $code, $(cat err)"
                for o in $outputs; do
                    cmp -s "work/$o" "want/$o" || is_new "$o" || wrong "$where: $o is not the expected file"
                done
            fi
            left=$(find work -name '*.tmp*')
            [ -z "$left" ] || wrong "$where: leaves $left"
        done
        [ $n -gt 1 ] || [ $kind = intr ] || wrong "$name: no call was counted"
    done
}

# is_new FILE: the file is complete.  Run records contain times and tuning choices depend on them, so
# only their ends are checked.  A checkpoint may be of any epoch; training must resume from it.
is_new() {
    case $1 in
    *.json | *.html) tail -c 20 "work/$1" | grep -q '}$\|</html>' ;;
    *.txt) grep -q '^# pare' "work/$1" && ! grep -qv '^#\|	' "work/$1" && [ -z "$(tail -c 1 "work/$1")" ] ;;
    c.safetensors) (cd work && "$pare" $train --resume) >/dev/null 2>&1 && cmp -s work/out.onnx want/out.onnx ;;
    *) false ;;
    esac
}

try new "out.onnx" new mlp --input 1,8,8 -o out.onnx
train="train m.onnx --data digits --limit 32 --epochs 2 --threads 1 --quiet -o out.onnx
    --checkpoint c.safetensors"
try train "out.onnx c.safetensors" $train
try prune "out.onnx o.pth" prune m.onnx --pruner l1 --sparsity 0.5 -o out.onnx --masks o.pth
try search "out.onnx" prune m.onnx --pruner simulated_annealing --sparsity 0.5 --data digits \
    --limit 50 --threads 1 --cool-down-rate 0.05 --experiment-data-dir h -q -o out.onnx
try quantize "out.onnx" quantize m.onnx --preset int8 --data digits --limit 16 -o out.onnx
try verify "out.onnx" verify p.onnx --against m.onnx --data digits --limit 16 --threads 1 -o out.onnx
try budget "out.onnx" compress m.onnx --data digits --limit 64 --budget macs=0.6 --methods channels --table times.jsonl \
    --threads 1 -q -o out.onnx
try apply "out.onnx" apply m.onnx --masks k.pth -o out.onnx
try speedup "out.onnx" speedup p.onnx --no-bench -o out.onnx
for form in safetensors pth npz; do
    try export.$form "out.onnx out.$form" export m.onnx --state out.$form -o out.onnx
done
try external "out.onnx out.onnx.data" export m.onnx --external -o out.onnx
try simplify out.onnx export m.onnx --simplify -o out.onnx
try run "out.npz" run m.onnx -o out.npz
try tune "out.txt" run m.onnx --batch 4 --threads 1 --tune --choices out.txt
try analyze "out.csv" analyze sensitivity m.onnx --data digits --limit 32 --sparsities 0.5 --threads 1 --csv out.csv
try report "out.html" report done.json -o out.html
try compress "out.onnx out.run.json" compress r.json -q
echo "$failed calls failed, $retried writes were short or interrupted"
exit $((bad > 0))
