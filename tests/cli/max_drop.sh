# A large loss of accuracy: a warning, or with --max-drop an error and the model in another file.
pare new lenet --input 1,8,8 --seed 1 -o m.onnx >/dev/null
pare train m.onnx --data digits --epochs 5 --threads 1 -q -o t.onnx
numbers() { sed 's/[0-9][0-9]*\.[0-9]*/N/g'; }
try() { echo "--- $*"; pare "$@" --threads 1 -q -o out.onnx 2>&1 | numbers; ls | grep ^out; rm -rf out*; }
try prune t.onnx --pruner l1 --sparsity 0.8 --no-repair --data digits
try prune t.onnx --pruner l1 --sparsity 0.8 --no-repair --data digits --max-drop 3
try prune t.onnx --pruner l1 --sparsity 0.8 --no-repair --data digits --max-drop 3 --valid none
try prune t.onnx --pruner l1 --sparsity 0.8 --speedup --no-bench --no-verify --data digits --epochs 2 --max-drop 50 |
    grep -v "^parameters\|^MACs\|^file"
try train t.onnx --data digits --lr 0.3 --epochs 1
try train t.onnx --data digits --lr 0.3 --epochs 1 --max-drop 2
try train t.onnx --data digits --epochs 1 --max-drop 2
two='[{"quant_types": ["weight", "input"], "quant_bits": 2, "op_types": ["Conv2d", "Linear"]}]'
try quantize t.onnx --quantizer ptq --config "$two" --data digits 2>&1 | grep -v "most noise\|stay float"
try quantize t.onnx --quantizer ptq --config "$two" --data digits --max-drop 2 2>&1 | grep -v "most noise\|stay float"
try quantize t.onnx --preset int8 --data digits --max-drop 2
try quantize t.onnx --preset fp16 --data digits --max-drop 2
pare quantize t.onnx --preset int8 --data digits --threads 1 -q -o plain.onnx
pare quantize t.onnx --preset int8 --data digits --threads 1 --max-drop 2 -q -o limited.onnx
cmp plain.onnx limited.onnx && echo "the same bytes with the limit"
rm plain.onnx limited.onnx
cat >recipe.json <<EOF
{"model": "t.onnx", "data": "digits", "output": "out.onnx", "seconds": 0, "max_drop": 3, "threads": 1,
 "steps": [{"step": "prune", "pruner": "level", "sparsity": 0.1},
           {"step": "prune", "pruner": "l1", "sparsity": 0.8, "repair": false}]}
EOF
pare compress recipe.json -q 2>&1 | numbers
ls out.steps
pare compress recipe.json -q --max-drop 100 --resume --keep-steps >/dev/null && ls out.onnx
sed -i 's/"max_drop": 3, //' recipe.json
rm -rf out*
pare compress recipe.json -q 2>&1 >/dev/null | numbers
ls out*
# Quantizers that learn in training.
for quantizer in qat lsq lsq_plus pact dorefa bnn; do
    pare quantize t.onnx --quantizer $quantizer --config "$two" --data digits -q -o out.onnx 2>&1
done
pare quantize t.onnx --quantizer dorefa --config '[{"quant_types": ["weight"], "quant_bits": 8, "op_types": ["default"]}]' -q -o w.onnx 2>&1
pare quantize t.onnx --quantizer qat --config "$two" -q -o w.onnx 2>&1
