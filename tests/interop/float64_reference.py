#!/usr/bin/python3
"""float64_reference.py - evaluate a quantized ONNX file in float64.

DequantizeLinear, sums and products are evaluated in float64, where the rounding errors of these graphs
are negligible, and QuantizeLinear rounds half to even.  Results in float32 differ from these only where a
value is about halfway between two integers.
"""
import numpy as np
import onnx
import onnx.numpy_helper
import torch
import torch.nn.functional as F

torch.set_grad_enabled(False)
OPS = {}


def op(*names):
    def add(f):
        for name in names:
            OPS[name] = f
        return f
    return add


def as_float64(v):
    return v.double() if v.dtype == torch.float32 else v


def along(v, rank, axis):
    """A scalar, or a vector along an axis, reshaped to broadcast with a tensor of that rank."""
    return v.reshape([-1 if i == axis % max(rank, 1) else 1 for i in range(rank)]) if v.ndim else v


LIMITS = {torch.uint8: (0, 255), torch.int8: (-128, 127), torch.int32: (-2 ** 31, 2 ** 31 - 1)}


def dequantize(x, scale, zero=None, axis=1):
    q = x.double()
    if zero is not None:
        q = q - along(zero.double(), x.ndim, axis)
    return q * along(scale.double(), x.ndim, axis)


class Ties:
    """Distances from a half, in quantization steps, of the values that the last node rounded."""
    last = None


def quantize(x, scale, zero=None, axis=1):
    dtype = zero.dtype if zero is not None else torch.uint8
    r = x / along(scale.double(), x.ndim, axis)
    lo, hi = LIMITS[dtype]
    q = torch.round(r)
    if zero is not None:
        q = q + along(zero.double(), x.ndim, axis)
    Ties.last = (r - torch.floor(r) - 0.5).abs()
    return q.clamp(lo, hi).to(dtype)


@op("QuantizeLinear")
def quantize_linear(a, x, scale, zero=None):
    return quantize(x, scale, zero, a.get("axis", 1))


@op("DequantizeLinear")
def dequantize_linear(a, x, scale, zero=None):
    return dequantize(x, scale, zero, a.get("axis", 1))


def pads_of(a, kernel):
    n = len(kernel)
    assert a.get("auto_pad", b"NOTSET") == b"NOTSET"
    p = a.get("pads", [0] * 2 * n)
    return [v for i in reversed(range(n)) for v in (p[i], p[n + i])]


@op("Conv")
def conv(a, x, w, b=None):
    n = x.ndim - 2
    x = F.pad(x, pads_of(a, w.shape[2:]))
    f = {1: F.conv1d, 2: F.conv2d, 3: F.conv3d}[n]
    return f(x, w, b, a.get("strides", [1] * n), 0, a.get("dilations", [1] * n), a.get("group", 1))


@op("QLinearConv")
def qlinear_conv(a, x, xs, xz, w, ws, wz, ys, yz, b=None):
    bias = None if b is None else b.double() * xs.double() * ws.double()
    return quantize(conv(a, dequantize(x, xs, xz), dequantize(w, ws, wz, 0), bias), ys, yz)


@op("QLinearMatMul")
def qlinear_matmul(a, x, xs, xz, w, ws, wz, ys, yz):
    return quantize(dequantize(x, xs, xz) @ dequantize(w, ws, wz, -1), ys, yz)


@op("QGemm")
def qgemm(a, x, xs, xz, w, ws, wz, b=None, ys=None, yz=None):
    x, w = dequantize(x, xs, xz), dequantize(w, ws, wz, 0 if a.get("transB") else 1)
    y = (x.T if a.get("transA") else x) @ (w.T if a.get("transB") else w) * a.get("alpha", 1.0)
    if b is not None:
        y = y + b.double() * xs.double() * ws.double()
    return y if ys is None else quantize(y, ys, yz)


@op("QLinearAdd")
def qlinear_add(a, x, xs, xz, z, zs, zz, ys, yz=None):
    return quantize(dequantize(x, xs, xz) + dequantize(z, zs, zz), ys, yz)


@op("QLinearMul")
def qlinear_mul(a, x, xs, xz, z, zs, zz, ys, yz=None):
    return quantize(dequantize(x, xs, xz) * dequantize(z, zs, zz), ys, yz)


@op("QLinearGlobalAveragePool")
def qlinear_global(a, x, xs, xz, ys, yz):
    assert not a.get("channels_last")
    return quantize(global_average(a, dequantize(x, xs, xz)), ys, yz)


@op("QLinearAveragePool")
def qlinear_average(a, x, xs, xz, ys, yz=None):
    return quantize(average_pool(a, dequantize(x, xs, xz)), ys, yz)


@op("QLinearConcat")
def qlinear_concat(a, ys, yz, *parts):
    y = [dequantize(*parts[i:i + 3]) for i in range(0, len(parts), 3)]
    return quantize(torch.cat(y, a["axis"]), ys, yz)


@op("QLinearSigmoid")
def qlinear_sigmoid(a, x, xs, xz, ys, yz=None):
    return quantize(torch.sigmoid(dequantize(x, xs, xz)), ys, yz)


@op("QLinearSoftmax")
def qlinear_softmax(a, x, xs, xz, ys, yz):
    return quantize(torch.softmax(dequantize(x, xs, xz), a.get("axis", -1)), ys, yz)


@op("Gemm")
def gemm(a, x, w, b=None):
    y = (x.T if a.get("transA") else x) @ (w.T if a.get("transB") else w) * a.get("alpha", 1.0)
    return y if b is None else y + b * a.get("beta", 1.0)


OPS.update({
    "MatMul": lambda a, x, y: x @ y,
    "Add": lambda a, x, y: x + y,
    "Sub": lambda a, x, y: x - y,
    "Mul": lambda a, x, y: x * y,
    "Div": lambda a, x, y: torch.div(x, y, rounding_mode=None if x.is_floating_point() else "trunc"),
    "Pow": lambda a, x, y: x ** y,
    "Sqrt": lambda a, x: torch.sqrt(x),
    "Erf": lambda a, x: torch.erf(x),
    "Relu": lambda a, x: torch.relu(x),
    "Sigmoid": lambda a, x: torch.sigmoid(x),
    "HardSigmoid": lambda a, x: (a.get("alpha", 0.2) * x + a.get("beta", 0.5)).clamp(0, 1),
    "Softmax": lambda a, x: torch.softmax(x, a.get("axis", -1)),
    "Flatten": lambda a, x: x.reshape(int(np.prod(x.shape[:a.get("axis", 1)])), -1),
    "Reshape": lambda a, x, s: x.reshape([v or x.shape[i] for i, v in enumerate(s.tolist())]),
    "Transpose": lambda a, x: x.permute(a["perm"]),
    "Concat": lambda a, *x: torch.cat(x, a["axis"]),
    "Shape": lambda a, x: torch.tensor(x.shape),
    "Equal": lambda a, x, y: x == y,
    "Where": lambda a, c, x, y: torch.where(c, x, y),
    "Expand": lambda a, x, s: x.expand(np.broadcast_shapes(tuple(x.shape), tuple(s.tolist()))),
    "Identity": lambda a, x: x,
})


@op("Clip")
def clip(a, x, lo=None, hi=None):
    x = x if lo is None else torch.maximum(x, lo)
    return x if hi is None else torch.minimum(x, hi)


@op("Constant")
def constant(a):
    return a["value"]


@op("ConstantOfShape")
def constant_of_shape(a, s):
    return a["value"].expand(s.tolist())


@op("Cast")
def cast(a, x):
    return x.to({1: torch.float64, 6: torch.int32, 7: torch.int64, 9: torch.bool}[a["to"]])


@op("Gather")
def gather(a, x, i):
    axis = a.get("axis", 0)
    y = torch.index_select(x, axis, (i % x.shape[axis]).reshape(-1))
    return y.reshape(x.shape[:axis] + i.shape + x.shape[axis % x.ndim + 1:])


@op("Unsqueeze")
def unsqueeze(a, x, axes):
    for i in sorted(axes.tolist()):
        x = x.unsqueeze(i)
    return x


@op("Slice")
def slice_(a, x, starts, ends, axes=None, steps=None):
    axes = range(x.ndim) if axes is None else axes.tolist()
    steps = [1] * len(axes) if steps is None else steps.tolist()
    at = [slice(None)] * x.ndim
    for i, s, e, k in zip(axes, starts.tolist(), ends.tolist(), steps):
        at[i] = slice(s, e, k)
    return x[tuple(at)]


@op("Pad")
def pad(a, x, pads, value=None):
    n = x.ndim
    p = [v for i in reversed(range(n)) for v in (int(pads[i]), int(pads[n + i]))]
    assert a.get("mode", b"constant") == b"constant"
    return F.pad(x, p, value=0.0 if value is None else float(value))


@op("MaxPool")
def max_pool(a, x):
    q = x.dtype
    x = F.pad(x.double(), pads_of(a, a["kernel_shape"]), value=-np.inf)
    assert set(a.get("dilations", [1])) == {1}
    k = a["kernel_shape"]
    return F.max_pool2d(x, k, a.get("strides", [1] * len(k)), 0, 1, bool(a.get("ceil_mode"))).to(q)


@op("AveragePool")
def average_pool(a, x):
    k, p = a["kernel_shape"], a.get("pads", [0] * 4)
    assert p[:2] == p[2:] and a.get("auto_pad", b"NOTSET") == b"NOTSET"
    return F.avg_pool2d(x, k, a.get("strides", [1] * len(k)), p[:2], bool(a.get("ceil_mode")),
                        bool(a.get("count_include_pad")))


@op("GlobalAveragePool")
def global_average(a, x):
    return x.mean(tuple(range(2, x.ndim)), keepdim=True)


@op("BatchNormalization")
def batch_normalization(a, x, scale, shift, mean, variance):
    scale = scale / torch.sqrt(variance + a.get("epsilon", 1e-5))
    return (x - along(mean, x.ndim, 1)) * along(scale, x.ndim, 1) + along(shift, x.ndim, 1)


@op("ReduceMean")
def reduce_mean(a, x):
    return x.mean(tuple(a["axes"]), keepdim=bool(a.get("keepdims", 1)))


def tensor(t):
    a = onnx.numpy_helper.to_array(t)
    return as_float64(torch.from_numpy(np.ascontiguousarray(a).copy()).reshape(a.shape))


def attributes(node):
    return {a.name: tensor(a.t) if a.type == a.TENSOR else onnx.helper.get_attribute_value(a)
            for a in node.attribute}


def run(path, feeds, seen=None):
    """The first output.  seen(name, integers, distances from a half) is called for every quantized
    value; the integers that it returns replace these."""
    graph = onnx.load(path).graph
    value = {t.name: tensor(t) for t in graph.initializer}
    value.update({k: as_float64(torch.from_numpy(v)) for k, v in feeds.items()})
    last = {}
    for i, node in enumerate(graph.node):
        last.update({name: i for name in node.input})
    for i, node in enumerate(graph.node):
        Ties.last = None
        ins = [value[name] if name else None for name in node.input]
        y = OPS[node.op_type](attributes(node), *ins)
        if seen and Ties.last is not None:
            y = seen(node.output[0], y, Ties.last)
        value[node.output[0]] = y
        for name in set(node.input):
            if name and last[name] == i and name != graph.output[0].name:
                del value[name]
    return value[graph.output[0].name].numpy()


def quantized_values(path):
    """Names and ONNX types of the quantized values of a file."""
    graph = onnx.load(path).graph
    types = {t.name: t.data_type for t in graph.initializer}
    zero = {"QuantizeLinear": 2, "QLinearConv": 7, "QLinearMatMul": 7, "QLinearConcat": 1,
            "QGemm": 8, "QLinearAdd": 7, "QLinearMul": 7, "QLinearGlobalAveragePool": 4,
            "QLinearAveragePool": 4, "QLinearSigmoid": 4}
    return {n.output[0]: types[n.input[zero[n.op_type]]] for n in graph.node if n.op_type in zero}


def expose_quantized(path, to):
    """Write a copy of the file with all quantized values as outputs; returns their names."""
    model = onnx.load(path)
    outputs = {o.name for o in model.graph.output}
    names = quantized_values(path)
    for name, kind in names.items():
        if name not in outputs:
            model.graph.output.append(onnx.helper.make_tensor_value_info(name, kind, None))
    onnx.save(model, to)
    return list(names)
