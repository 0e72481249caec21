#!/bin/sh
# timeout.sh - --timeout leaves no incomplete files, and a checkpoint to resume from.
#
# usage: timeout.sh PARE SLOW_SYNC.so MODELS
set -eu
pare=$(realpath "$1")
slow=$(realpath "$2")
models=$(realpath "$3")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
export OMP_WAIT_POLICY=passive LC_ALL=C

fail() {
    echo "timeout.sh: $*"
    ls -lA
    cat err
    exit 1
}

# expect CODE TEXT COMMAND...: the command must exit with this code and print this
expect() {
    code=$1 text=$2
    shift 2
    rc=0
    "$@" >out 2>err || rc=$?
    [ $rc = "$code" ] || fail "'$*' exited with $rc, not $code"
    grep -q -- "$text" err || fail "'$*' did not print '$text'"
}

# The time ends while the written model waits for the disk: no file is left, not even a temporary one.
cp "$models/tiny_cnn.onnx" m.onnx
mkdir a b
export ASAN_OPTIONS=verify_asan_link_order=0
expect 1 '^pare: --timeout of 0.5 seconds reached; unfinished files were removed$' \
    env LD_PRELOAD="$slow" "$pare" prune m.onnx --sparsity 0.5 -o a/out.onnx --timeout 0.5
expect 1 '^pare: --timeout of 0.5 seconds reached' \
    env LD_PRELOAD="$slow" "$pare" run m.onnx -o b/y.npz --timeout 0.5
[ -z "$(ls -A a b | grep -v :)" ] || fail "a file is left"

# An existing output is not changed.
echo old >a/out.onnx
expect 1 '^pare: --timeout of 0.5 seconds reached' \
    env LD_PRELOAD="$slow" "$pare" prune m.onnx --sparsity 0.5 -o a/out.onnx --timeout 0.5
[ "$(cat a/out.onnx)" = old ] || fail "the old file is gone"
[ "$(ls -A a)" = out.onnx ] || fail "a file is left"

# Training stops at the next step and can be resumed, with the same result.
"$pare" new mlp --input 1,8,8 --classes 10 -o net.onnx >out
options="--data digits --valid none --epochs 60 --seed 3 --threads 1 --checkpoint c.safetensors"
"$pare" train net.onnx $options -o whole.onnx --quiet
rm -f c.safetensors
expect 1 '^pare: stopped in epoch .*--resume (--timeout of .* seconds reached)$' \
    "$pare" train net.onnx $options -o part.onnx --quiet --timeout 0.2
[ -e c.safetensors ] || fail "there is no checkpoint"
[ ! -e part.onnx ] || fail "an untrained model was written"
"$pare" train net.onnx $options -o part.onnx --quiet --resume
cmp whole.onnx part.onnx || fail "the models differ"

# A time or memory limit that is not reached changes nothing.
"$pare" run m.onnx --timeout 600 --max-memory 4G >with 2>err
"$pare" run m.onnx >without 2>err
cmp with without || fail "a limit changed the result"
