#!/bin/sh
# output_paths.sh - outputs that cannot be written, and outputs that are inputs or written twice: an
# error, and nothing changes.
#
# usage: output_paths.sh PARE SHIM [all|some]
. "$(dirname "$0")/fault_functions.sh"
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

# refuse WHAT COMMAND...: the command must fail with one message
refuse() {
    what=$1
    shift
    "$@" >out 2>err
    code=$?
    [ $code = 1 ] || wrong "$what: exit code $code"
    one_message || wrong "$what: $(cat err)"
    refused=$((refused + 1))
}

# each OUTPUT [PREFIX...]: every command must refuse to write this output
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

# Other outputs over inputs: the model, its weights, masks, data, records; and two outputs in one file.
# external MODEL FILE: a model whose external data has the name of another kind of file
external() {
    "$pare" export m.onnx --external -o "$1" >out && mv "$1.data" "$2" && sed -i "s/$1\.data/$2/" "$1"
}
external e.onnx weights.npz
external f.onnx weights.pth
external g.onnx weights.csv
external h.onnx weight.json
external iii.onnx w.safetensors
external jj.onnx weights.onnx
external kk.onnx kk-small.onnx
external ll.onnx ll-quant.onnx
"$pare" quantize m.onnx --preset int8 --data digits --limit 16 --calibration c.json -o q.onnx >out || exit 1
"$pare" run m.onnx -o x.npz >out 2>err
"$pare" compress r.json -q -o c.onnx >out || exit 1
digits="--data digits --limit 16"
sha256sum ./*.onnx ./*.npz ./*.pth ./weight* w.safetensors c.json r.json c.run.json >>sums
refuse "run over weights" "$pare" run e.onnx -o weights.npz
refuse "run over the expected outputs" "$pare" run m.onnx --check x.npz -o x.npz
refuse "run over its input" "$pare" run m.onnx --input input=x.npz -o x.npz
refuse "run over its choices" "$pare" run m.onnx --tune --choices o.npz -o o.npz
refuse "choices over the model" "$pare" run m.onnx --tune --choices m.onnx
refuse "choices over weights" "$pare" run e.onnx --tune --choices weights.npz
refuse "choices over data" "$pare" run m.onnx --input input=x.npz --tune --choices x.npz
refuse "analyze over weights" "$pare" analyze sensitivity g.onnx $digits --csv weights.csv
refuse "analyze over the model" "$pare" analyze sensitivity m.onnx $digits --csv m.onnx
refuse "masks over weights" "$pare" prune f.onnx --pruner l1 --sparsity 0.5 -o o.onnx --masks weights.pth
refuse "masks over the model" "$pare" prune m.onnx --pruner l1 --sparsity 0.5 -o o.onnx --masks link.onnx
refuse "state over weights" "$pare" prune f.onnx --pruner l1 --sparsity 0.5 -o o.onnx --model-out weights.pth
refuse "state over masks" "$pare" prune m.onnx --pruner l1 --sparsity 0.5 -o o.onnx --masks o.pth --model-out o.pth
refuse "calibration over weights" "$pare" quantize h.onnx --preset int8 $digits -o o.onnx --calibration weight.json
refuse "calibration over calibration" "$pare" quantize m.onnx --preset int8 $digits -o o.onnx \
    --load-calibration c.json --calibration c.json
refuse "checkpoint over weights" "$pare" train iii.onnx $digits --epochs 1 --quiet -o o.onnx --checkpoint w.safetensors
refuse "model over its teacher" "$pare" train m.onnx $digits --epochs 1 --quiet -o p.onnx --teacher p.onnx
refuse "state over weights, export" "$pare" export f.onnx -o o.onnx --state weights.pth
refuse "model with folded batch normalization over weights" "$pare" export jj.onnx --fold -o weights.onnx
refuse "smaller model over weights, by its default name" "$pare" speedup kk.onnx --no-bench
refuse "smaller model over masks" "$pare" speedup m.onnx --no-bench --masks k.pth -o k.pth
refuse "masked model over masks" "$pare" apply m.onnx --masks k.pth -o k.pth
refuse "quantized model over weights" "$pare" quantize ll.onnx --preset int8 $digits -o ll-quant.onnx
refuse "report over its record" "$pare" report c.run.json -o ./c.run.json
refuse "record over the recipe" "$pare" compress r.json -q -o o.onnx --run r.json
refuse "record over the model" "$pare" compress r.json -q -o o.onnx --run m.onnx
sed 's/m\.onnx/h.onnx/' r.json >s.json
refuse "record over weights" "$pare" compress s.json -q -o o.onnx --run weight.json
[ ! -e o.onnx ] || wrong "a model was written"

sha256sum -c --quiet sums || wrong "an input was changed"
[ -z "$(find . -name '*.tmp*')" ] || wrong "temporary files are left"
echo "$refused outputs refused, no input changed"
exit $((bad > 0))
