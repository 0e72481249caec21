#!/bin/sh
# fuzz.sh - run every libFuzzer program of a build folder for FUZZ_SECONDS each.
#
# usage: tools/fuzz.sh BUILD_FOLDER
# Starts from the committed corpus and the official operator cases; what is found on the way is kept
# in BUILD_FOLDER/corpus, so the next run goes on from there.  An input that fails is left in
# BUILD_FOLDER; once fixed, it belongs in tests/fuzz/corpus.
set -eu
cd "$(dirname "$0")/.."
build=$1
official=/usr/share/libonnx-testdata/data/node

for program in "$build"/tests/fuzz/fuzz_*; do
    [ -x "$program" ] && [ ! -d "$program" ] || continue
    name=$(basename "$program")
    mkdir -p "$build/corpus/$name"
    echo "$name: ${FUZZ_SECONDS:=60} seconds"
    "$program" -max_total_time="$FUZZ_SECONDS" -timeout=20 -rss_limit_mb=4096 -print_final_stats=1 \
        -artifact_prefix="$build/$name-" "$build/corpus/$name" tests/fuzz/corpus "$official" \
        >"$build/$name.log" 2>&1 || { tail -40 "$build/$name.log"; exit 1; }
    grep -E '^(stat::number_of_executed_units|stat::new_units_added)' "$build/$name.log"
done
