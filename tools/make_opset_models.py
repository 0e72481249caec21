#!/usr/bin/python3
"""make_opset_models.py - small models of every operator form that a later opset changed.

usage: make_opset_models.py FILE

The input is x and the only output y, both float32.  tests/unit/test_opset_upgrade.c raises each model to later opsets
and compares the results in Pare, tests/interop/opset_upgrade.py in ONNX Runtime.  A name with _pare is not run by ONNX Runtime.
FILE (tests/models/opsets.pack) has for each model: length of the name, name, length, bytes; lengths are 4 bytes,
little-endian; the name is NAME-OPSET.
"""
import struct
import sys

import numpy as np
from onnx import TensorProto, helper, numpy_helper

F = TensorProto.FLOAT
X = (2, 4, 6, 5)
PACK = open(sys.argv[1], "wb")


def n(kind, inputs, outputs, **attrs):
    return helper.make_node(kind, inputs.split(), outputs.split(), **attrs)


def const(name, values, dtype=np.float32):
    return numpy_helper.from_array(np.array(values, dtype=dtype), name)


def ramp(shape, scale=0.1, start=-0.5):
    return (np.arange(np.prod(shape), dtype=np.float32) % 7 * scale + start).reshape(shape)


def value(name, shape=None, kind=F):
    return helper.make_tensor_value_info(name, kind, shape)


def save(name, opset, nodes, inits=(), x=X, more=(), ir=8, functions=(), outputs=None, info=(), domains=()):
    """Several outputs are flattened and joined to y."""
    if outputs:
        inits = list(inits) + [const("flat_shape", [-1], np.int64)]
        for i, o in enumerate(outputs):
            nodes = nodes + [n("Cast", o, f"{o}_f", to=F), n("Reshape", f"{o}_f flat_shape", f"part{i}")]
        nodes = nodes + [n("Concat", " ".join(f"part{i}" for i in range(len(outputs))), "y", axis=0)]
    inputs = ([value("x", x)] if x is not None else []) + [value(k, s) for k, s in more]
    if ir < 4:
        inputs += [value(t.name, t.dims, t.data_type) for t in inits]
    graph = helper.make_graph(nodes, "g", inputs, [value("y")], list(inits), value_info=list(info))
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)] +
                              [helper.make_opsetid(d, 1) for d in domains], functions=list(functions))
    model.ir_version = ir
    for part in (f"{name}-{opset}".encode(), model.SerializeToString()):
        PACK.write(struct.pack("<I", len(part)) + part)


def inputs_from_attributes():
    for v in (7, 9):
        save("slice", v, [n("Slice", "x", "y", axes=[2, 1], starts=[1, 0], ends=[5, -1])])
        save("slice_all", v, [n("Slice", "x", "y", starts=[0, 1], ends=[2, 9999])])
    for v in (7, 11, 12):
        save("split", v, [n("Split", "x", "a b", axis=1, split=[1, 3])], outputs=["a", "b"])
        save("split_equal", v, [n("Split", "x", "a b c", axis=2)], outputs=["a", "b", "c"])
        save("squeeze", v, [n("Squeeze", "x", "y", axes=[0, 2])], x=(1, 4, 1, 5))
        save("squeeze_all", v, [n("Squeeze", "x", "y")], x=(1, 4, 1, 5))
        save("unsqueeze", v, [n("Unsqueeze", "x", "y", axes=[0, 3] if v < 11 else [0, -1])])
        for keep in (0, 1):
            save(f"reduce_sum_keep{keep}", v, [n("ReduceSum", "x", "y", axes=[1, 3], keepdims=keep)])
        save("reduce_sum_all", v, [n("ReduceSum", "x", "y")])
    save("split_equal", 13, [n("Split", "x", "a b c", axis=2)], outputs=["a", "b", "c"])
    for kind in ("L1", "L2", "LogSum", "LogSumExp", "Max", "Mean", "Min", "Prod", "SumSquare"):
        for v in (7, 11, 13, 17):
            x = "p" if kind == "LogSum" else "x"
            before = [n("Abs", "x", "p")] if kind == "LogSum" else []
            save(f"reduce_{kind.lower()}", v,
                 before + [n(f"Reduce{kind}", x, "y", axes=[2] if v < 11 else [-2], keepdims=0)])
        save(f"reduce_{kind.lower()}_all", 13, [n("Abs", "x", "p"), n(f"Reduce{kind}", "p", "y")])
    for v in (7, 10):
        save("clip", v, [n("Clip", "x", "y", min=-0.25, max=0.5)])
        save("clip_min", v, [n("Clip", "x", "y", min=-0.25)])
        save("clip_max", v, [n("Clip", "x", "y", max=0.25)])
        save("clip_none", v, [n("Clip", "x", "y")])
        for kind, to in (("half", TensorProto.FLOAT16), ("double_pare", TensorProto.DOUBLE)):
            save(f"clip_{kind}", v, [n("Cast", "x", "h", to=to), n("Clip", "h", "c", min=-0.25, max=0.5),
                                     n("Cast", "c", "y", to=F)])
        pads = [0, 0, 1, 2, 0, 1, 0, 1]
        save("pad", v, [n("Pad", "x", "y", pads=pads, value=1.5)])
        save("pad_zero", v, [n("Pad", "x", "y", pads=pads)])
        save("pad_edge", v, [n("Pad", "x", "y", pads=pads, mode="edge")])
        save("pad_reflect", v, [n("Pad", "x", "y", pads=pads, mode="reflect")])
        save("pad_crop", v, [n("Pad", "x", "y", pads=[0, 0, -1, 0, 0, 0, 0, -2])])
        save("pad_double", v, [n("Cast", "x", "h", to=TensorProto.DOUBLE), n("Pad", "h", "c", pads=pads, value=1.5),
                               n("Cast", "c", "y", to=F)])
    for v in (7, 9):
        save("top_k", v, [n("TopK", "x", "a b", k=3, axis=2)], outputs=["a", "b"])
    save("top_k", 10, [n("TopK", "x k", "a b", axis=3)], [const("k", [2], np.int64)], outputs=["a", "b"])
    save("dft", 17, [n("Unsqueeze", "x a", "u"), n("DFT", "u", "y", axis=3)], [const("a", [4], np.int64)])
    save("dft_default", 17, [n("Unsqueeze", "x a", "u"), n("DFT", "u", "y", onesided=1)], [const("a", [4], np.int64)])


def softmaxes():
    for kind in ("Softmax", "LogSoftmax", "Hardmax"):
        for v in (7, 11, 12):
            for axis in (0, 1, 2, 3):
                save(f"{kind.lower()}_{axis}", v, [n(kind, "x", "y", axis=axis)])
        save(f"{kind.lower()}_default", 12, [n(kind, "x", "y")])
        save(f"{kind.lower()}_last", 12, [n(kind, "x", "y", axis=-1)])
        save(f"{kind.lower()}_negative", 12, [n(kind, "x", "y", axis=-2)])
        save(f"{kind.lower()}_free", 12, [n(kind, "x", "y")], x=("N", 3))
        save(f"{kind.lower()}_free_rank", 12, [n("Squeeze", "x", "s"), n(kind, "s", "y")], x=("N", 4, "M"))


def resizing():
    for mode in ("nearest", "linear"):
        save(f"upsample_{mode}", 7, [n("Upsample", "x", "y", mode=mode, scales=[1.0, 1.0, 2.0, 3.0])])
        save(f"upsample_{mode}", 9, [n("Upsample", "x s", "y", mode=mode)], [const("s", [1, 1, 2, 1.5])])
        save(f"resize_{mode}_up", 10, [n("Resize", "x s", "y", mode=mode)], [const("s", [1, 1, 2, 1.7])])
        save(f"resize_{mode}_down", 10, [n("Resize", "x s", "y", mode=mode)], [const("s", [1, 1, 0.5, 0.6])])
        save(f"resize_{mode}_mixed", 10, [n("Resize", "x s", "y", mode=mode)], [const("s", [1, 1, 0.6, 2])])
        save(f"resize_{mode}_computed", 10,
             [n("Shape", "x", "d"), n("Cast", "d", "f", to=F), n("Div", "want f", "s"),
              n("Resize", "x s", "y", mode=mode)], [const("want", [2, 4, 12, 3])])
    for rounding in ({}, {"nearest_mode": "floor"}, {"nearest_mode": "round_prefer_floor"}):
        save("resize_tf_" + rounding.get("nearest_mode", "default"), 11,
             [n("Resize", "x r s", "y", mode="nearest", coordinate_transformation_mode="tf_half_pixel_for_nn",
                **rounding)], [const("r", []), const("s", [1, 1, 2, 0.6])])
    save("resize_sizes", 11, [n("Resize", "x r s z", "y", mode="linear")],
         [const("r", []), const("s", []), const("z", [2, 4, 9, 7], np.int64)])


def normalization():
    c = [const("s", ramp((4,))), const("b", ramp((4,), 0.2)), const("m", ramp((4,), 0.05)),
         const("v", ramp((4,), 0.1, 0.5))]
    for v in (7, 8, 9, 13):
        save("batch_norm", v, [n("BatchNormalization", "x s b m v", "y", epsilon=1e-3)], c)
    save("batch_norm_spatial", 7, [n("BatchNormalization", "x s b m v", "y", spatial=1)], c)
    e = [const(k, ramp((4, 6, 5), *a)) for k, a in
         (("s", (0.1,)), ("b", (0.2,)), ("m", (0.05,)), ("v", (0.1, 0.5)))]
    save("batch_norm_elements", 7, [n("BatchNormalization", "x s b m v", "y", spatial=0, epsilon=1e-3)], e)
    save("batch_norm_training_pare", 9, [n("BatchNormalization", "x s b m v", "a b1 c d e", momentum=0.8)], c,
         outputs=["a", "b1", "c", "d", "e"])
    save("batch_norm_unused_pare", 13, [n("BatchNormalization", "x s b m v", "y b1 c d e")], c)
    g = [const("s", [0.5, 2.0]), const("b", [0.1, -0.3])]
    save("group_norm", 18, [n("GroupNormalization", "x s b", "y", num_groups=2)], g)
    save("layer_norm", 12, [n("LayerNormalization", "x s b", "y", axis=-1)], [const("s", ramp((5,))), const("b", ramp((5,)))])
    save("mean_variance", 9, [n("MeanVarianceNormalization", "x", "y")])
    for v in (7, 10, 11):
        save("dropout", v, [n("Dropout", "x", "y", ratio=0.3)])
        save("dropout_mask_unused", v, [n("Dropout", "x", "y m")])
        # ONNX does not define the mask outside of training: runtimes differ.
        save("dropout_mask_pare", v, [n("Dropout", "x", "a m")], outputs=["a", "m"])


def same_form():
    save("scatter", 9, [n("Scatter", "x i u", "y", axis=1)],
         [const("i", np.ones((2, 1, 6, 5)), np.int64), const("u", ramp((2, 1, 6, 5)))])
    for v in (7, 11, 12):
        save("arg_max", v, [n("ArgMax", "x", "a", axis=2, keepdims=0)], outputs=["a"])
        save("arg_min", v, [n("ArgMin", "x", "a", axis=1)], outputs=["a"])
        save("gather", v, [n("Gather", "x i", "y", axis=1)], [const("i", [2, 0], np.int64)])
        save("average_pool", v, [n("AveragePool", "x", "y", kernel_shape=[3, 2], pads=[1, 0, 1, 1], strides=[2, 1],
                                   count_include_pad=1)])
        save("average_pool_same", v, [n("AveragePool", "x", "y", kernel_shape=[2, 3], auto_pad="SAME_UPPER")])
        save("max_pool", v, [n("MaxPool", "x", "y", kernel_shape=[3, 3], pads=[1, 1, 1, 1], strides=[2, 2])])
        save("lp_pool", v, [n("LpPool", "x", "y", kernel_shape=[2, 2], p=2)])
        save("conv", v, [n("Conv", "x w", "y", kernel_shape=[3, 3], auto_pad="SAME_LOWER")], [const("w", ramp((2, 4, 3, 3)))])
        save("reshape", v, [n("Reshape", "x s", "y")], [const("s", [0, -1, 6], np.int64)])
        save("flatten", v, [n("Flatten", "x", "y", axis=2)])
        save("gemm", v, [n("Flatten", "x", "f"), n("Gemm", "f w b", "y", transB=1, alpha=0.5)],
             [const("w", ramp((3, 120))), const("b", ramp((3,)))])
        save("pow", v, [n("Abs", "x", "a"), n("Pow", "a e", "y")], [const("e", 1.5)])
        save("lstm", v, [n("LSTM", "x w r", "a b c", hidden_size=3)],
             [const("w", ramp((1, 12, 5))), const("r", ramp((1, 12, 3)))], x=(4, 2, 5), outputs=["a", "b", "c"])
        save("gru", v, [n("GRU", "x w r", "a b", hidden_size=3)],
             [const("w", ramp((1, 9, 5))), const("r", ramp((1, 9, 3)))], x=(4, 2, 5), outputs=["a", "b"])
        save("rnn", v, [n("RNN", "x w r", "a b", hidden_size=3)],
             [const("w", ramp((1, 3, 5))), const("r", ramp((1, 3, 3)))], x=(4, 2, 5), outputs=["a", "b"])
        save("prelu", v, [n("PRelu", "x s", "y")], [const("s", ramp((4, 1, 1)))])
        save("max", v, [n("Max", "x c", "y")], [const("c", ramp(X))])
        save("cast", v, [n("Cast", "x", "i", to=TensorProto.INT32), n("Cast", "i", "y", to=F)])
        save("depth_to_space", v, [n("DepthToSpace", "x", "y", blocksize=2)])
    save("max_pool_indices", 8, [n("MaxPool", "x", "a b", kernel_shape=[2, 2])], outputs=["a", "b"])
    save("max_pool_dilated", 10, [n("MaxPool", "x", "y", kernel_shape=[2, 2], dilations=[2, 1], ceil_mode=1, strides=[2, 2])])
    save("average_pool_ceil", 10, [n("AveragePool", "x", "y", kernel_shape=[2, 2], strides=[2, 2], ceil_mode=1)])
    for v in (9, 10):
        save("one_hot", v, [n("OneHot", "i d v", "h"), n("ReduceMean", "x", "r"), n("Mul", "h r", "y")],
             [const("i", [0, 2, 5, 1], np.int64), const("d", 3, np.int64), const("v", [-1, 2])])
    save("mod", 10, [n("Mod", "x m", "y", fmod=1)], [const("m", 0.3)])
    for v in (10, 13, 19):
        save("quantize", v, [n("QuantizeLinear", "x s z", "q"), n("DequantizeLinear", "q s z", "y")],
             [const("s", 0.02), const("z", 100, np.uint8)])
    save("quantize_axis", 13, [n("QuantizeLinear", "x s z", "q", axis=1), n("DequantizeLinear", "q s z", "y", axis=1)],
         [const("s", [0.02, 0.1, 0.05, 0.01]), const("z", [3, 0, -9, 5], np.int8)])
    rois = [const("r", [[0, 0, 3, 4], [1, 1, 4, 3]]), const("i", [0, 1], np.int64)]
    save("roi_align", 10, [n("RoiAlign", "x r i", "y", output_height=2, output_width=2, sampling_ratio=2)], rois)
    grid = [const("g", ramp((2, 3, 3, 2), 0.2, -0.7))]
    for mode in ({}, {"mode": "bilinear"}, {"mode": "bicubic"}, {"mode": "nearest"}):
        save("grid_sample_" + mode.get("mode", "default"), 16, [n("GridSample", "x g", "y", **mode)], grid)


def subgraphs():
    body = [n("Softmax", "x", "s_{0}", axis=1), n("Clip", "s_{0}", "c_{0}", max=0.05), n("Unsqueeze", "c_{0}", "u_{0}", axes=[0]),
            n("ReduceSum", "u_{0}", "r_{0}", axes=[1], keepdims=0)]

    def renamed(i, extra=()):
        nodes = []
        for node in body:
            copy = helper.make_node(node.op_type, [k.format(i) for k in node.input], [k.format(i) for k in node.output])
            copy.attribute.extend(node.attribute)
            nodes.append(copy)
        return nodes + list(extra)

    cond = [n("ReduceMean", "x", "mean", keepdims=0), n("Greater", "mean zero", "cond")]
    zero = [const("zero", 0.0)]
    then = helper.make_graph(renamed("t"), "then", [], [value("r_t")])
    other = helper.make_graph(renamed("e", [n("Neg", "r_e", "o_e")]), "else", [], [value("o_e")])
    for v in (9, 10):
        save("if", v, cond + [n("If", "cond", "y", then_branch=then, else_branch=other)], zero)
    inner = helper.make_graph([n("If", "cond", "i_n", then_branch=then, else_branch=other)], "inner", [], [value("i_n")])
    save("if_nested", 10, cond + [n("If", "cond", "y", then_branch=inner, else_branch=inner)], zero)
    half = helper.make_graph([n("Cast", "x", "h_t", to=TensorProto.FLOAT16), n("Clip", "h_t", "k_t", max=0.25),
                              n("Cast", "k_t", "o_t", to=F)], "half", [], [value("o_t")])
    save("if_half", 10, cond + [n("If", "cond", "y", then_branch=half, else_branch=half)], zero)
    unknown = helper.make_graph([n("Cast", "x", "h_u", to=TensorProto.FLOAT16), n("Abs", "h_u", "a_u"),
                                 n("Clip", "a_u", "k_u", max=0.25), n("Cast", "k_u", "o_u", to=F)], "half", [],
                                [value("o_u")])
    save("if_unknown_pare", 10, cond + [n("If", "cond", "y", then_branch=unknown, else_branch=unknown)], zero)

    state = [value("st", [6]), value("it", [6])]
    outs = [value("so", [6]), value("oo", [6])]
    scan = helper.make_graph([n("Add", "st it", "so"), n("Clip", "so", "oo", max=0.7)], "body", state, outs)
    for d in (0, 1):
        node = helper.make_node("Scan", ["", "i", "x"], ["a", "b"], body=scan, num_scan_inputs=1, directions=[d])
        save(f"scan_direction{d}", 8, [node], [const("i", ramp((2, 6)))], x=(2, 5, 6), outputs=["a", "b"])
    save("scan", 9, [n("Scan", "i x", "a b", body=scan, num_scan_inputs=1)], [const("i", ramp((6,)))], x=(5, 6),
         outputs=["a", "b"])
    loop = helper.make_graph([n("Identity", "go", "go_out"), n("Add", "lin x", "lout"), n("Softmax", "lout", "ls", axis=1)],
                             "body", [value("it", [], TensorProto.INT64), value("go", [], TensorProto.BOOL), value("lin", X)],
                             [value("go_out", [], TensorProto.BOOL), value("lout", X), value("ls", X)])
    for v in (7, 10, 11):
        save("loop", v, [n("Loop", "trips yes x", "a b", body=loop)],
             [const("trips", 3, np.int64), const("yes", True, bool)], outputs=["a", "b"])


def functions():
    def function(opset):
        ref = helper.make_node("ReduceSum", ["c"], ["r"], keepdims=0)
        a = ref.attribute.add()
        a.name, a.ref_attr_name, a.type = "axes", "over", 7
        clip = helper.make_node("Clip", ["s", "", "hi"] if opset > 10 else ["s"], ["c"])
        extra = [helper.make_node("Constant", [], ["hi"], value=const("v", 0.05))] if opset > 10 else []
        return helper.make_function("my", "F", ["in"], ["r"], [n("Softmax", "in", "s", axis=1)] + extra + [clip, ref],
                                    [helper.make_opsetid("", opset)], ["over"])

    for v in (10, 12):
        call = helper.make_node("F", ["x"], ["a"], domain="my", over=[1, 2])
        save("function", v, [call, helper.make_node("F", ["x"], ["b"], domain="my", over=[3])],
             functions=[function(v)], domains=["my"], outputs=["a", "b"])


def old_files():
    save("ir3", 8, [n("Conv", "x w b", "c", kernel_shape=[3, 3]), n("Softmax", "c", "y")],
         [const("w", ramp((2, 4, 3, 3))), const("b", ramp((2,)))], ir=3)


for make in (inputs_from_attributes, softmaxes, resizing, normalization, same_form, subgraphs, functions, old_files):
    make()
PACK.close()
