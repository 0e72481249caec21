# Bits, scale, zero point and range of quantized layers, as text, as JSON and in state files.
pare new lenet --input 1,8,8 --seed 1 -o m.onnx >/dev/null
pare train m.onnx --data digits --epochs 2 --threads 1 -q -o t.onnx
pare quantize t.onnx --preset int8 --data digits --threads 1 -q -o q.onnx --model-out q.safetensors --calibration c.json
pare inspect q.onnx | sed -n '/dtype/,/^$/p' | tr -s ' ' | sed 's/  *[0-9][0-9.]* to .*//; s/  *0\.[0-9].*//'
pare inspect q.onnx --json | grep -c '"zero_point"'
pare inspect q.onnx --json | sed -n '/"quantization"/,/"scale"/p' | head -7
pare inspect t.onnx --json | grep -c quantization
pare inspect q.safetensors
pare export q.onnx --state e.npz -q -o x.onnx
pare inspect e.npz
# The same numbers in all of them, in QOperator models too.
pare quantize t.onnx --preset int8 --data digits --threads 1 --format qoperator -q -o o.onnx
pare export o.onnx --state o.npz -q -o x.onnx
pare quantize t.onnx --preset int8 --data digits --threads 1 -q -o q.onnx --model-out q.npz
python3 - <<'PY' 2>/dev/null || echo "python3 is not installed"
import array
import ast
import zipfile

def load(path):
    tensors = {}
    with zipfile.ZipFile(path) as z:
        for name in z.namelist():
            data = z.read(name)
            start = 10 + int.from_bytes(data[8:10], "little")
            assert ast.literal_eval(data[10:start].decode())["descr"] == "<f4"
            tensors[name[:-4]] = array.array("f", data[start:])
    return tensors

def close(a, b):
    return len(a) == len(b) and all(abs(x - y) <= 1e-6 * abs(x) + 1e-7 for x, y in zip(a, b))

e, o, q = (load(f) for f in ("e.npz", "o.npz", "q.npz"))
print("the file and its QOperator form:", e.keys() == o.keys() and all(close(e[k], o[k]) for k in e))
print("the file and the state:", all(e[k] == q[k] for k in e if k in q and k.endswith("_scale")))
w, scale = e["fc1.weight"], e["fc1.weight_scale"]
print("weights are multiples of the scale:",
      all(abs(v / scale[i // 200] - round(v / scale[i // 200])) < 1e-3 for i, v in enumerate(w)))
PY
pare quantize t.onnx --preset w4 --format nbits -q -o n.onnx
pare inspect n.onnx | sed -n '/dtype/,/^$/p' | tr -s ' ' | sed 's/  *[0-9][0-9.]* to .*//; s/  *0\.[0-9].*//'
