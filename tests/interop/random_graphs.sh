#!/bin/sh
# random_graphs.sh - compare random networks in Pare and in ONNX Runtime.
#
# usage: random_graphs.sh PROGRAM NODE_MODULES [COUNT [SEED]]      (200 networks from seed 1 on)
# A network that ONNX Runtime crashes on or refuses is not counted; one in five may be such
# (it wants pads smaller than the window, for one).
set -eu
here=$(cd "$(dirname "$0")" && pwd)
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
count=${3:-200}
"$1" "$tmp" "$count" "${4:-1}"
export NODE_PATH=$2
crashed=0
until node "$here/random_graphs.mjs" "$tmp" 2>"$tmp/err"; do
    crashed=$((crashed + 1))
    [ $((crashed * 10)) -le "$count" ] || { cat "$tmp/err"; exit 1; }
done
of() { grep -c "^$1" "$tmp/log" || :; }
grep '^other\|^refused' "$tmp/log" | sort | uniq -c | head -20 || :
worst=$(sed -n 's/^same //p' "$tmp/log" | sort -g | tail -1)
echo "$(of done) random networks, $(of same) outputs the same, $(of other) not (worst ${worst:-0} of what is" \
    "allowed); ONNX Runtime refuses $(of refused), crashes on $crashed"
[ "$(of other)" = 0 ] && [ $((5 * $(of refused))) -le "$count" ] && [ "$(of same)" -gt 0 ]
