#!/bin/sh
# check_registry.sh - check that every operator, kernel, loss, ... is one file, one descriptor and one
# line in its .def list, under the same name, and that there is no other list of operator types.
set -eu
cd "$(dirname "$0")/.."
bad=0

complain() {
    echo "check_registry.sh: $1" >&2
    bad=1
}

# registry LIST MACRO FILES STRUCT[:SYMBOL] PREFIX [NOT_LISTED...]
# NAME is described by `const struct STRUCT SYMBOL_NAME`; SYMBOL is STRUCT unless given.
# FILES is the folder of the files; the file of NAME is PREFIX + NAME.c, for example cmd_NAME.c.
registry() {
    list=$1 macro=$2 root=$3 struct=${4%:*} symbol=${4#*:} prefix=$5
    shift 5
    [ -f "$list" ] || return 0
    listed=$(sed -n "s/^$macro(\([a-z0-9_]*\)[,)].*/\1/p" "$list")
    twice=$(echo "$listed" | sort | uniq -d)
    [ -z "$twice" ] || complain "$list lists $twice twice"
    for name in $listed; do
        file=$(find "$root" -name "$prefix$name.c")
        if [ -z "$file" ]; then
            complain "$list lists $name, but $root has no $prefix$name.c"
        elif ! grep -q "^const struct $struct ${symbol}_$name = {" "$file"; then
            complain "$file does not define ${symbol}_$name"
        fi
    done
    for found in $(grep -rho "^const struct $struct ${symbol}_[a-z0-9_]* = {" "$root" |
        sed "s/.*${symbol}_\([a-z0-9_]*\) = {/\1/"); do
        echo "$listed" "$@" | tr ' ' '\n' | grep -qxF "$found" ||
            complain "${symbol}_$found has no line in $list"
    done
}

registry src/op/ops.def OP src/op pare_op ""
registry src/backend/kernels.def '[A-Z_]*KERNEL' src/backend pare_kernel "" reorder
registry src/graph/pattern/patterns.def PATTERN src/graph/pattern pare_pattern pattern_
registry src/graph/rewrite/rewrites.def REWRITE src/graph/rewrite pare_rewrite rewrite_
registry src/onnx/intake/intake.def INTAKE src/onnx/intake pare_intake_step ""
registry src/data/sources.def SOURCE src/data pare_source "" memory
registry src/train/losses.def LOSS src/train pare_loss loss_
registry src/train/optimizers.def OPTIMIZER src/train pare_optimizer optim_
registry src/train/schedules.def SCHEDULE src/train pare_schedule schedule_
registry src/prune/pruners.def PRUNER src/prune pare_algorithm:pare_pruner prune_
registry src/quant/quantizers.def QUANTIZER src/quant pare_algorithm:pare_quantizer quantize_
registry src/quant/preset/presets.def PRESET src/quant/preset pare_preset preset_
registry src/quant/rounding/roundings.def '[A-Z_]*ROUNDING' src/quant/rounding pare_rounding_method:pare_rounding round_
registry src/search/solvers.def SOLVER src/search pare_alloc_solver solve_
registry src/zoo/networks.def NETWORK src/zoo pare_network ""
registry src/cli/cmd/commands.def COMMAND src/cli pare_command cmd_

# Properties of operators are in their descriptors.  Outside src/op:
#   - nothing compares strings with operator types, ONNX's or PyTorch's; only src/onnx does, where
#     it reads protobuf;
#   - a statement does not ask whether one node is this operator or that one;
#   - a file names at most one descriptor, in src/onnx two; src/backend, src/plan/rewrite,
#     src/graph/rewrite and src/graph/pattern, which match patterns of operators, name as many as the pattern has;
#   - there are no tables of operator types in the folders that compress models.
types=$(grep -rhoE '(\.type = |\.torch = |_OP\()"[A-Za-z0-9]+(#d)?"' src/op |
    sed 's/.*"\([A-Za-z0-9]*\)\(#d\)*"/\1/' | sort -u)
find src -path src/op -prune -o -name '*.[ch]' -print | sort | xargs awk -v types="$types" '
function complain(what) {
    printf "%s:%d: %s\n", FILENAME, FNR, what
    bad = 1
}

# A statement that asks for two operators with the same first argument.
function check_statement(text,    asked, call, node, op) {
    while (match(text, /is\([^,()"]*(\([^()]*\))?[^,()"]*, (&pare_op_[a-z0-9_]+|"[A-Za-z0-9]+")\)/)) {
        call = substr(text, RSTART + 3, RLENGTH - 4)
        text = substr(text, RSTART + RLENGTH)
        node = op = call
        sub(/, [^,]*$/, "", node)
        sub(/^.*, /, "", op)
        if (op ~ /^"/ && !(op in is_type))
            continue
        if ((node in asked) && asked[node] != op)
            complain("asks for " asked[node] " and " op ": use a property of the descriptor")
        asked[node] = op
    }
}

function end_file() {
    if (named > most)
        printf "%s: names %d operators, at most %d are allowed: use their descriptors\n", file,
               named, most
    bad = bad || named > most
}

BEGIN {
    n = split(types, list, "\n")
    for (i = 1; i <= n; i++)
        is_type["\"" list[i] "\""] = 1
}
FNR == 1 {
    end_file()
    file = FILENAME
    most = file ~ /^src\/(backend|plan\/rewrite|graph\/pattern|graph\/rewrite)\// ? 1000 : file ~ /^src\/onnx\// ? 2 : 1
    tables = file ~ /^src\/(graph|compress|prune|quant|analyze|speedup|train|report|cli)\//
    named = inside = 0
    statement = ""
    delete seen
}
{
    line = $0
    sub(/\/\*.*/, "", line)
    statement = statement line
    while (match(statement, /[;{}]/)) {
        done = substr(statement, 1, RSTART)
        statement = substr(statement, RSTART + 1)
        check_statement(done)
    }
    rest = line
    while (match(rest, /&pare_op_[a-z0-9_]+/)) {
        named += !(substr(rest, RSTART, RLENGTH) in seen)
        seen[substr(rest, RSTART, RLENGTH)] = 1
        rest = substr(rest, RSTART + RLENGTH)
    }
    if (file !~ /^src\/onnx\// && match(line, /str(n|case)?cmp\([^"]*"[A-Za-z0-9]+"/)) {
        name = substr(line, RSTART, RLENGTH)
        sub(/^[^"]*/, "", name)
        if (name in is_type)
            complain("compares a string with " name ": use the descriptor")
    }
}
/^[ ]*};?$/ { inside = 0 }
tables && (/\[\]? *= *{/ || /\[\]\[[0-9]*\] = {/) { inside = 1; found = 0 }
inside {
    while (match(line, /"[^"]*"/)) {
        found += substr(line, RSTART, RLENGTH) in is_type
        line = substr(line, RSTART + RLENGTH)
    }
    if (found > 1) {
        complain("a table of operator types: use their descriptors")
        inside = 0
    }
    if (/};$/)
        inside = 0
}
END {
    end_file()
    exit bad
}
' >&2 || bad=1

# Public functions accept NULL for err: they begin with PARE_ERR(err), and a test calls each.
good=$(find src -name '*.c' | xargs awk '
    FNR == 1 { name = "" }
    /^[a-z].*pare_[a-z0-9_]+\(/ { name = $0; sub(/\(.*/, "", name); sub(/.*[ *]/, "", name) }
    /PARE_ERR\(err\);/ { print name }
    /;$/ { name = "" }')
for name in $(cat include/pare/*.h | tr '\n' ' ' | grep -oE 'PARE_API [^;]*;' |
    grep 'struct pare_err \*err' | sed -E 's/^[^(]*[ *](pare_[a-z0-9_]+)\(.*/\1/'); do
    grep -q "[^a-z_]$name(" tests/unit/test_null_err.c ||
        complain "tests/unit/test_null_err.c does not call $name()"
    [ "$name" = pare_at ] || echo "$good" | grep -qxF "$name" ||
        complain "$name() does not begin with PARE_ERR(err)"
done
exit $bad
