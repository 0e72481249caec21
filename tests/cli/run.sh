#!/bin/sh
# run.sh - one golden test of the command: run.sh PARE CASE
#
# CASE is the path of a script x.sh.  It runs in an empty folder where `pare` is the command and
# `models` the folder of test models.  Its output must be x.out and x.err and its exit code the
# number in x.code; a missing file stands for no output, or 0.
# BLESS=1 writes these files instead.
set -eu
pare=$(realpath "$1")
case=${2%.sh}
case=$(realpath -m "$case")
models=$(realpath "$(dirname "$case")/../models")

tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
mkdir "$tmp/bin" "$tmp/in"
ln -s "$pare" "$tmp/bin/pare"
ln -s "$models" "$tmp/in/models"

code=0
(cd "$tmp/in" && PATH="$tmp/bin:$PATH" LC_ALL=C NO_COLOR=1 PARE_CACHE= sh -u "$case.sh" >"$tmp/out" 2>"$tmp/err" \
    </dev/null) || code=$?
if [ "$code" != 0 ]; then echo "$code" >"$tmp/code"; else : >"$tmp/code"; fi

failed=0
for part in out err code; do
    if [ -n "${BLESS:-}" ]; then
        if [ -s "$tmp/$part" ]; then cp "$tmp/$part" "$case.$part"; else rm -f "$case.$part"; fi
    elif [ -e "$case.$part" ]; then
        diff -u "$case.$part" "$tmp/$part" || failed=1
    elif [ -s "$tmp/$part" ]; then
        diff -u /dev/null "$tmp/$part" || failed=1
    fi
done
exit $failed
