# quantize_toward.sh - rounding toward the float model or toward each layer: several layers per pass, choice on held-out items.
pare new resnet20 --input 1,8,8 --width 0.25 --seed 1 -o new.onnx
pare train new.onnx --data digits --epochs 2 --optimizer adam --seed 1 --threads 1 -o cnn.onnx --quiet >log.txt
for toward in layer float; do
    pare quantize cnn.onnx --preset w4a4 --data digits --limit 300 --rounding-toward $toward --rounding-passes 1 --threads 1 \
        -o $toward.onnx >$toward.txt 2>log.txt
    grep -c 'kept' $toward.txt || true
done
# In one pass, every layer would correct the same errors of the layers before them, several times.
cat layer.txt float.txt | sed -n 's/^outputs on calibration data: SNR \([0-9.]*\) dB.*/\1/p' | tr '\n' ' ' |
    awk '{ print ($2 >= $1 - 0.3 ? "float is as good" : "float is worse: " $0) }'
pare quantize cnn.onnx --preset w4a4 --data digits --limit 300 --threads 1 -o w4a4.onnx 2>log.txt | tr '\n' ' ' |
    grep -o 'rounding on [0-9]* items not fitted to\|nearest [0-9]*\.[0-9] dB (KL\|gptq toward [a-z]* [0-9]*\.[0-9] dB (KL\|kept: gptq' | sed 's/ [0-9.]* dB.*//'
pare quantize cnn.onnx --preset w4a4 --data digits --limit 300 --rounding adaround --rounding-steps 3 --threads 1 \
    -o adaround.onnx --json 2>log.txt | grep -o '"rounding_choice": "rounding on [0-9]* items\|gptq toward [a-z]*\|adaround toward [a-z]*' | sort -u
