#!/bin/sh
# check_words.sh - reject words that CONTRIBUTING.md replaces by technical terms.
#
#     check_words.sh [--count]    list every use and fail, or print the number of uses by folder
#
# It reads the comments and strings of C files, and every line of documents, scripts and CMake files.
# A line of word_exceptions.txt is a regular expression; uses whose "path:line: text" matches it are
# allowed.
set -eu
cd "$(dirname "$0")/.."

words='whoever|nobody|somebody|everybody|anybody|so many|by lot|the like|way back|behind|beside|apart'
words="$words|is no|are no|judge[ds]?|gone on|goes on|go on|come to|came to|who"
words="$words|plain kernels?|rivals?|by chance|side by side|made[- ]up|spoil(s|ed|t|ing)?"
words="$words|pictures?|learners?|hollow|is there (already|twice)|(is|are|was|were) not there|that which|one's own"
words="$words|for ever|how far off|what is (allowed|asked)|a word about|says? no|died of|fails? by itself"
# British spellings.
british='[a-z_]*(behaviour|colour|favour|honour|labour|flavour|neighbour)[a-z_]*'
british="$british|[a-z_]*(normal|initial|optim|quant|serial|recogn|organ|general|minim|maxim|summar|special|real|util"
british="$british|parallel|vector|factor|regular|discret|standard|random|linear|binar|synchron|visual|custom)is(e[drs]?|ing|ation)"
british="$british|analyse[d]?|analysing|[a-z_]*cent(re|red|res)|metres?|licences?|catalogue[sd]?|artefacts?|grey|towards|afterwards"
british="$british|cancelled|cancelling|labelled|labelling|modelled|modelling|travelled|whilst|amongst|learnt|judgements?"
words="$words|$british"
# Plain English that contains a word of the list.
allowed='there (is|are) no|(is|are) no (longer|more|less)|is no-op'

hits=$(git grep -liwIE --untracked "$words" -- '*.c' '*.h' '*.def' '*.md' '*.sh' '*.py' '*.mjs' '*.inc' '*.txt' '*.cmake' \
    Makefile .ci '*/cases.txt' ':!tests/onnx' ':!src/report/*.txt' ':!LICENSE' \
    ':!tools/check_words.sh' ':!tools/word_exceptions.txt' |
    xargs awk -v words="$words" -v allowed="$allowed" '
# The comments and strings of a line of C, a blank in place of the code between them.
function prose(line,    out) {
    out = ""
    while (line != "") {
        if (inside) {
            if (!match(line, /\*\//))
                return out line
            out = out substr(line, 1, RSTART - 1) " "
            line = substr(line, RSTART + 2)
            inside = 0
        } else if (!match(line, /"([^"\\]|\\.)*"|\/\*|\047([^\047\\]|\\.)\047/)) {
            return out
        } else if (substr(line, RSTART, 2) == "/*") {
            line = substr(line, RSTART + 2)
            inside = 1
        } else {
            out = out substr(line, RSTART, RLENGTH) " "
            line = substr(line, RSTART + RLENGTH)
        }
    }
    return out
}
FNR == 1 { inside = 0; code = FILENAME ~ /\.([ch]|def)$/ }
{
    text = tolower(code ? prose($0) : $0)
    gsub(allowed, "", text)
    if (text ~ ("(^|[^a-z0-9_])(" words ")([^a-z0-9_]|$)"))
        printf "%s:%d: %s\n", FILENAME, FNR, $0
}' | LC_ALL=C grep -avEf tools/word_exceptions.txt || true)

if [ "${1:-}" = --count ]; then
    printf '%s\n' "$hits" | cut -d: -f1 |
        awk -F/ 'NF { n[NF > 2 ? $1 "/" $2 : $1]++ } END { for (k in n) print n[k], k }' | sort -rn
elif [ -n "$hits" ]; then
    printf '%s\n' "$hits"
    echo "check_words.sh: words with a plainer term (above); see \"Words\" in CONTRIBUTING.md" >&2
    exit 1
fi
