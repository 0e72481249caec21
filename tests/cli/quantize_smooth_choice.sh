# quantize_smooth_choice.sh - preset int8 of a transformer: with or without scaled inputs, by the outputs on other items.
pare new vit-tiny --input 1,8,8 --seed 1 -o v.onnx >log.txt
int8="pare quantize v.onnx --preset int8 --data digits --limit 40 --observer minmax --threads 1"
$int8 -o auto.onnx 2>log.txt | tr '\n' ' ' |
    grep -o 'inputs of linear layers, on [0-9]* items\|as they are [0-9.]* dB (KL\|smoothed [0-9.]* dB (KL\|kept: [a-z]*' | sed 's/ [0-9.]* dB.*//'
$int8 --no-smooth -o plain.onnx 2>log.txt | grep -c 'kept' || true
for how in auto plain; do # the written file is the one that was kept
    pare eval $how.onnx --data digits --limit 40 --threads 1 --against v.onnx | sed -n 's/^signal to noise *\([0-9.]*\).*/\1/p'
done | tr '\n' ' ' | awk '{ print ($1 > $2 ? "closer" : $0) }'
