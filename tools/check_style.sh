#!/bin/sh
# check_style.sh - style rules beyond clang-format: first lines, sizes, banned functions and words.
#
#     check_style.sh [--words]    run every check, or print how often each folder uses a banned word
set -eu
cd "$(dirname "$0")/.."
[ "${1:-}" != --words ] || exec tools/check_words.sh --count
bad=0

# The files that may call the allocator.
allocators='^src/base/arena\.c$'

git ls-files -co --exclude-standard '*.c' '*.h' | xargs awk -v allocators="$allocators" '
function complain(what) {
    printf "%s:%d: %s\n", FILENAME, FNR, what
    bad = 1
}

function ban(pattern, what) {
    if (code ~ ("(^|[^A-Za-z0-9_.>])(" pattern ")[ ]*\\("))
        complain(what)
}

# The line without comments and strings.
function strip(line,    out) {
    gsub(/\\./, "", line)
    gsub(/"[^"]*"/, "\"\"", line)
    out = ""
    while (line != "") {
        if (inside) {
            if (!match(line, /\*\//))
                return out
            line = substr(line, RSTART + 2)
            inside = 0
        } else if (match(line, /\/\*/)) {
            out = out substr(line, 1, RSTART - 1)
            line = substr(line, RSTART + 2)
            inside = 1
        } else {
            return out line
        }
    }
    return out
}

FNR == 1 {
    name = FILENAME
    sub(/.*\//, "", name)
    if (index($0, "/* " name " - ") != 1)
        complain("the first line is not \"/* " name " - what it is\"")
    if (FILENAME ~ /^include\//) # a public header may be named as the internal one of its folder
        name = "pare/" name
    if (name in seen)
        complain("there is another " name ": " seen[name])
    seen[name] = FILENAME
    inside = start = 0
    limit = FILENAME ~ /^include\// ? 300 : FILENAME ~ /^tests\// ? 650 : 600
    library = FILENAME ~ /^src\// && FILENAME !~ /^src\/cli\//
}
FNR == limit + 1 { complain("more than " limit " lines") }
/\t/ { complain("a tab") }
/[ ]$/ { complain("blanks at the end") }
length($0) > 100 { complain("more than 100 columns") }
{ code = strip($0) }
FILENAME ~ /^tests\/unit\// && /^static void [a-z0-9_]+\(void \*\*state\)/ && !/^static void test_/ {
    complain("a test function without the prefix test_")
}
/^{/ { start = FNR }
/^}/ {
    if (start && FNR - start - 1 > 60)
        complain("a function of " FNR - start - 1 " lines, more than 60")
    start = 0
}
{
    ban("v?sprintf|strcpy|strcat|strtok|atoi|atol|atof|gets", "a banned function")
    if (library)
        ban("printf|puts|putchar|exit|abort", "the library neither prints nor exits")
    if (FILENAME ~ /^src\// && FILENAME !~ allocators)
        ban("malloc|calloc|realloc|free|strdup|strndup|asprintf", "memory comes from arenas")
    if (code ~ /\/\//)
        complain("a // comment")
}
END { exit bad }
' || bad=1

# Words with a plainer technical term.
tools/check_words.sh || bad=1

# Words that are not committed, in any text file.
if git ls-files -co --exclude-standard | grep -v '^tools/check_style\.sh$' | xargs grep -nIE \
    '\b([T]ODO|[F]IXME|[X]XX)\b|(^|[^A-Za-z0-9_.}-])/(home|work|root|farm)/'; then
    echo "check_style.sh: unfinished work or a path of one machine (above)" >&2
    bad=1
fi
exit $bad
