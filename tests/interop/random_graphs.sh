#!/bin/sh
# random_graphs.sh - compare random networks in Pare and in ONNX Runtime.
#
# usage: random_graphs.sh PROGRAM NODE_MODULES [COUNT [SEED]]      (200 networks from seed 1 on)
# Networks that crash ONNX Runtime or that it rejects (for example pads larger than the window) are not
# counted; at most one in five may be rejected.
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
count_of() { grep -c "^$1" "$tmp/log" || :; }
grep '^different\|^rejected' "$tmp/log" | sort | uniq -c | head -20 || :
worst=$(sed -n 's/^same //p' "$tmp/log" | sort -g | tail -1)
echo "$(count_of done) random networks: $(count_of same) outputs are the same (at most ${worst:-0} of the tolerance)," \
    "$(count_of different) differ; ONNX Runtime rejects $(count_of rejected) networks, crashes on $crashed"
[ "$(count_of different)" = 0 ] && [ $((5 * $(count_of rejected))) -le "$count" ] && [ "$(count_of same)" -gt 0 ]
