#!/bin/sh
# analyze_code.sh - gcc's analyzer and clang-tidy over src/; what they find is an error.
#
# usage: tools/analyze_code.sh BUILD_FOLDER [FOLDER...]       (with compile_commands.json; all of src/)
# .clang-tidy has clang's list of checks, with what was turned off and why.  Of gcc's analyzer those
# checks are off that do not understand arenas (memory that is freed as a whole looks lost), that do
# not know that pare_fail() never returns 0 (so a NULL that was reported looks used), that follow
# a pointer which another function has set, or that take the lanes of a vector for the bits of one
# when it is shifted.
set -eu
cd "$(dirname "$0")/.."
build=$1
shift
jobs=$(nproc)
files=$(git ls-files -- "${@:-src}" | grep '\.c$')
failed=0

gcc_one='gcc -std=c11 -O1 -fopenmp -D_GNU_SOURCE -DPARE_VERSION="\"0\"" -Iinclude -I"$0/gen" -fanalyzer \
    -Wno-analyzer-malloc-leak -Wno-analyzer-use-of-uninitialized-value -Wno-analyzer-file-leak \
    -Wno-analyzer-fd-leak -Wno-analyzer-null-dereference -Wno-analyzer-possible-null-dereference \
    -Wno-analyzer-null-argument -Wno-analyzer-possible-null-argument \
    -Wno-analyzer-shift-count-overflow \
    $(pkg-config --cflags libprotobuf-c jansson libzip libpng 2>/dev/null) \
    $(pkg-config --cflags ompi-c 2>/dev/null) -c "$1" -o /dev/null 2>&1'
echo "$files" | xargs -P "$jobs" -n 1 sh -c "$gcc_one" "$build" >"$build/analyzer.log" || failed=1
if grep -q 'Wanalyzer' "$build/analyzer.log"; then
    grep -B1 -A12 'Wanalyzer' "$build/analyzer.log" | head -60
    failed=1
fi
echo "gcc -fanalyzer: $(grep -c 'warning:.*Wanalyzer' "$build/analyzer.log" || :) findings"

echo "$files" | xargs -P "$jobs" -n 1 clang-tidy -p "$build" --quiet >"$build/tidy.log" 2>/dev/null || :
grep -E 'warning:|error:' "$build/tidy.log" | sort -u >"$build/tidy.txt" || :
head -60 "$build/tidy.txt"
echo "clang-tidy: $(wc -l <"$build/tidy.txt") findings"
[ ! -s "$build/tidy.txt" ] || failed=1
exit $failed
