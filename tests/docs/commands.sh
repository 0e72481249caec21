#!/bin/sh
# commands.sh - run the commands of a document: commands.sh PARE DOCUMENT [PYTHON]
#
# The blocks marked sh are one script, run in an empty folder where `pare` is the command.  Each
# command must succeed.  One thread, as tests run side by side.
# With PYTHON, the blocks marked python are run afterwards.
set -eu
pare=$(realpath "$1")
doc=$(realpath "$2")
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT

mkdir "$tmp/bin" "$tmp/in"
ln -s "$pare" "$tmp/bin/pare"
blocks() { sed -n "/^\`\`\`$1\$/,/^\`\`\`\$/p" "$doc" | sed '/^```/d'; }
blocks sh >"$tmp/script"
[ -s "$tmp/script" ] || { echo "$doc: no commands in it"; exit 1; }
cd "$tmp/in"
PATH="$tmp/bin:$PATH" LC_ALL=C OMP_NUM_THREADS=1 sh -eux "$tmp/script" </dev/null
[ -z "${3:-}" ] || blocks python | "$3" -
