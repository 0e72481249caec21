# Quantization with data: accuracy of the float, the fake-quantized and the written model.
pare new mlp --input 1,8,8 --seed 1 -o m.onnx >/dev/null
pare train m.onnx --data digits --epochs 6 --optimizer adam --threads 1 --seed 1 -q -o t.onnx
config='[{"quant_types": ["weight", "input", "output"], "quant_bits": 8, "quant_dtype": {"weight":
    "int"}, "op_types": ["Linear"]}]'
for format in qdq qoperator; do
    pare quantize t.onnx --quantizer qat --config "$config" --data digits --epochs 2 --lr 0.001 \
        --threads 1 --seed 1 --format $format --calibration $format.json -q --json -o $format.onnx \
        >$format.out || exit 1
    python3 - $format <<'PY' 2>/dev/null || echo "python3 is not installed"
import json, sys
r = json.load(open(sys.argv[1] + ".out"))
print("float at least 95 %:", r["before"]["accuracy"] >= 0.95)
print("int8 loses at most a point:", r["integers"]["accuracy"] >= r["before"]["accuracy"] - 0.01)
print("the file is as accurate as the fake-quantized model:", abs(r["integers"]["accuracy"] - r["rounded"]["accuracy"]) < 0.005)
print("a third of the size or less:", r["bytes_after"] < r["bytes_before"] / 3)
point = r["layers"][0]["input"]
print("input of", r["layers"][0]["name"] + ":", point["bits"], "bits, signal-to-noise ratio of 30 to 60 dB:",
      30 < point["signal_to_noise_db"] < 60)
PY
done
grep -c tracked_max_input qdq.json
pare quantize t.onnx --quantizer qat --config "$config" --load-calibration qdq.json --data digits \
    --threads 1 -q --json -o loaded.onnx | grep -c '"accuracy": 0.9'
