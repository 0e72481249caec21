# rounding.sh - weights rounded by the statistics of 2, 3 and 4 processes are those of one.
pare new lenet --input 1,8,8 -o m.onnx
pare train m.onnx --data digits --limit 400 --epochs 2 --optimizer adam --threads 1 --valid none -q -o t.onnx
for n in 1 2 3 4; do
    mpi $n pare quantize t.onnx --quantizer gptq --config '[{"op_types": ["default"], "quant_types": ["weight"],
        "quant_bits": 3, "quant_dtype": "int", "quant_scheme": "per_channel_symmetric"}]' \
        --data digits --batch 24 --rounding-items 96 --threads 1 --no-bias-correction --valid none -o q$n.onnx -q \
        >log 2>&1 || { cat log; exit 1; }
done
cmp q1.onnx q2.onnx
cmp q1.onnx q3.onnx
cmp q1.onnx q4.onnx
mpi 1 same_grams t.onnx
mpi 2 same_grams t.onnx
mpi 4 same_grams t.onnx
