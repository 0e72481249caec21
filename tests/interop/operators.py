#!/usr/bin/python3
"""operators.py - single operators with random inputs of many shapes, in Pare and in ONNX Runtime.

usage: operators.py BUILD_FOLDER [SEED [PATTERN]]

A case is an operator with inputs, attributes and a tolerance relative to the largest output; quantized
results may differ by one step.  Cases that ONNX Runtime rejects are counted; it must run at least one of
each operator.  Where ONNX Runtime has no implementation, or one that differs from the ONNX reference,
the case has the expected result, computed by NumPy.
"""
import os
import subprocess
import sys
import tempfile

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

HERE = os.path.dirname(os.path.abspath(__file__))
MS = "com.microsoft"
os.environ["PARE_CACHE"] = ""


class Cases:
    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)
        self.list = []

    def f(self, *shape, lo=-1.0, hi=1.0):
        return self.rng.uniform(lo, hi, shape).astype(np.float32)

    def i8(self, *shape):
        return self.rng.integers(-128, 128, shape).astype(np.int8)

    def u8(self, *shape):
        return self.rng.integers(0, 256, shape).astype(np.uint8)

    def ids(self, below, *shape):
        return self.rng.integers(0, below, shape).astype(np.int32)

    def add(self, op, *inputs, domain="", opset=17, outs=1, tol=1e-4, const=(), out_type=None, want=None,
            more=None, **attrs):
        """Inputs are arrays or None; those in `const` are initializers.  `want` is the expected result if it is not
        ONNX Runtime's; `more` has attributes whose names are parameters of this function."""
        self.list.append((op, inputs, domain, opset, outs, tol, set(const), out_type, {**attrs, **(more or {})}, want))


def build(case):
    op, inputs, domain, opset, outs, _, const, out_type, attrs, _ = case
    names = ["" if x is None else f"x{i}" for i, x in enumerate(inputs)]
    out_names = ["" if outs == "last" and i in (1, 2) else f"y{i}" for i in range(4 if outs == "last" else outs)]
    node = helper.make_node(op, names, out_names, domain=domain, **attrs)
    graph_in, init, feed = [], [], {}
    for i, x in enumerate(inputs):
        if x is None:
            continue
        if i in const:
            init.append(numpy_helper.from_array(x, names[i]))
        else:
            graph_in.append(helper.make_tensor_value_info(
                names[i], helper.np_dtype_to_tensor_dtype(x.dtype) if hasattr(helper, "np_dtype_to_tensor_dtype")
                else onnx.mapping.NP_TYPE_TO_TENSOR_TYPE[x.dtype], list(x.shape)))
            feed[names[i]] = x
    types = out_type if isinstance(out_type, list) else [out_type or TensorProto.FLOAT] * len(out_names)
    graph_out = [helper.make_tensor_value_info(n, t, None) for n, t in zip(out_names, types) if n]
    graph = helper.make_graph([node], "one", graph_in, graph_out, init)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset), helper.make_opsetid(MS, 1)])
    model.ir_version = 8
    return model, feed


def signals(c):
    for n, length in ((1, None), (2, 8), (3, 5), (17, None), (64, 48), (100, 128), (31, 31)):
        for inverse in (0, 1):
            size = None if length is None else np.array(length, np.int64)
            c.add("DFT", c.f(2, n, 3, 2), size, axis=1, inverse=inverse, const=(1,))
            c.add("DFT", c.f(2, n, 3, 1), size, axis=1, inverse=inverse, const=(1,))
            c.add("DFT", c.f(2, n, 2), size, np.array(-2, np.int64), opset=20, inverse=inverse, const=(1, 2))
            c.add("DFT", c.f(n, 2, 2), size, np.array(0, np.int64), opset=20, inverse=inverse, const=(1, 2))
        c.add("DFT", c.f(2, n, 1), size, axis=1, onesided=1, const=(1,))
        if n > 1:
            c.add("DFT", c.f(2, n // 2 + 1, 2), np.array(n, np.int64), opset=20, onesided=1, inverse=1, const=(1,))
        if length:
            x = c.f(2, n, 2)
            c.add("DFT", x, size, opset=20, onesided=1, inverse=1, const=(1,),
                  want=np.fft.irfft(x[..., 0] + 1j * x[..., 1], n=length, axis=1)[..., None])
    for length, frame, step in ((40, 16, 4), (40, 10, 7), (33, 33, 1), (100, 25, 10)):
        for onesided in (0, 1):
            c.add("STFT", c.f(2, length, 1), np.array(step, np.int64), c.f(frame), None, onesided=onesided, const=(1,))
            c.add("STFT", c.f(1, length, 1), np.array(step, np.int64), None, np.array(frame, np.int64),
                  onesided=onesided, const=(1, 3))
        x, w = c.f(2, length, 2), c.f(frame)
        frames = [x[:, i:i + frame, 0] + 1j * x[:, i:i + frame, 1] for i in range(0, length - frame + 1, step)]
        y = np.fft.fft(np.stack(frames, 1) * w)
        c.add("STFT", x, np.array(step, np.int64), w, np.array(frame, np.int64), onesided=0, const=(1, 3),
              want=np.stack([y.real, y.imag], -1))
    for op in ("HannWindow", "HammingWindow", "BlackmanWindow"):
        for size in (2, 5, 16, 400):
            for periodic in (0, 1):
                c.add(op, np.array(size, np.int64), periodic=periodic)
                c.add(op, np.array(size, np.int32), periodic=periodic, output_datatype=TensorProto.DOUBLE,
                      out_type=TensorProto.DOUBLE)
    for bins, dft, rate, low, high in ((8, 16, 8192, 0, 4000), (40, 512, 16000, 20, 7600), (80, 400, 16000, 0, 8000),
                                       (3, 9, 100, 5, 40)):
        c.add("MelWeightMatrix", *(np.array(v, np.int64) for v in (bins, dft, rate)),
              *(np.array(v, np.float32) for v in (low, high)))


def sampling(c):
    for mode in ("linear", "nearest", "cubic"):
        for padding in ("zeros", "border", "reflection"):
            for corners in (0, 1):
                c.add("GridSample", c.f(2, 3, 5, 4), c.f(2, 3, 6, 2, lo=-1.4, hi=1.4), opset=20, mode=mode,
                      padding_mode=padding, align_corners=corners, tol=1e-3)
                c.add("GridSample", c.f(2, 3, 5, 4), c.f(2, 3, 6, 2, lo=-1.4, hi=1.4), opset=16,
                      mode={"linear": "bilinear", "cubic": "bicubic"}.get(mode, mode), padding_mode=padding,
                      align_corners=corners, tol=1e-3)
                if mode != "cubic":
                    c.add("GridSample", c.f(1, 2, 3, 5, 4), c.f(1, 2, 3, 4, 3, lo=-1.4, hi=1.4), opset=20, mode=mode,
                          padding_mode=padding, align_corners=corners, tol=1e-3)
    for corners in (0, 1):
        c.add("AffineGrid", c.f(2, 2, 3), np.array([2, 3, 5, 4], np.int64), opset=20, align_corners=corners)
        c.add("AffineGrid", c.f(2, 3, 4), np.array([2, 1, 3, 5, 4], np.int64), opset=20, align_corners=corners)
    for og, group in ((1, 1), (2, 1), (1, 2), (4, 2)):
        for mask in (None, c.f(2, og * 6, 3, 5, lo=0)):
            c.add("DeformConv", c.f(2, 4, 5, 6), c.f(6, 4 // group, 3, 2), c.f(2, og * 12, 3, 5), c.f(6), mask,
                  opset=19, offset_group=og, group=group, pads=[1, 0, 1, 1], strides=[2, 1],
                  dilations=[1, 2], kernel_shape=[3, 2], tol=1e-3)


def fused(c):
    acts = [(None, None), ("Relu", None), ("Tanh", None), ("Sigmoid", None), ("LeakyRelu", [0.1]),
            ("Clip", [-0.5, 0.7]), ("HardSigmoid", [0.3, 0.4])]
    for act, params in acts:
        a = {} if act is None else {"activation": act}
        if params:
            a["activation_params"] = params
        for group in (1, 2):
            c.add("FusedConv", c.f(2, 4, 6, 5), c.f(6, 4 // group, 3, 3), c.f(6), domain=MS, group=group,
                  pads=[1, 1, 1, 1], kernel_shape=[3, 3], tol=1e-3, **a)
        c.add("FusedConv", c.f(2, 4, 6, 5), c.f(6, 4, 3, 3), c.f(6), c.f(2, 6, 2, 2), domain=MS, strides=[2, 2],
              kernel_shape=[3, 3], tol=1e-3, **a)
        c.add("FusedConv", c.f(1, 4, 9), c.f(6, 4, 3), domain=MS, kernel_shape=[3], **a)
    for act, a in (("Relu", {}), ("Tanh", {}), ("LeakyRelu", {"activation_alpha": 0.2}), ("Sigmoid", {}),
                   ("Elu", {"activation_alpha": 0.7}), ("Softplus", {}),
                   ("HardSigmoid", {"activation_alpha": 0.3, "activation_beta": 0.6}), ("Softsign", {})):
        c.add("FusedGemm", c.f(5, 7), c.f(4, 7), c.f(4), domain=MS, transB=1, alpha=0.7, beta=1.3, activation=act, **a)
        c.add("FusedGemm", c.f(7, 5), c.f(7, 4), c.f(1, 4), domain=MS, transA=1, activation=act, **a)
    for ta in (0, 1):
        for tb in (0, 1):
            c.add("FusedMatMul", c.f(*((7, 5) if ta else (5, 7))), c.f(*((4, 7) if tb else (7, 4))), domain=MS,
                  transA=ta, transB=tb, alpha=0.5)
            c.add("FusedMatMul", c.f(2, 3, *((7, 5) if ta else (5, 7))), c.f(3, *((4, 7) if tb else (7, 4))), domain=MS,
                  transA=ta, transB=tb)
            c.add("FusedMatMul", c.f(*((7, 2, 3, 5) if ta else (5, 2, 3, 7))), c.f(*((4, 2, 3, 7) if tb else (7, 2, 3, 4))),
                  domain=MS, transA=ta, transB=tb, transBatchA=1, transBatchB=1, alpha=2.0)
    for shape in ((3, 5), (2, 3, 8), (2, 600)):
        c.add("BiasGelu", c.f(*shape, lo=-4, hi=4), c.f(shape[-1]), domain=MS)
        c.add("FastGelu", c.f(*shape, lo=-4, hi=4), c.f(shape[-1]), domain=MS)
        c.add("FastGelu", c.f(*shape, lo=-4, hi=4), domain=MS)
        c.add("QuickGelu", c.f(*shape, lo=-4, hi=4), domain=MS, alpha=1.3)
        c.add("Gelu", c.f(*shape, lo=-4, hi=4), domain=MS)
        c.add("LayerNormalization", c.f(*shape), c.f(shape[-1]), c.f(shape[-1]), opset=11, epsilon=1e-5)
        c.add("SimplifiedLayerNormalization", c.f(*shape), c.f(shape[-1]), epsilon=1e-5)
    for skip in ((2, 3, 8), (1, 3, 8), (3, 8)):
        c.add("SkipLayerNormalization", c.f(2, 3, 8), c.f(*skip), c.f(8), c.f(8), c.f(8), domain=MS, epsilon=1e-5)
        c.add("SkipLayerNormalization", c.f(2, 3, 8), c.f(*skip), c.f(8), None, c.f(8), domain=MS, epsilon=1e-5,
              outs="last")
        c.add("SkipSimplifiedLayerNormalization", c.f(2, 3, 8), c.f(*skip), c.f(8), c.f(8), domain=MS, epsilon=1e-5,
              outs="last")
    c.add("SkipLayerNormalization", c.f(5, 8), c.f(5, 8), c.f(8), domain=MS, epsilon=1e-5)
    c.add("EmbedLayerNormalization", c.ids(9, 2, 5), c.ids(2, 2, 5), c.f(9, 8), c.f(7, 8), c.f(2, 8), c.f(8), c.f(8),
          np.array([[1, 1, 1, 0, 0], [1, 1, 1, 1, 1]], np.int32), domain=MS, outs=3, epsilon=1e-5, mask_index_type=1,
          out_type=[TensorProto.FLOAT, TensorProto.INT32, TensorProto.FLOAT])
    c.add("EmbedLayerNormalization", c.ids(9, 2, 5), None, c.f(9, 8), c.f(7, 8), None, c.f(8), c.f(8), None,
          c.ids(7, 1, 5), domain=MS, outs=2, epsilon=1e-5, out_type=[TensorProto.FLOAT, TensorProto.INT32])


def quantized(c):
    for b, make in ((TensorProto.INT8, c.i8), (TensorProto.UINT8, c.u8)):
        for columns in (False, True):
            shape = (6,) if columns else ()
            scale, zero = c.f(*shape, lo=0.01, hi=0.02), make(*shape) // 8
            c.add("DynamicQuantizeMatMul", c.f(2, 5, 9), make(9, 6), scale, zero.astype(make(1).dtype), c.f(6), domain=MS,
                  const=(1, 2, 3, 4), tol=1e-3)
            for a in (c.i8, c.u8):
                if a == c.i8 and make == c.u8:
                    continue
                c.add("MatMulIntegerToFloat", a(2, 5, 9), make(9, 6), np.array(0.03, np.float32), scale, a(1)[0],
                      zero.astype(make(1).dtype), c.f(6), domain=MS, const=(1, 2, 3, 4, 5, 6), tol=1e-3)
                c.add("MatMulIntegerToFloat", a(5, 9), make(9, 6), np.array(0.03, np.float32), scale, domain=MS,
                      const=(1, 2, 3))
        H = 4
        for directions, name in ((1, "forward"), (1, "reverse"), (2, "bidirectional")):
            for columns in (False, True):
                shape = (directions, 4 * H) if columns else (directions,)
                zero = np.zeros(shape, make(1).dtype) if make == c.i8 else np.full(shape, 128, np.uint8)
                for batch in (1, 2):  # of a larger batch, ONNX Runtime rounds parts separately
                    c.add("DynamicQuantizeLSTM", c.f(5, batch, 6), make(directions, 6, 4 * H), make(directions, H, 4 * H),
                          c.f(directions, 8 * H), None, None, None, None, c.f(*shape, lo=0.004, hi=0.006), zero,
                          c.f(*shape, lo=0.004, hi=0.006), zero, domain=MS, direction=name, hidden_size=H, outs=3,
                          const=(1, 2, 3, 8, 9, 10, 11), tol=1e-5 if batch == 1 else 1e-2)
    for t, make in ((TensorProto.INT8, c.i8), (TensorProto.UINT8, c.u8)):
        q = [np.array(0.05, np.float32), make(1)[0], np.array(0.04, np.float32), make(1)[0]]
        q2 = [np.array(0.05, np.float32), make(1)[0], np.array(1 / 256, np.float32),
              np.array(-128 if make == c.i8 else 0, make(1).dtype)]
        common = dict(domain=MS, const=(1, 2, 3, 4), out_type=t, tol="step")
        c.add("QLinearLeakyRelu", make(2, 3, 5), *q, alpha=0.1, **common)
        c.add("QLinearSigmoid", make(2, 3, 5), *q2, **common)
        c.add("QLinearSoftmax", make(2, 3, 5), *q2, axis=1, more={"opset": 13}, **common)
        c.add("QLinearSoftmax", make(2, 3, 5), *q2, axis=-1, more={"opset": 13}, **common)
        lo, hi = np.iinfo(make(1).dtype).min, np.iinfo(make(1).dtype).max
        for shape, axes, keep in (((2, 3, 5, 4), (2, 3), True), ((2, 3, 5), (1,), False)):
            x = make(*shape)
            real = ((x.astype(np.float64) - q[1]) * q[0]).mean(axes, keepdims=keep)
            c.add("QLinearReduceMean", x, *q, axes=list(axes), keepdims=int(keep),
                  want=np.clip(np.rint(real / q[2]) + q[3], lo, hi), **common)
        c.add("QLinearWhere", c.u8(3, 1) > 127, make(2, 3, 5), *q[:2], make(3, 5), *q[2:], np.array(0.06, np.float32),
              make(1)[0], domain=MS, const=(2, 3, 5, 6, 7, 8), out_type=t, tol="step")
        c.add("QLinearAdd", make(2, 3, 5), *q[:2], make(3, 5), *q[2:], np.array(0.06, np.float32), make(1)[0],
              domain=MS, const=(1, 2, 4, 5, 6, 7), out_type=t, tol="step")


def excess(mine, theirs, tol):
    """The largest difference, as a multiple of the tolerance."""
    if mine.shape != theirs.shape:
        return float("inf")
    if not theirs.size:
        return 0.0
    mine = mine.astype(np.float64)
    off = np.abs(mine - theirs).max()
    limit = 1.0 if tol == "step" else tol * max(np.abs(theirs).max(), 1e-3)
    return float(off / limit) if np.isfinite(off) else float("inf")


def main():
    build_dir, seed = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 1
    pattern = sys.argv[3] if len(sys.argv) > 3 else ""
    cases = Cases(seed)
    for make in (signals, sampling, fused, quantized):
        make(cases)
    todo = [case for case in cases.list if pattern in case[0]]
    bad, ran, rejected = 0, {}, {}
    with tempfile.TemporaryDirectory() as tmp:
        for i, case in enumerate(todo):
            model, feed = build(case)
            onnx.save(model, f"{tmp}/{i:04}.onnx")
            np.savez(f"{tmp}/{i:04}.in.npz", **feed)
        subprocess.run(["node", f"{HERE}/operators.mjs", tmp], check=True,
                       env={**os.environ, "NODE_PATH": f"{build_dir}/node/node_modules"})
        for i, case in enumerate(todo):
            base, what = f"{tmp}/{i:04}", f"{case[0]} {[x if x is None else x.shape for x in case[1]]} {case[8]}"
            done = subprocess.run([f"{build_dir}/pare", "run", f"{base}.onnx", "--input", f"{base}.in.npz", "-o",
                                   f"{base}.out.npz"], text=True, capture_output=True)
            if os.path.exists(f"{base}.error") and case[9] is None:
                rejected.setdefault(case[0], []).append(open(f"{base}.error").read())
                continue
            ran[case[0]] = ran.get(case[0], 0) + 1
            if done.returncode:
                print(f"FAIL {what}: {done.stderr.strip()}")
                bad += 1
                continue
            mine = np.load(f"{base}.out.npz")
            for k, name in enumerate(mine.files):
                theirs = np.load(f"{base}.{k}.npy") if case[9] is None else case[9]
                d = excess(mine[name], theirs, case[5])
                if d > 1:
                    print(f"FAIL {what} output {k}: {d:.3g} times the tolerance")
                    bad += 1
    for op, why in rejected.items():
        print(f"ONNX Runtime rejects {len(why)} cases of {op}: {why[0][:150]}")
        if op not in ran:
            bad += 1
            print(f"FAIL {op}: ONNX Runtime runs none of its cases")
    print(f"{sum(ran.values())} cases of {len(ran)} operators, {bad} differ")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
