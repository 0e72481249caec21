#!/bin/sh
# lint.sh - run all static checks and list those that failed.
set -u
cd "$(dirname "$0")/.."
build=${BUILD:-build}
jobs=$(nproc)
failed=""

run() {
    name=$1
    shift
    if "$@"; then
        echo "ok    $name"
    else
        echo "FAIL  $name"
        failed="$failed $name"
    fi
}

format() {
    untidy=$(git ls-files -co --exclude-standard '*.c' '*.h' |
        xargs clang-format --dry-run -Werror 2>&1 | sed -n 's/: error:.*//p' | cut -d: -f1 | sort -u)
    [ -z "$untidy" ] && return
    echo "not formatted; run 'make fmt':" $untidy
    return 1
}

# Suppressed: guesses about loops that may run zero times or past a table's end marker.
# With a build folder cppcheck only checks changed files; findings across files do not change its
# exit code, so the log is checked, too.
cppcheck_all() {
    mkdir -p "$build/cppcheck"
    cppcheck -q --std=c11 --enable=warning --inline-suppr --error-exitcode=1 -j "$jobs" -Iinclude \
        --cppcheck-build-dir="$build/cppcheck" --suppress=missingInclude --suppress=uninitvar \
        --suppress=legacyUninitvar --suppress=invalidFunctionArg --suppress=arrayIndexOutOfBoundsCond src \
        2>"$build/cppcheck.log" && [ ! -s "$build/cppcheck.log" ] && return
    cat "$build/cppcheck.log"
    return 1
}

# compile NAME CC: build everything, including tests, with warnings as errors.
compile() {
    mkdir -p "$build/$1"
    { cmake -S . -B "$build/$1" -DCMAKE_C_COMPILER="$2" -DCMAKE_C_FLAGS_RELEASE=-O1 -DPARE_WERROR=ON \
        -DPARE_TESTS=ON && cmake --build "$build/$1" -j "$jobs"; } >"$build/$1/lint.log" 2>&1 && return
    grep -E -A6 'error|warning' "$build/$1/lint.log" || tail "$build/$1/lint.log"
    return 1
}

run layers tools/check_layers.sh
run registry tools/check_registry.sh
run limits tools/check_limits.sh
run style tools/check_style.sh
run format format
run cppcheck cppcheck_all
run gcc compile lint-gcc gcc
run clang compile lint-clang clang
BUILD=$build/lint-clang run headers tools/check_headers.sh

if [ -n "$failed" ]; then
    echo "lint: failed:$failed" >&2
    exit 1
fi
echo "lint: no findings"
