#!/bin/sh
# analyze_one.sh - gcc's analyzer and clang-tidy over one file; prints what they find.
#
# usage: tools/analyze_one.sh BUILD_FOLDER FILE                        (see analyze_code.sh)
# A file in which they found nothing is left alone until it, a header of ours that it includes, or
# what is looked for has changed.
#
# Of gcc's analyzer those checks are off that do not understand arenas (memory that is freed as a
# whole looks lost), that do not know that pare_fail() never returns 0 (so a NULL that was reported
# looks used), that follow a pointer which another function has set, or that take the lanes of a
# vector for the bits of one when it is shifted.
set -eu
build=$1
file=$2
out=$build/analysis/$file
flags="-std=c11 -O1 -fopenmp -D_GNU_SOURCE -Iinclude -Isrc -I$build/gen
    $(pkg-config --cflags libprotobuf-c jansson libzip libpng 2>/dev/null || :)
    $(pkg-config --cflags ompi-c 2>/dev/null || :)"
checks="-fanalyzer -Wno-analyzer-malloc-leak -Wno-analyzer-use-of-uninitialized-value
    -Wno-analyzer-file-leak -Wno-analyzer-fd-leak -Wno-analyzer-null-dereference
    -Wno-analyzer-possible-null-dereference -Wno-analyzer-null-argument
    -Wno-analyzer-possible-null-argument -Wno-analyzer-shift-count-overflow"

mkdir -p "$(dirname "$out")"
read_files=$(gcc $flags -DPARE_VERSION='"0"' -MM "$file" | sed 's/^[^:]*://; s/\\$//')
now=$(sha256sum $read_files .clang-tidy tools/analyze_one.sh | sha256sum)
if [ -f "$out.clean" ] && [ "$(cat "$out.clean")" = "$now" ]; then
    exit 0
fi
rm -f "$out.clean"
failed=0
gcc $flags -DPARE_VERSION='"0"' $checks -c "$file" -o /dev/null >"$out.log" 2>&1 || failed=1
clang-tidy -p "$build" --quiet "$file" >>"$out.log" 2>"$out.err" || {
    cat "$out.err" >>"$out.log"
    failed=1
}
if [ $failed = 1 ] || grep -qE '(warning|error): ' "$out.log"; then
    cat "$out.log"
    exit 1
fi
echo "$now" >"$out.clean"
