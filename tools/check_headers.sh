#!/bin/sh
# check_headers.sh - check that every header compiles alone, and public headers also as C++.
set -eu
cd "$(dirname "$0")/.."
gen=${BUILD:-build}/gen

check() {
    printf '#include "%s"\n#include "%s"\nint pare_nothing;\n' "$2" "$2" |
        $1 -Iinclude -I. -I"$gen" -Wall -Wextra -Wpedantic -Werror -fsyntax-only -x "$3" -
}

for header in include/pare/*.h; do
    check "${CC:-cc} -std=c11" "$header" c
    check "${CXX:-c++} -std=c++11" "$header" c++
done
for header in $(find src -name '*.h' | sort); do
    check "${CC:-cc} -std=c11 -D_GNU_SOURCE" "$header" c
done
