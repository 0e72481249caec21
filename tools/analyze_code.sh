#!/bin/sh
# analyze_code.sh - gcc's analyzer and clang-tidy over our C files; what they find is an error.
#
# usage: tools/analyze_code.sh BUILD_FOLDER [FOLDER...]        (src/ when no folder is named)
# The build folder is one made with clang, with compile_commands.json in which no file is twice
# (clang-tidy would look at it twice in a row and then invent va_lists): `make analyze-code` has it.
# .clang-tidy has clang's list of checks, analyze_one.sh gcc's, with what was turned off and why.
set -eu
cd "$(dirname "$0")/.."
build=$1
shift
files=$(git ls-files -- "${@:-src}" | grep '\.c$')
failed=0

echo "$files" | xargs -P "${JOBS:-$(nproc)}" -n 1 tools/analyze_one.sh "$build" >"$build/analysis.log" 2>&1 ||
    failed=1
[ $failed = 0 ] || head -100 "$build/analysis.log"
sort -u "$build/analysis.log" | grep -E '(warning|error): ' >"$build/findings.txt" || :
gcc_found=$(grep -c 'Wanalyzer' "$build/findings.txt" || :)
echo "gcc -fanalyzer: $gcc_found findings in $(echo "$files" | wc -l) files"
echo "clang-tidy: $(($(wc -l <"$build/findings.txt") - gcc_found)) findings"
exit $failed
