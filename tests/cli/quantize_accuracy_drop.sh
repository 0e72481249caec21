# --accuracy-drop: steps tried, layers changed, accuracy of the written file.
pare new mlp --input 1,8,8 --seed 1 -o m.onnx >/dev/null
pare train m.onnx --data digits --epochs 6 --lr 1e-3 --schedule constant --threads 1 --seed 1 -q -o t.onnx
config='[{"quant_types": ["weight", "input"], "quant_bits": 2, "quant_dtype": {"weight": "int"},
    "op_types": ["Linear"]}]'
pare quantize t.onnx --quantizer ptq --config "$config" --data digits --threads 1 \
    --accuracy-drop 0.5 -o q.onnx >text || exit 1
grep -c '^accuracy may drop 0.5 points from .*, too low$' text
grep -q '^[0-9]* changes*: accuracy .*, high enough$' text && echo tried
grep -c 'weight 4 instead of 2, input 4 instead of 2 bits$' text >count
pare quantize t.onnx --quantizer ptq --config "$config" --data digits --threads 1 \
    --accuracy-drop 0.5 --json -q -o q.onnx >json || exit 1
python3 - <<'PY' 2>/dev/null || echo "python3 is not installed"
import json
r = json.load(open("json"))
least = r["before"]["accuracy"] - 0.005 - 1e-9
steps = r["budget"]["steps"]
print("the requested bits are not enough:", steps[0]["accuracy"] < least and not steps[0]["enough"])
print("the file reaches the target:", r["integers"]["accuracy"] >= least)
print("steps report it:", all(s["enough"] == (s["accuracy"] >= least) for s in steps))
changed = [c for c in r["budget"]["changed"] if c["bits"] == {"weight": 4, "input": 4}]
print("as many changes as in the text:", len(changed) == int(open("count").read()) > 0)
bits = {l["name"]: l["weight"]["bits"] for l in r["layers"]}
print("layers have the reported bits:", all(bits[c["name"]] == 4 for c in changed))
PY
pare eval q.onnx --data digits | grep -c top-1
pare quantize t.onnx --preset w4 --accuracy-drop 1 -o q.onnx
pare quantize t.onnx --preset w4 --data digits --valid none --accuracy-drop 1 -o q.onnx
pare quantize t.onnx --preset w4 --data digits --accuracy-drop 101 -o q.onnx
pare quantize t.onnx --quantizer qat --config "$config" --data digits --threads 1 --epochs 1 --lr 99 \
    --accuracy-drop 0.5 -q -o bad.onnx 2>&1 | sed 's/[0-9.]*%/N%/g; s/float, [0-9.]* points/float, N points/'
[ -e bad.onnx ] || echo "no bad.onnx"
