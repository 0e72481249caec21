#!/bin/sh
# failing_allocations.sh - fail every allocation once, in every command: those of Pare, of the
# libraries that read and write file formats, and of oneDNN.
#
# usage: failing_allocations.sh PARE SHIM [all|some]
# `some` fails about 60 allocations of each command, `all` every one, and 1,500 of oneDNN's.
# tests/unit/test_faults.c fails the allocations inside arenas.
. "$(dirname "$0")/fault_functions.sh"
most=60
[ "$how_many" = all ] && most=1000000
jobs=$(nproc)
failed=0 harmless=0
kind=memory

"$pare" new lenet --input 1,8,8 --width 0.25 -o m.onnx || exit 1
"$pare" prune m.onnx --pruner l1 --sparsity 0.5 -o p.onnx --masks k.pth >out || exit 1
"$pare" bench m.onnx --table times.jsonl --threads 1 >out 2>err || exit 1
cat >r.json <<'J'
{"model": "m.onnx", "data": "digits", "output": "out.onnx", "seconds": 0, "threads": 1,
 "steps": [{"step": "prune", "pruner": "l1", "sparsity": 0.5}, {"step": "speedup"},
           {"step": "finetune", "epochs": 1, "limit": 32, "batch": 32},
           {"step": "quantize", "preset": "int8", "limit": 16}]}
J
"$pare" bench m.onnx --table times.jsonl --threads 1 --seconds 1 >out 2>&1 || exit 1

# job NUMBER COMMAND...: fail one allocation in $step * $jobs, in a separate folder; write counts there
job() {
    n=$((${first:-1} + $1 * step)) failed=0 harmless=0
    shift
    while [ $n -le "$all" ]; do
        rm -rf out.* hit
        echo old >out.onnx
        FAULT_KIND=$kind FAULT_AT=$n FAULT_HIT=$PWD/hit LD_PRELOAD=$shim "$pare" "$@" >out 2>err
        code=$?
        where="$name, allocation $n of $all"
        n=$((n + step * jobs))
        [ -e hit ] || continue
        if [ $code = 0 ]; then
            harmless=$((harmless + 1))
        else
            failed=$((failed + 1))
            [ $code = 1 ] || [ $code = 2 ] || wrong "$where: exit code $code, $(tail -2 err)"
            one_message || wrong "$where: $(cat err)"
            [ "$(tr -d '\0' <out.onnx | head -c 4)" = old ] || "$pare" inspect out.onnx >/dev/null 2>&1 ||
                wrong "$where: out.onnx is neither the old file nor complete"
        fi
        left=$(find . -name '*.tmp*')
        [ -z "$left" ] || wrong "$where: leaves $left"
    done
    echo $failed $harmless $bad >counts
}

# try NAME COMMAND...: fail allocations of a command, spread evenly over all of them
try() {
    name=$1
    shift
    FAULT_KIND=$kind FAULT_AT=1000000000 FAULT_COUNT=$tmp/count LD_PRELOAD=$shim "$pare" "$@" >out 2>err ||
        { wrong "$name fails without a fault: $(tail -1 err)"; return; }
    all=$(cat count)
    step=$(((all + most - 1) / most)) k=0 before=$((failed + harmless))
    while [ $k -lt $jobs ]; do
        rm -rf "job$k"
        mkdir "job$k"
        cp m.onnx p.onnx k.pth r.json "job$k"
        (cd "job$k" && job $k "$@") &
        k=$((k + 1))
    done
    wait
    while [ $k -gt 0 ]; do
        k=$((k - 1))
        echo 0 0 1 >none # of a job that ended early
        read -r f h b <"$([ -e "job$k/counts" ] && echo "job$k/counts" || echo none)"
        failed=$((failed + f)) harmless=$((harmless + h)) bad=$((bad + b))
    done
    echo "$name: $all allocations, $((failed + harmless - before)) of them made to fail"
}

try inspect inspect m.onnx
try run run m.onnx -o out.npz
try train train m.onnx --data digits --limit 32 --epochs 1 --threads 1 --quiet -o out.onnx
try prune prune m.onnx --pruner l1 --sparsity 0.5 -o out.onnx --masks out.pth
try search prune m.onnx --pruner simulated_annealing --sparsity 0.5 --data digits --limit 50 --threads 1 --cool-down-rate 0.1 \
    --experiment-data-dir out.search --quiet -o out.onnx
try quantize quantize m.onnx --preset int8 --data digits --limit 16 -o out.onnx
try budget compress m.onnx --data digits --limit 64 --budget macs=0.6 --methods channels --table times.jsonl --threads 1 \
    -q -o out.onnx
try verify verify p.onnx --against m.onnx --data digits --limit 16 --threads 1 -o out.onnx
try apply apply m.onnx --masks k.pth -o out.onnx
try speedup speedup p.onnx --no-bench -o out.onnx
try export export m.onnx --state out.npz -o out.onnx
try simplify export m.onnx --simplify -o out.onnx
try compress compress r.json -q
try budget compress m.onnx --data digits --limit 64 --budget macs=0.9 --table "$tmp/times.jsonl" --threads 1 -q -o out.onnx

# oneDNN throws an exception or does not check: the process still ends with an error message.  Its
# allocations before main() are left out.
FAULT_KIND=kernels FAULT_AT=1000000000 FAULT_COUNT=$tmp/count LD_PRELOAD=$shim "$pare" --version >out
kind=kernels first=$(($(cat count) + 1))
most=15
[ "$how_many" = all ] && most=1500
try "run, oneDNN" run m.onnx -o out.npz --max-memory 1G
try "train, oneDNN" train m.onnx --data digits --limit 32 --epochs 1 --threads 1 --quiet -o out.onnx --max-memory 1G
try "quantize, oneDNN" quantize m.onnx --preset int8 --data digits --limit 16 -o out.onnx --max-memory 1G

# A plugin's own allocations are limited by --max-memory plus the fixed reserve.
cat >plugin.c <<'C'
#include <pare/plugin.h>
#include <stdlib.h>
#include <string.h>
static int score(struct pare_compression *r, struct pare_layer *l, float *s, struct pare_err *err)
{
    size_t mb = 0;
    char *p;

    (void)r;
    pare_units_sum(pare_layer_units(l), pare_layer_weight(l), 1, s);
    for (; mb < 4096 && (p = malloc(1 << 20)); mb++)
        memset(p, 1, 1 << 20);
    return pare_fail(err, PARE_ENOMEM, "%zu MB were allocated", mb);
}
static const struct pare_algorithm pruner = { .abi = PARE_ABI, .size = sizeof(struct pare_algorithm), .name = "allocates_all", .doc = "Allocates all memory.", .pruner = &(const struct pare_pruner){ .size = sizeof(struct pare_pruner), .score = score } };
PARE_API int pare_plugin_init(struct pare_registry *g, struct pare_err *err)
{
    return pare_add_pruner(g, &pruner, err);
}
C
cc -shared -fPIC -I"$PARE_INCLUDE" plugin.c -o allocates_all.so || exit 1
rm -f out.onnx
"$pare" prune m.onnx --plugin ./allocates_all.so --pruner allocates_all --sparsity 0.5 --max-memory 64M -o out.onnx >out 2>err
code=$?
mb=$(sed -n 's/.* \([0-9]*\) MB were allocated (--max-memory is 64M)$/\1/p' err)
[ $code = 1 ] && [ "${mb:-5000}" -lt 700 ] && [ ! -e out.onnx ] ||
    wrong "a plugin that allocates all memory: exit code $code, $(cat err)"
echo "a plugin that allocates all memory got $mb MB"

echo "$failed allocations made the command fail with a message, $harmless did no harm"
exit $((bad > 0))
