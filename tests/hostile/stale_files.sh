#!/bin/bash
# stale_files.sh - the next process removes temporary files of a process that was killed while writing,
# and keeps other files.
#
# usage: stale_files.sh PARE SLOW_SYNC.so MODELS
set -u
pare=$(realpath "$1")
slow=$(realpath "$2")
work=$(mktemp -d)
cp "$3/tiny_cnn.onnx" "$work/m.onnx"
cd "$work" || exit 1
export OMP_WAIT_POLICY=passive LC_ALL=C ASAN_OPTIONS=verify_asan_link_order=0
jobs=

finish() {
    [ -z "$jobs" ] || kill -9 $jobs 2>/dev/null
    rm -rf "$work"
}
trap finish EXIT

fail() {
    echo "stale_files.sh: $*"
    ls -lA . out
    exit 1
}

# start PATTERN COMMAND...: start a command that blocks in fsync(); $file is its temporary file
start() {
    pattern=$1 before=$(ls -A out)
    shift
    LD_PRELOAD=$slow "$pare" "$@" >log 2>&1 &
    job=$! jobs="$jobs $!" file=
    for i in $(seq 600); do
        file=$(ls -A out | grep -x "$pattern" | grep -vxF "${before:-nothing}")
        [ -n "$file" ] && [ -s "out/$file" ] && return
        sleep 0.05
    done
    fail "'$*' writes nothing: $(cat log)"
}

# start_and_kill PATTERN COMMAND...
start_and_kill() {
    start "$@"
    kill -9 $job
    wait $job 2>/dev/null
    [ -e "out/$file" ] || fail "$file is gone, so nothing is tested"
}

mkdir out
prune="prune m.onnx --sparsity 0.5 -o"
start_and_kill '\.pare-.*\.tmp' $prune out/a.onnx
dead=$file
start '\.pare-.*\.tmp' $prune out/b.onnx
[ ! -e "out/$dead" ] || fail "$dead was not removed"
live=$file

# Files of similar names: one locked by another process (as of another machine), a folder, a pipe.
number=$dead
number=${number#.pare-} number=${number%%-*}
echo x >out/.pare-$number-7.tmp
exec 9<out/.pare-$number-7.tmp
flock 9
mkdir out/.pare-$number-8.tmp
mkfifo out/.pare-$number-9.tmp
echo x >out/.pare-$number.tmp.old
"$pare" $prune out/c.onnx >log 2>&1 || fail "$(cat log)"
for name in "$live" .pare-$number-7.tmp .pare-$number-8.tmp .pare-$number-9.tmp .pare-$number.tmp.old; do
    [ -e "out/$name" ] || fail "$name was removed"
done
exec 9<&-
"$pare" $prune out/c.onnx >log 2>&1 || fail "$(cat log)"
[ ! -e "out/.pare-$number-7.tmp" ] || fail ".pare-$number-7.tmp is not locked, but was kept"

# Temporary files of other formats: the next writer of the same file removes them.
start_and_kill 'y\.npz\..*\.tmp' run m.onnx -o out/y.npz
"$pare" run m.onnx -o out/z.npz >log 2>&1 || fail "$(cat log)"
[ -e "out/$file" ] || fail "$file was removed by the writer of another file"
"$pare" run m.onnx -o out/y.npz >log 2>&1 || fail "$(cat log)"
[ ! -e "out/$file" ] || fail "$file was not removed"
