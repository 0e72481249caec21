#!/bin/bash
# kill_and_resume.sh - kill a training, a whole compression and a search for a budget at random moments; they resume to the same bytes.
#
# usage: kill_and_resume.sh PARE SHIM [all|some] [SIGNAL...]        (KILL INT TERM)
# KILL: 50 times each with `all`, else 4; INT and TERM: a quarter of that.  A command ended by a signal
# that can be caught prints a message, or exits with the code of the signal; nothing else is accepted.
. "$(dirname "$0")/fault_functions.sh"
shift $(($# < 3 ? $# : 3))
times=${TIMES:-4}
[ "$how_many" = all ] && times=${TIMES:-50}
RANDOM=${SEED:-1}
now() { date +%s%N; }

"$pare" new lenet --input 1,8,8 --width 0.5 -o m.onnx || exit 1
cat >r.json <<'J'
{"model": "m.onnx", "data": "digits", "output": "out.onnx", "seconds": 0, "threads": 1,
 "steps": [{"step": "prune", "pruner": "agp", "sparsity": 0.5, "epochs": 2, "limit": 320, "batch": 32},
           {"step": "speedup"},
           {"step": "finetune", "epochs": 12, "limit": 320, "batch": 32, "optimizer": "adam"},
           {"step": "quantize", "preset": "int8", "limit": 64}]}
J
train="train m.onnx --data digits --limit 320 --epochs 30 --batch 32 --optimizer adam --threads 1
    --checkpoint c.safetensors -o out.onnx"
compress="compress r.json"

# With times of a file, no measurement decides.
"$pare" bench m.onnx --table times.jsonl --threads 1 >out 2>err || exit 1
budget="compress m.onnx --data digits --limit 400 --budget macs=0.5 --table times.jsonl --finetune 40 --threads 1
    --seed 1 -o out.onnx"

# measure COMMAND...: $took is the shorter duration of two runs, in milliseconds
measure() {
    took=
    for i in 1 2; do
        rm -rf out.* c.safetensors
        start=$(now)
        "$pare" "$@" >out 2>err || return
        ms=$((($(now) - start) / 1000000))
        [ -n "$took" ] && [ "$took" -le $ms ] || took=$ms
    done
    cp out.onnx want.onnx
}

# survive SIGNAL TIMES COMMAND...: send the signal at random moments, then resume
survive() {
    signal=$1 count=$2
    shift 2
    measure "$@" || { wrong "$1 fails without a signal: $(cat err)"; return; }
    ended=0 tries=0
    while [ $ended -lt "$count" ] && [ $tries -lt $((4 * count + 12)) ]; do
        rm -rf out.* c.safetensors
        tries=$((tries + 1))
        wait=$((RANDOM * took / 32768))
        "$pare" "$@" >out 2>err &
        job=$!
        sleep "$(printf '%d.%03d' $((wait / 1000)) $((wait % 1000)))"
        kill -"$signal" $job 2>/dev/null
        wait $job 2>/dev/null
        code=$?
        case $signal:$code in
        KILL:137 | INT:130 | TERM:143) ended=$((ended + 1)) ;;
        INT:1 | TERM:1)
            ended=$((ended + 1))
            tail -1 err | grep -q '^pare: .*stopped in epoch' ||
                wrong "$1: $signal after $wait ms: $(tail -3 err)" ;;
        *:0) ;; # the command had ended already
        *) wrong "$1: $signal after $wait ms gives exit code $code: $(tail -3 err)" ;;
        esac
        [ ! -e out.onnx ] || cmp -s out.onnx want.onnx || wrong "$1: $signal leaves a different model"
        "$pare" "$@" --resume >out 2>err ||
            wrong "$1: after $signal at $wait ms --resume fails: $(tail -1 err)"
        cmp -s out.onnx want.onnx || wrong "$1: resuming after $signal at $wait ms gives a different model"
        left=$(find . -name 'c.safetensors.*.tmp' -o -name '.pare-*.tmp')
        [ -z "$left" ] || wrong "$1: after $signal at $wait ms $left is never removed"
    done
    [ $ended = "$count" ] || wrong "$1: $signal arrived before the end only $ended of $count times"
    echo "$1: ended by $signal $ended times and resumed, each time with the same bytes"
}

for signal in ${*:-KILL INT TERM}; do
    n=$times
    [ "$signal" = KILL ] || n=$(((times + 3) / 4))
    survive "$signal" $n $train
    survive "$signal" $n $compress
    [ "$signal" != KILL ] || survive "$signal" $n $budget
done
exit $((bad > 0))
