#!/bin/sh
# analyze_code.sh - run gcc's analyzer and clang-tidy on all C files; every finding is an error.
#
# usage: tools/analyze_code.sh BUILD_FOLDER [FOLDER...]        (default: src/)
# The build folder is configured with clang and has a compile_commands.json without duplicates
# (clang-tidy reports false va_list errors for files that are listed twice): `make analyze-code` makes it.
# .clang-tidy has clang's list of checks, analyze_one.sh gcc's, with reasons for disabled checks.
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
