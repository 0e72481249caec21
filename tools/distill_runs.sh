#!/bin/sh
# distill_runs.sh - accuracy of students with and without a teacher: distill_runs.sh [--short] [SEED...]
#
# The teacher is a LeNet trained on all of Fashion-MNIST; students are LeNets with a fifth of its
# channels, trained on 2000 images: alone, with the teacher's soft labels, and with the logits of the
# teacher (the output of layer fc2) as target.  All three have the same data, steps and initial weights.
# Prints a table of test accuracies and their means.  --short: a quick teacher, from 10000 images.
# PARE is the command (default: build/pare); WORK is a folder for models, which is kept; a teacher.onnx
# in it is reused.
set -eu
pare=$(realpath "${PARE:-$(dirname "$0")/../build/pare}")
teacher_options="--epochs 10"
if [ "${1:-}" = --short ]; then
    teacher_options="--limit 10000 --epochs 6"
    shift
fi
[ $# -gt 0 ] || set -- 1 2 3
if [ -z "${WORK:-}" ]; then
    WORK=$(mktemp -d)
    trap 'rm -rf "$WORK"' EXIT
fi
mkdir -p "$WORK"
cd "$WORK"

# train MODEL OUTPUT OPTION...
train() {
    model=$1 output=$2
    shift 2
    "$pare" train "$model" --data fashion-mnist --threads 1 --quiet --valid none --optimizer adam \
        --schedule onecycle "$@" -o "$output"
}

accuracy() {
    "$pare" eval "$1" --data fashion-mnist --threads 1 | awk '$1 == "top-1" { printf "%.2f", $2 }'
}

if [ ! -e teacher.onnx ]; then
    "$pare" new lenet --input 1,28,28 --seed 100 -o fresh.onnx >&2
    train fresh.onnx teacher.onnx --lr 2e-3 --flip --seed 100 $teacher_options
fi
echo "teacher: $(accuracy teacher.onnx) %"
echo
echo "| seed | alone | soft labels | layer fc2 |"
echo "|---|---|---|---|"
for seed; do
    student_options="--limit 2000 --epochs 20 --batch 32 --lr 3e-3 --seed $seed"
    "$pare" new lenet --input 1,28,28 --width 0.2 --seed "$seed" -o student.onnx >&2
    train student.onnx alone.onnx $student_options
    train student.onnx soft.onnx $student_options --teacher teacher.onnx --temperature 4 --alpha 0.5
    train student.onnx layer.onnx $student_options --teacher teacher.onnx --beta 0 --alpha 0.5 \
        --distill-layers fc2 --distill-lambda 0.2
    echo "| $seed | $(accuracy alone.onnx) | $(accuracy soft.onnx) | $(accuracy layer.onnx) |"
done | tee rows
awk -F'|' '{ a += $3; s += $4; l += $5 }
    END { printf "| mean | %.2f | %.2f | %.2f |\n", a / NR, s / NR, l / NR }' rows
