#!/bin/sh
# rounding_runs.sh - accuracy of weights in few bits: rounding_runs.sh MODEL SET [METHOD...]
#
# MODEL is a trained classifier, SET its data (as for --data); METHODs are names of `pare list roundings`
# (default: nearest gptq).  For each of W4A8, W4A4, W3A8 and W2A8 the model is quantized without training, with
# the settings of the presets (W2A8: those of w3 with 2 bits), and the test set is evaluated once, with
# the integers of the file.  Seconds are those of processors, of all threads together.  PARE is the command
# (default: build/pare); THREADS the number of threads (default: one per core); WORK a folder for models, which
# is kept: models in it are reused.  BITS="w4a8 w2a8": only these.  HOLDOUT=0.1: evaluate on this part of the
# training items instead, which the rounding does not see, to choose settings.  LIMIT=1000: fewer items, to test
# the script.
set -eu
[ $# -ge 2 ] || { sed -n '2,12s/^# //p' "$0" >&2; exit 2; }
pare=$(realpath "${PARE:-$(dirname "$0")/../build/pare}")
model=$(realpath "$1") set=$2
[ ! -e "$set" ] || set=$(realpath "$set")
shift 2
[ $# -gt 0 ] || set -- nearest gptq
if [ -z "${WORK:-}" ]; then
    WORK=$(mktemp -d)
    trap 'rm -rf "$WORK"' EXIT
fi
mkdir -p "$WORK"
cd "$WORK"
data="--data $set --threads ${THREADS:-0} ${LIMIT:+--limit $LIMIT} ${HOLDOUT:+--holdout $HOLDOUT}"
w2='[{"op_types": ["Conv2d", "Linear"], "quant_types": ["weight", "input"], "quant_bits": {"weight": 2, "input": 8},
    "quant_dtype": {"weight": "int", "input": "uint"},
    "quant_scheme": {"weight": "per_channel_symmetric", "input": "per_tensor_affine"}}]'

# The accuracy in a line of the output that begins with $1.
accuracy() {
    awk -v line="$1" 'index($0, line) == 1 { for (i = 1; i < NF; i++) if ($i == "accuracy") print $(i + 1) + 0 }' "$2"
}

# Runs a command, then prints the seconds of processors that it took.
timed() {
    (
        "$@"
        times >times.txt # in this shell, not in that of a pipe
        awk -F '[ms ]+' 'NR == 2 { printf "seconds %.1f\n", 60 * $1 + $2 + 60 * $3 + $4 }' times.txt
    )
}

printf '%-6s %-10s %8s %8s %8s %9s\n' bits rounding float result change seconds
for bits in ${BITS:-w4a8 w4a4 w3a8 w2a8}; do
    for how; do
        name=$bits-$how
        if [ ! -e "$name.txt" ]; then
            case $bits in
            w2a8) timed "$pare" quantize "$model" $data --quantizer ptq --fold --config "$w2" --rounding "$how" \
                -o "$name.onnx" >"$name.part" ;;
            w3a8) timed "$pare" quantize "$model" $data --preset w3 --rounding "$how" -o "$name.onnx" >"$name.part" ;;
            *) timed "$pare" quantize "$model" $data --preset $bits --rounding "$how" -o "$name.onnx" >"$name.part" ;;
            esac
            mv "$name.part" "$name.txt"
        fi
        float=$(accuracy float: "$name.txt") result=$(accuracy 'quantized file:' "$name.txt")
        printf '%-6s %-10s %8.2f %8.2f %+8.2f %9.1f\n' $bits "$how" "$float" "$result" \
            "$(awk "BEGIN { print $result - $float }")" "$(sed -n 's/^seconds //p' "$name.txt")"
    done
done
