#!/bin/sh
# places.sh - outputs that cannot be written, and outputs that are inputs: a sentence, and all stays.
#
# usage: places.sh PARE SHIM [all|some]
. "$(dirname "$0")/lib.sh"
refused=0

"$pare" new lenet --input 1,8,8 --width 0.25 -o m.onnx || exit 1
"$pare" prune m.onnx --pruner l1 --sparsity 0.5 -o p.onnx --masks k.pth >out || exit 1
chmod 755 "$tmp"
chmod 644 ./*.onnx ./*.pth
ln -s m.onnx link.onnx
ln m.onnx hard.onnx
mkdir shut
chmod 555 shut
echo text >file
sha256sum m.onnx p.onnx k.pth >sums

refuse() {
    what=$1
    shift
    "$@" >out 2>err
    code=$?
    [ $code = 1 ] || wrong "$what: exit code $code"
    one_sentence || wrong "$what: $(cat err)"
    refused=$((refused + 1))
}

each() {
    to=$1
    shift
    refuse "train to $to" "$@" "$pare" train m.onnx --data digits --limit 16 --epochs 1 --quiet -o "$to"
    refuse "prune to $to" "$@" "$pare" prune m.onnx --pruner l1 --sparsity 0.5 -o "$to"
    refuse "quantize to $to" "$@" "$pare" quantize m.onnx --preset int8 --data digits --limit 16 -o "$to"
    refuse "apply to $to" "$@" "$pare" apply m.onnx --masks k.pth -o "$to"
    refuse "speedup to $to" "$@" "$pare" speedup m.onnx --no-bench -o "$to"
    refuse "export to $to" "$@" "$pare" export m.onnx -o "$to"
    echo '{"model": "m.onnx", "data": "digits", "seconds": 0,
           "steps": [{"step": "prune", "pruner": "l1", "sparsity": 0.5}]}' >r.json
    refuse "compress to $to" "$@" "$pare" compress r.json -q -o "$to"
}

for to in m.onnx ./m.onnx "$tmp/m.onnx" link.onnx hard.onnx; do each $to; done
for to in file/x.onnx nowhere/x.onnx /proc/x.onnx; do each $to; done
if [ "$(id -u)" = 0 ]; then
    command -v setpriv >/dev/null && each shut/x.onnx setpriv --reuid 65534 --regid 65534 --clear-groups
else
    each shut/x.onnx
fi
sha256sum -c --quiet sums || wrong "an input was changed"
[ -z "$(find . -name '*.tmp*')" ] || wrong "temporary files are left"
echo "$refused outputs refused, no input changed"
exit $((bad > 0))
