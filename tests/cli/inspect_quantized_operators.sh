# Scales of integer operators: after DynamicQuantizeLinear, in MatMulNBits, in LSTMs; types of half precision.
# The state has the same weights as that of the model with DequantizeLinear.
show() { pare inspect "$1" | sed -n '/tensor/,$p'; }
pare new lenet --input 1,8,8 --seed 1 -o m.onnx >/dev/null
for preset in int8-dynamic int8-weights w4 fp16 bf16; do
    pare quantize m.onnx --preset $preset -q -o $preset.onnx
done
show int8-dynamic.onnx
pare inspect int8-dynamic.onnx --json | grep -c '"dynamic": true'
pare inspect fp16.onnx | tail -2 | head -1
pare inspect bf16.onnx | tail -2 | head -1
pare quantize m.onnx --preset w4 --format nbits -q -o nbits.onnx
show nbits.onnx
for file in int8-dynamic int8-weights w4 nbits; do
    pare export $file.onnx --state $file.npz -q -o x.onnx
done
pare inspect int8-dynamic.npz
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
            shape = ast.literal_eval(data[10:start].decode())["shape"]
            tensors[name[:-4]] = shape, array.array("f", data[start:])
    return tensors

def turned(t):
    (rows, columns), v = t
    return (columns, rows), array.array("f", (v[r * columns + c] for c in range(columns) for r in range(rows)))

a, b, n, g = (load(f + ".npz") for f in ("int8-dynamic", "int8-weights", "nbits", "w4"))
for layer in "fc1", "fc2": # MatMulInteger has columns where Gemm has rows
    a[layer + ".weight"] = turned(a[layer + ".weight"])
same = [k for k in a if a[k] == b.get(k)]
print("int8-dynamic as int8-weights, without zero points of uint8:", a.keys() == b.keys(), sorted(a.keys() - set(same)))
print("nbits as w4:", n == g)
PY
