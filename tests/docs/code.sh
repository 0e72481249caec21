#!/bin/sh
# code.sh - the C code in a document is that of the files it names: code.sh DOCUMENT
#
# The line before a block names a file of the source tree in `quotes`; the block must be in it, line
# for line.  At least one block must be there.
set -eu
root=$(realpath ../..)
doc=$(realpath "$1")

cd "$root"
awk '
function complain(what) {
    printf "%s:%d: %s\n", FILENAME, start, what
    bad = 1
}
function slurp(path,    text, line) {
    text = "\n"
    while ((getline line <path) > 0)
        text = text line "\n"
    close(path)
    return text
}
/^```c$/ {
    start = FNR
    block = "\n"
    inside = 1
    next
}
/^```$/ && inside {
    inside = 0
    blocks++
    if (file == "")
        complain("no file is named before this block")
    else if (!index(slurp(file), block))
        complain("this is not in " file)
    next
}
inside { block = block $0 "\n"; next }
/^$/ { next }
{
    file = ""
    if (match($0, /`[A-Za-z0-9_\/.-]+\.[ch]`/))
        file = substr($0, RSTART + 1, RLENGTH - 2)
}
END {
    if (!blocks) {
        print FILENAME ": no code in it"
        bad = 1
    }
    exit bad
}' "$doc"
