#!/bin/sh
# fuzz.sh - run every libFuzzer program of a build folder within a total time.
#
# usage: tools/fuzz.sh BUILD_FOLDER [SECONDS]      (600)
# Runs one program per core at a time.  Starts from the committed corpus and the official operator
# cases; new inputs are kept in BUILD_FOLDER/corpus, where the next run continues.  An input that
# crashes, leaks, takes more than 10 seconds or more than 2 GB is left in BUILD_FOLDER; once fixed, it
# belongs in tests/fuzz/corpus.
set -eu
cd "$(dirname "$0")/.."
build=$1
official=/usr/share/libonnx-testdata/data/node
jobs=$(nproc)
programs=$(find "$build/tests/fuzz" -maxdepth 1 -type f -perm -u+x -name 'fuzz_*' | sort)
n=$(echo "$programs" | wc -l)
each=$(((${2:-600} * jobs + n - 1) / n))
echo "$n targets, $each seconds each"

cat >"$build/fuzz_one.sh" <<'S'
name=$(basename "$1")
log=$build/$name.log
mkdir -p "$build/corpus/$name"
rm -f "$build/$name.failed" "$build/$name"-*
models=
case $name in fuzz_onnx | fuzz_run | fuzz_speedup) models=$official ;; esac
limits="-timeout=10 -rss_limit_mb=2048"
end=$(($(date +%s) + each))
runs=0 new=0 rss=0
stat() { sed -n "s/^stat::$1: *//p" "$log"; }

# On a busy machine any input may seem slow: inputs that timed out are run again alone.
once_more() {
    late=$(find "$build" -maxdepth 1 -name "$name-timeout-*")
    [ -n "$late" ] && "$1" $limits $late >>"$log" 2>&1 && rm $late
}

while left=$((end - $(date +%s))) && [ $left -gt 0 ]; do
    OMP_NUM_THREADS=1 "$1" -max_total_time=$left $limits -max_len=16384 -print_final_stats=1 \
        -artifact_prefix="$build/$name-" "$build/corpus/$name" tests/fuzz/corpus $models >"$log" 2>&1
    code=$?
    runs=$((runs + $(stat number_of_executed_units))) new=$((new + $(stat new_units_added)))
    rss=$(stat peak_rss_mb)
    if [ $code != 0 ] && ! once_more "$1"; then
        touch "$build/$name.failed"
        echo "$name: FAILED, see $log"
        grep -m1 -E 'ERROR|SUMMARY|runtime error' "$log" || tail -5 "$log"
        break
    fi
done
printf '%-18s %10d executions, %d new inputs, %d MB\n' "$name" $runs $new "$rss"
S
export build official each
rm -f "$build"/*.failed
echo "$programs" | xargs -P "$jobs" -n 1 sh "$build/fuzz_one.sh"

# Random networks compared with ONNX Runtime, with other seeds every time, if make test-interop has built
# the programs for it.
parent=$(dirname "$build")
if [ -x "$parent/tests/interop/random_graphs" ] && [ -d "$parent/node/node_modules" ]; then
    tests/interop/random_graphs.sh "$parent/tests/interop/random_graphs" "$parent/node/node_modules" 200 \
        "$(date +%s)" || touch "$build/random_graphs.failed"
else
    echo "not compared with ONNX Runtime: run make test-interop first"
fi
failed=$(find "$build" -maxdepth 1 -name '*.failed' | wc -l)
[ "$failed" = 0 ] || { echo "$failed targets failed" >&2; exit 1; }
