#!/bin/sh
# analyze_one.sh - run gcc's analyzer and clang-tidy on one file and print their findings.
#
# usage: tools/analyze_one.sh BUILD_FOLDER FILE                        (see analyze_code.sh)
# A file without findings is skipped until it, a project header that it includes, or the list of
# checks changes.
#
# Both read analyze.h first, except in the file that defines the functions it wraps.
# The disabled checks of gcc's analyzer do not understand arenas (memory that is freed as a whole looks
# leaked) or pointers that another function has set, or mistake the lanes of a shifted vector for bits;
# clang-tidy checks for NULL.  -O0 because the analyzer ignores code that optimization removes.
set -eu
build=$1
file=$2
out=$build/analysis/$file
flags="-std=c11 -O0 -fopenmp -D_GNU_SOURCE -DPARE_VERSION=\"0\" -Iinclude -I$build/gen
    $(pkg-config --cflags libprotobuf-c jansson libpng 2>/dev/null || :)
    $(pkg-config --cflags ompi-c 2>/dev/null || :)"
checks="-fanalyzer -Wno-analyzer-malloc-leak -Wno-analyzer-use-of-uninitialized-value
    -Wno-analyzer-file-leak -Wno-analyzer-fd-leak -Wno-analyzer-null-dereference
    -Wno-analyzer-possible-null-dereference -Wno-analyzer-null-argument
    -Wno-analyzer-possible-null-argument -Wno-analyzer-shift-count-overflow"

# unless_clean NAME COMMAND...: run the command, unless it succeeded without findings on the same
# sources before
unless_clean() {
    stamp=$out.$1
    name=$1
    shift
    now=$(echo "$sum" "$@" | sha256sum)
    [ ! -f "$stamp" ] || [ "$(cat "$stamp")" != "$now" ] || return 0
    rm -f "$stamp"
    if "$@" >"$out.log" 2>"$out.err" && ! grep -qE '(warning|error): ' "$out.log"; then
        echo "$now" >"$stamp"
        return
    fi
    cat "$out.log" "$out.err"
    return 1
}

gcc_analyzer() {
    gcc $flags $more $checks -c "$file" -o /dev/null 2>&1
}

tidy() {
    clang-tidy -p "$build" --quiet --checks="$off" ${more:+"--extra-arg=$more"} "$file"
}

case $file in
src/base/err.c) more="" ;;
*) more="-include$PWD/tools/analyze.h" ;;
esac
# Kernels, operators, plans and commands rely on checks in other files, made when a node was matched or
# options were read; there clang would report every pointer that can be NULL elsewhere.
case $file in
src/backend/* | src/op/* | src/plan/* | src/train/* | src/compress/* | src/prune/* | src/quant/* | src/analyze/* | src/cli/*)
    off="-clang-analyzer-core.NullDereference,-clang-analyzer-core.NonNullParamChecker"
    off="$off,-clang-analyzer-core.CallAndMessage,-clang-analyzer-core.UndefinedBinaryOperatorResult"
    off="$off,-clang-analyzer-core.uninitialized.*,-clang-analyzer-unix.cstring.NullArg"
    ;;
*) off="" ;;
esac
mkdir -p "$(dirname "$out")"
sources=$(gcc $flags $more -MM "$file" | sed 's/^[^:]*://; s/\\$//')
sum=$(sha256sum $sources)
failed=0
unless_clean gcc gcc_analyzer "$flags" "$checks" || failed=1
unless_clean tidy tidy "$off" "$(grep -v '^#' .clang-tidy)" || failed=1
exit $failed
