#!/usr/bin/env python3
"""make_test_models.py - write the tiny models and data of tests/models.

Run it from the project's folder after a change; its output is committed and deterministic.  Needs
the Python packages onnx and numpy, which neither the build nor the tests need.
"""
import os
import sys

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

OUT = sys.argv[1] if len(sys.argv) > 1 else "tests/models"


def weights(name, *shape, scale=0.5):
    """Values that look random and need no generator: samples of a sine."""
    n = int(np.prod(shape))
    x = np.sin(np.arange(1, n + 1) * 12.9898 + sum(name.encode())) * scale
    return numpy_helper.from_array(x.astype(np.float32).reshape(shape), name)


def tensor(name, dims, dtype=TensorProto.FLOAT):
    return helper.make_tensor_value_info(name, dtype, dims)


def save(name, nodes, inputs, outputs, initializers=(), opsets=(("", 13),)):
    graph = helper.make_graph(nodes, name, inputs, outputs, list(initializers))
    model = helper.make_model(graph, producer_name="make_test_models", producer_version="1",
                              ir_version=7,
                              opset_imports=[helper.make_opsetid(d, v) for d, v in opsets])
    path = os.path.join(OUT, name + ".onnx")
    onnx.save(model, path)
    assert os.path.getsize(path) < 3072, path


def save_tensor(path, array, name):
    path = os.path.join(OUT, path)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as f:
        f.write(numpy_helper.from_array(array, name).SerializeToString())


def tiny_cnn():
    """A CNN as PyTorch exports it: names of weights, scopes of nodes, a free batch."""
    node = helper.make_node
    save("tiny_cnn", [
        node("Conv", ["image", "conv1.weight", "conv1.bias"], ["c1"], "/conv1/Conv",
             kernel_shape=[3, 3], pads=[1, 1, 1, 1]),
        node("BatchNormalization",
             ["c1", "bn1.weight", "bn1.bias", "bn1.running_mean", "bn1.running_var"], ["b1"],
             "/bn1/BatchNormalization"),
        node("Relu", ["b1"], ["r1"], "/relu/Relu"),
        node("MaxPool", ["r1"], ["p1"], "/pool/MaxPool", kernel_shape=[2, 2], strides=[2, 2]),
        node("Conv", ["p1", "onnx::Conv_21"], ["c2"], "/block/block.0/conv/Conv",
             kernel_shape=[1, 1]),
        node("GlobalAveragePool", ["c2"], ["g"], "/gap/GlobalAveragePool"),
        node("Flatten", ["g"], ["f"], "/Flatten", axis=1),
        node("Gemm", ["f", "fc.weight", "fc.bias"], ["scores"], "/fc/Gemm", transB=1),
    ], [tensor("image", ["batch", 1, 8, 8])], [tensor("scores", ["batch", 5])], [
        weights("conv1.weight", 4, 1, 3, 3), weights("conv1.bias", 4),
        weights("bn1.weight", 4), weights("bn1.bias", 4), weights("bn1.running_mean", 4),
        numpy_helper.from_array(np.array([1, 2, 3, 4], np.float32), "bn1.running_var"),
        weights("onnx::Conv_21", 6, 4, 1, 1), weights("fc.weight", 5, 6), weights("fc.bias", 5),
    ])


def tiny_text():
    """An embedding, MatMul + Add as one Linear, a weight used twice, a parameter in no layer."""
    node = helper.make_node
    zeros = numpy_helper.to_array(weights("half", 4, 4)).copy()
    zeros[:2] = 0
    save("tiny_text", [
        node("Gather", ["embed.weight", "ids"], ["e"], "/embed/Gather"),
        node("Add", ["e", "position"], ["x"], "/Add"),
        node("MatMul", ["x", "onnx::MatMul_9"], ["m1"], "/layers.0/proj/MatMul"),
        node("Add", ["m1", "layers.0.proj.bias"], ["y1"], "/layers.0/proj/Add"),
        node("MatMul", ["y1", "onnx::MatMul_12"], ["m2"], "/layers/layers.1/mix/MatMul"),
        node("MatMul", ["m2", "onnx::MatMul_12"], ["y"], "/layers/layers.1/mix/MatMul_1"),
    ], [tensor("ids", ["batch", "length"], TensorProto.INT64)],
        [tensor("y", ["batch", "length", 4])], [
        weights("embed.weight", 10, 4), weights("position", 1, 1, 4),
        weights("onnx::MatMul_9", 4, 4), weights("layers.0.proj.bias", 4),
        numpy_helper.from_array(zeros, "onnx::MatMul_12"),
    ])


def tiny_bert():
    """Attention with a mask of -1e9 and two integer inputs; an .npz with an array for each."""
    node, const = helper.make_node, numpy_helper.from_array
    heads = const(np.array([0, 0, 2, 2], np.int64), "heads")
    split = [node("MatMul", ["x", w + ".weight"], [w + "_m"], f"/{w}/MatMul") for w in "qkv"]
    split += [node("Add", [w + "_m", w + ".bias"], [w + "_a"], f"/{w}/Add") for w in "qkv"]
    split += [node("Reshape", [w + "_a", "heads"], [w + "_r"]) for w in "qkv"]
    split += [node("Transpose", [w + "_r"], [w + "_t"], perm=[0, 2, 3, 1] if w == "k" else
                   [0, 2, 1, 3]) for w in "qkv"]
    save("tiny_bert", [
        node("Gather", ["word.weight", "ids"], ["x"], "/word/Gather"),
        node("Cast", ["mask"], ["m1"], to=TensorProto.FLOAT),
        node("Sub", ["one", "m1"], ["m2"]), node("Mul", ["m2", "far"], ["m3"]),
        node("Unsqueeze", ["m3", "axes"], ["m4"]),
        *split,
        node("MatMul", ["q_t", "k_t"], ["scores"]),
        node("Add", ["scores", "m4"], ["masked"], "/mask/Add"),
        node("Softmax", ["masked"], ["p"], axis=-1), node("MatMul", ["p", "v_t"], ["y"]),
        node("Transpose", ["y"], ["y1"], perm=[0, 2, 1, 3]),
        node("Reshape", ["y1", "flat"], ["y2"]),
        node("MatMul", ["y2", "o.weight"], ["y3"], "/o/MatMul"),
        node("Add", ["y3", "x"], ["sum"], "/residual/Add"),
        node("MatMul", ["sum", "head.weight"], ["out"], "/head/MatMul"),
    ], [tensor("ids", ["batch", "length"], TensorProto.INT64),
        tensor("mask", ["batch", "length"], TensorProto.INT64)],
        [tensor("out", ["batch", "length", 3])], [
        heads, weights("word.weight", 24, 4, scale=2), weights("o.weight", 4, 4),
        *(weights(w + ".weight", 4, 4) for w in "qkv"), *(weights(w + ".bias", 4) for w in "qkv"),
        weights("head.weight", 4, 3), const(np.float32(1), "one"), const(np.float32(-1e9), "far"),
        const(np.array([1, 2], np.int64), "axes"), const(np.array([0, 0, 4], np.int64), "flat"),
    ])
    ids = np.arange(8 * 6).reshape(8, 6) * 7 % 24
    mask = np.tril(np.ones((8, 6), np.int64), 2)
    np.savez(os.path.join(OUT, "tiny_bert.npz"), ids=ids, mask=mask)


def add():
    """One Add, with inputs and outputs as .pb files (also an incorrect output), .npz and .npy."""
    save("add", [helper.make_node("Add", ["a", "b"], ["sum"], "add")],
         [tensor("a", [2, 3]), tensor("b", [3])], [tensor("sum", [2, 3])])
    a = np.arange(6, dtype=np.float32).reshape(2, 3)
    b = np.array([10, 20, 30], np.float32)
    incorrect = a + b
    incorrect[1, 2] = 36
    for folder, result in (("add_correct", a + b), ("add_incorrect", incorrect)):
        save_tensor(folder + "/input_0.pb", a, "a")
        save_tensor(folder + "/input_1.pb", b, "b")
        save_tensor(folder + "/output_0.pb", result, "sum")
    np.savez(os.path.join(OUT, "add_in.npz"), b=b, a=a)
    np.save(os.path.join(OUT, "add_b.npy"), b)


def unknown_operator():
    """A node of a custom domain, which Pare keeps and lists but cannot run."""
    save("unknown_operator", [
        helper.make_node("Relu", ["x"], ["r"], "first"),
        helper.make_node("Mystery", ["r"], ["m"], "second", domain="com.example"),
        helper.make_node("Relu", ["m"], ["y"], "third"),
    ], [tensor("x", [1, 4])], [tensor("y", [1, 4])], opsets=(("", 13), ("com.example", 1)))


def exporter_habits():
    """An untrained network: weights in Constant nodes, batch normalization in training mode whose
    statistics share initializers with scale and bias, Softmax at the end."""
    node = helper.make_node

    def constant(name, *shape):
        return node("Constant", [], [name], value=weights("", *shape))
    save("exporter_habits", [
        constant("conv1.weight", 8, 1, 3, 3), constant("fc.weight", 8, 10),
        node("Identity", ["bn1.weight"], ["bn1.running_var"]),
        node("Identity", ["bn1.bias"], ["bn1.running_mean"]),
        node("Conv", ["image", "conv1.weight"], ["c1"], "/conv1/Conv", kernel_shape=[3, 3]),
        node("BatchNormalization",
             ["c1", "bn1.weight", "bn1.bias", "bn1.running_mean", "bn1.running_var"],
             ["b1", "mean", "var"], "/bn1/BatchNormalization", training_mode=1),
        node("Relu", ["b1"], ["r1"], "/relu/Relu"),
        node("MaxPool", ["r1"], ["p1"], "/pool/MaxPool", kernel_shape=[6, 6]),
        node("Flatten", ["p1"], ["f"], "/Flatten"),
        node("MatMul", ["f", "fc.weight"], ["logits"], "/fc/MatMul"),
        node("Softmax", ["logits"], ["scores"], "/Softmax", axis=1),
    ], [tensor("image", ["batch", 1, 8, 8])], [tensor("scores", ["batch", 10])], [
        numpy_helper.from_array(np.ones(8, np.float32), "bn1.weight"),
        numpy_helper.from_array(np.zeros(8, np.float32), "bn1.bias"),
    ], opsets=(("", 15),))


def sliced_weight():
    """Two MatMuls whose weights are overlapping Slices of an initializer, between layers with output channels."""
    node = helper.make_node
    save("sliced_weight", [
        node("MatMul", ["x", "fc1.weight"], ["h"], "/fc1/MatMul"),
        node("Relu", ["h"], ["r"], "/Relu"),
        node("MatMul", ["r", "fc2.weight"], ["g"], "/fc2/MatMul"),
        node("Slice", ["table.weight", "zero", "eight", "one"], ["part"], "/table/Slice"),
        node("Slice", ["table.weight", "four", "twelve", "one"], ["other"], "/table/Slice_1"),
        node("MatMul", ["g", "part"], ["p"], "/table/MatMul"),
        node("MatMul", ["g", "other"], ["q"], "/table/MatMul_1"),
        node("Add", ["p", "q"], ["s"], "/Add"),
        node("MatMul", ["s", "fc3.weight"], ["y"], "/fc3/MatMul"),
    ], [tensor("x", [2, 4, 8])], [tensor("y", [2, 4, 5])], [
        weights("fc1.weight", 8, 16), weights("fc2.weight", 16, 8),
        weights("table.weight", 8, 12), weights("fc3.weight", 8, 5),
        *(numpy_helper.from_array(np.array([n]), name)
          for n, name in ((0, "zero"), (8, "eight"), (1, "one"), (4, "four"), (12, "twelve"))),
    ])


def padded_heads():
    """Half of conv1's channels are 0; a computed shape splits them into heads, which are padded by
    their length."""
    node = helper.make_node
    conv1 = numpy_helper.to_array(weights("conv1.weight", 16, 4, 1)).copy()
    conv1.reshape(2, 8, 4)[:, 4:] = 0
    save("padded_heads", [
        node("Conv", ["x", "conv1.weight"], ["c"], "/conv1/Conv"),
        node("Shape", ["c"], ["c_shape"], "/Shape"),
        node("Gather", ["c_shape", "first"], ["batch"], "/Gather"),
        node("Gather", ["c_shape", "third"], ["length"], "/Gather_1"),
        node("Concat", ["batch", "heads", "length"], ["split"], "/Concat", axis=0),
        node("Reshape", ["c", "split"], ["h"], "/Reshape"),
        node("Shape", ["h"], ["h_shape"], "/Shape_1"),
        node("Gather", ["h_shape", "fourth"], ["more"], "/Gather_2"),
        node("Concat", ["no_pads", "more"], ["pads"], "/Concat_1", axis=0),
        node("Pad", ["h", "pads"], ["p"], "/Pad"),
        node("Reshape", ["p", "joined"], ["j"], "/Reshape_1"),
        node("Conv", ["j", "conv2.weight"], ["y"], "/conv2/Conv"),
    ], [tensor("x", ["batch", 4, "length"])], [tensor("y", ["batch", 3, "twice"])], [
        numpy_helper.from_array(conv1, "conv1.weight"), weights("conv2.weight", 3, 16, 1),
        *(numpy_helper.from_array(np.array(v, np.int64), name) for name, v in (
            ("first", [0]), ("third", [2]), ("fourth", [3]), ("heads", [2, 8]),
            ("no_pads", [0] * 7), ("joined", [0, 16, -1]))),
    ])


def windows():
    """Free height and width, of which 1 is too small: a window of 5, then one of 2.  A residual couples conv1 and
    conv2."""
    node = helper.make_node
    save("windows", [
        node("Conv", ["x", "conv1.weight"], ["c1"], "/conv1/Conv", kernel_shape=[5, 5]),
        node("MaxPool", ["c1"], ["p"], "/pool/MaxPool", kernel_shape=[2, 2], strides=[2, 2]),
        node("Conv", ["p", "conv2.weight"], ["c2"], "/conv2/Conv", kernel_shape=[1, 1]),
        node("Add", ["p", "c2"], ["s"], "/Add"),
        node("Conv", ["s", "conv3.weight"], ["y"], "/conv3/Conv", kernel_shape=[1, 1]),
    ], [tensor("x", ["batch", 2, "height", "width"])], [tensor("y", ["batch", 3, "h", "w"])], [
        weights("conv1.weight", 8, 2, 5, 5), weights("conv2.weight", 8, 8, 1, 1), weights("conv3.weight", 3, 8, 1, 1),
    ])


def any_size():
    """Images of any size to scores: convolutions and a mean over all pixels."""
    node = helper.make_node
    save("any_size", [
        node("Conv", ["image", "conv1.weight"], ["c1"], "/conv1/Conv", kernel_shape=[3, 3], pads=[1, 1, 1, 1]),
        node("Relu", ["c1"], ["r1"], "/Relu"),
        node("Conv", ["r1", "conv2.weight"], ["c2"], "/conv2/Conv", kernel_shape=[1, 1]),
        node("Relu", ["c2"], ["r2"], "/Relu_1"),
        node("GlobalAveragePool", ["r2"], ["g"], "/gap/GlobalAveragePool"),
        node("Flatten", ["g"], ["f"], "/Flatten", axis=1),
        node("Gemm", ["f", "fc.weight", "fc.bias"], ["scores"], "/fc/Gemm", transB=1),
    ], [tensor("image", ["batch", 3, "height", "width"])], [tensor("scores", ["batch", 2])], [
        weights("conv1.weight", 4, 3, 3, 3), weights("conv2.weight", 8, 4, 1, 1), weights("fc.weight", 2, 8),
        weights("fc.bias", 2),
    ])


def detector():
    """Image without a batch to the pixels with a score above 0: their number depends on the image."""
    node = helper.make_node
    save("detector", [
        node("Unsqueeze", ["image", "zero"], ["batch"], "/Unsqueeze"),
        node("Conv", ["batch", "conv1.weight"], ["c1"], "/conv1/Conv", kernel_shape=[3, 3], pads=[1, 1, 1, 1]),
        node("Relu", ["c1"], ["r1"], "/Relu"),
        node("Conv", ["r1", "conv2.weight"], ["c2"], "/conv2/Conv", kernel_shape=[1, 1]),
        node("Reshape", ["c2", "flat"], ["rows"], "/Reshape"),
        node("Transpose", ["rows"], ["pixels"], "/Transpose", perm=[1, 0]),
        node("Gather", ["pixels", "last"], ["score"], "/Gather", axis=1),
        node("Greater", ["score", "limit"], ["above"], "/Greater"),
        node("Compress", ["pixels", "above"], ["boxes"], "/Compress", axis=0),
        node("Compress", ["score", "above"], ["scores"], "/Compress_1", axis=0),
    ], [tensor("image", [3, "height", "width"])], [tensor("boxes", ["n", 5]), tensor("scores", ["n"])], [
        weights("conv1.weight", 4, 3, 3, 3), weights("conv2.weight", 5, 4, 1, 1),
        *(numpy_helper.from_array(np.array(v, t), name) for name, v, t in (
            ("zero", [0], np.int64), ("flat", [5, -1], np.int64), ("last", 4, np.int64), ("limit", 0, np.float32))),
    ])


def rows_of_digits():
    """The rows of an image as steps of two recurrent layers, with initial states as PyTorch writes them: slices of zeros of
    a computed batch.  A linear layer reads the last state of the second."""
    node = helper.make_node
    save("rows_of_digits", [
        node("Reshape", ["x", "steps"], ["r"], "/Reshape"),
        node("Transpose", ["r"], ["t"], "/Transpose", perm=[1, 0, 2]),
        node("Shape", ["t"], ["s"], "/Shape"),
        node("Gather", ["s", "one"], ["n"], "/Gather"),
        node("Concat", ["two", "n", "two"], ["size"], "/Concat", axis=0),
        node("ConstantOfShape", ["size"], ["zeros"], "/Zeros"),
        node("LSTM", ["t", "lstm.W", "lstm.R", "lstm.B", "", "zeros", "zeros"], ["h"], "/lstm/LSTM", hidden_size=2,
             direction="bidirectional"),
        node("Transpose", ["h"], ["u"], "/Transpose_1", perm=[0, 2, 1, 3]),
        node("Reshape", ["u", "flat"], ["v"], "/Reshape_1"),
        node("GRU", ["v", "gru.W", "gru.R", "gru.B"], ["", "last"], "/gru/GRU", hidden_size=4, linear_before_reset=1),
        node("Squeeze", ["last", "zero"], ["q"], "/Squeeze"),
        node("Gemm", ["q", "fc.weight", "fc.bias"], ["y"], "/fc/Gemm", transB=1),
    ], [tensor("x", ["batch", 1, 8, 8])], [tensor("y", ["batch", 10])], [
        weights("lstm.W", 2, 8, 8), weights("lstm.R", 2, 8, 2), weights("lstm.B", 2, 16),
        weights("gru.W", 1, 12, 4), weights("gru.R", 1, 12, 4), weights("gru.B", 1, 24),
        weights("fc.weight", 10, 4), weights("fc.bias", 10),
        *(numpy_helper.from_array(np.array(v, np.int64), name) for name, v in (
            ("steps", [-1, 8, 8]), ("zero", [0]), ("one", [1]), ("two", [2]), ("flat", [0, 0, 4]))),
    ])


def streaming():
    """A recurrent layer whose states are inputs and outputs of the model, for audio in pieces."""
    node = helper.make_node
    save("streaming", [
        node("GRU", ["x", "gru.W", "gru.R", "", "", "state"], ["h", "next"], "/gru/GRU", hidden_size=4),
        node("Squeeze", ["h", "one"], ["s"], "/Squeeze"),
        node("MatMul", ["s", "fc1.weight"], ["f"], "/fc1/MatMul"),
        node("MatMul", ["f", "fc2.weight"], ["y"], "/fc2/MatMul"),
    ], [tensor("x", ["length", "batch", 3]), tensor("state", [1, "batch", 4])],
        [tensor("y", ["length", "batch", 2]), tensor("next", [1, "batch", 4])], [
        weights("gru.W", 1, 12, 3), weights("gru.R", 1, 12, 4), weights("fc1.weight", 4, 6), weights("fc2.weight", 6, 2),
        numpy_helper.from_array(np.array([1]), "one"),
    ])


def many_inputs():
    """Twenty inputs and outputs, as language models with cached keys and values have."""
    names = [f"i{k}" for k in range(20)]
    save("many_inputs", [helper.make_node("MatMul", [n, "w"], ["o" + n], "m" + n) for n in names],
         [tensor(n, ["b", 2]) for n in names], [tensor("o" + n, ["b", 2]) for n in names], [weights("w", 2, 2)])
    np.savez_compressed(os.path.join(OUT, "many_inputs.npz"), **{
        n: np.sin(np.arange(32) * 0.7 + k).astype(np.float32).reshape(16, 2) for k, n in enumerate(names)})


for make in (any_size, detector, windows, tiny_cnn, tiny_text, tiny_bert, add, unknown_operator, exporter_habits, sliced_weight,
             padded_heads, rows_of_digits, streaming, many_inputs):
    make()
