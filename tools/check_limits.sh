#!/bin/sh
# check_limits.sh - check that src/base/limits.h and docs/security.md have the same limits, and that
# tests/hostile/cases.txt has a file beyond each of them.
set -eu
cd "$(dirname "$0")/.."

awk '
# A number as C writes it here: 100, 0x7f, (1 << 20), ((size_t)1 << 34).
function value(s,    part, v, i, digit) {
    gsub(/\([a-z0-9_]*_t\)/, "", s)
    gsub(/[() ]/, "", s)
    if (split(s, part, "<<") == 2)
        return part[1] * 2 ^ part[2]
    if (s !~ /^0x/)
        return s + 0
    sub(/u$/, "", s)
    for (i = 3; i <= length(s); i++) {
        digit = index("0123456789abcdef", substr(s, i, 1)) - 1
        v = 16 * v + digit
    }
    return v
}

function complain(what) {
    print "check_limits.sh: " what
    bad = 1
}

FILENAME ~ /limits\.h$|base\.h$/ && /supported versions/ { over = 1 }
FILENAME ~ /limits\.h$/ && !over && /^#define PARE_[A-Z_]+ / {
    name = $2
    text = $0
    sub(/^#define [A-Z_]+ /, "", text)
    sub(/ *\/\*.*/, "", text)
    limit[name] = value(text)
}
FILENAME ~ /base\.h$/ && /^#define PARE_MAX_RANK / { limit[$2] = value($3) }
FILENAME ~ /\.md$/ && /^\|.*`PARE_[A-Z_]+` \|$/ {
    n = split($0, cell, "|")
    name = cell[n - 1]
    gsub(/[` ]/, "", name)
    documented = cell[n - 2]
    gsub(/[, ]/, "", documented)
    seen[name] = 1
    if (!(name in limit))
        complain(name " is in docs/security.md, but not in src/base/limits.h")
    else if (documented + 0 != limit[name])
        complain(name " is " limit[name] ", but " documented " in docs/security.md")
}
FILENAME ~ /cases\.txt$/ && /^limit / { tried[$2] = 1 }
END {
    for (name in limit)
        if (!(name in seen))
            complain(name " is not in docs/security.md")
        else if (!(name in tried))
            complain("no case in tests/hostile/cases.txt has \"limit " name "\"")
    for (name in tried)
        if (!(name in limit))
            complain(name " is in tests/hostile/cases.txt, but not in src/base/limits.h")
    exit bad
}
' include/pare/base.h src/base/limits.h docs/security.md tests/hostile/cases.txt
