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

# ends CODE TEXT COMMAND...: it must end with this code and say this.
ends() {
    code=$1 text=$2
    shift 2
    rc=0
    "$@" >out 2>err || rc=$?
    [ $rc = "$code" ] || fail "'$*' ended with $rc, not $code"
    grep -q -- "$text" err || fail "'$*' did not say '$text'"
}

# Time is over while the written model waits for the disk: no file is left, not even a temporary one.
cp "$models/tiny_cnn.onnx" m.onnx
mkdir a b
export ASAN_OPTIONS=verify_asan_link_order=0
ends 1 '^pare: --timeout of 0.5 seconds reached; unfinished files were removed$' \
    env LD_PRELOAD="$slow" "$pare" prune m.onnx --sparsity 0.5 -o a/out.onnx --timeout 0.5
ends 1 '^pare: --timeout of 0.5 seconds reached' \
    env LD_PRELOAD="$slow" "$pare" run m.onnx -o b/y.npz --timeout 0.5
[ -z "$(ls -A a b | grep -v :)" ] || fail "something is left"

# What was there before stays as it was.
echo old >a/out.onnx
ends 1 '^pare: --timeout of 0.5 seconds reached' \
    env LD_PRELOAD="$slow" "$pare" prune m.onnx --sparsity 0.5 -o a/out.onnx --timeout 0.5
[ "$(cat a/out.onnx)" = old ] || fail "the old file is gone"
[ "$(ls -A a)" = out.onnx ] || fail "something is left"

# A training stops at the next step and can be taken up again; the end is the same.
"$pare" new mlp --input 1,8,8 --classes 10 -o net.onnx >out
options="--data digits --valid none --epochs 60 --seed 3 --threads 1 --checkpoint c.safetensors"
"$pare" train net.onnx $options -o whole.onnx --quiet
rm -f c.safetensors
ends 1 '^pare: stopped in epoch .*--resume (--timeout of .* seconds reached)$' \
    "$pare" train net.onnx $options -o part.onnx --quiet --timeout 0.2
[ -e c.safetensors ] || fail "there is no checkpoint"
[ ! -e part.onnx ] || fail "a model was written that is not trained"
"$pare" train net.onnx $options -o part.onnx --quiet --resume
cmp whole.onnx part.onnx || fail "it is not the same model"

# Enough time changes nothing; nor does a limit that is not reached.
"$pare" run m.onnx --timeout 600 --max-memory 4G >with 2>err
"$pare" run m.onnx >without 2>err
cmp with without || fail "a limit changed the result"
