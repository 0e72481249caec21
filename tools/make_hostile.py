#!/usr/bin/env python3
"""make_hostile.py - write the malicious and broken files of tests/hostile.

Run it from the project's folder after a change; its output is committed and deterministic.  Needs
only Python.  tests/hostile/cases.txt has the command and the expected error for each file.

A large file is written as NAME.rep, lines of "count hex": the bytes are repeated count times, and
## stands for the number of the repetition in six digits.  The test expands the file.
"""
import gzip
import math
import os
import struct
import sys
import zlib

OUT = sys.argv[1] if len(sys.argv) > 1 else "tests/hostile"
LARGEST = 10000
COUNT = b"\1?\2?\3?"  # placeholder of the same length for the number of the repetition


def put(name, data):
    if isinstance(data, list):  # (count, bytes)
        text = "".join("%d %s\n" % (n, b.hex().replace(COUNT.hex(), "##")) for n, b in data if b)
        name, data = name + ".rep", text.encode()
    data = data.encode() if isinstance(data, str) else data
    assert len(data) <= LARGEST, (name, len(data))
    with open(os.path.join(OUT, name), "wb") as f:
        f.write(data)


# ---- protobuf, encoded here because protobuf libraries refuse to write such files ------------------

def varint(v):
    v &= (1 << 64) - 1
    out = b""
    while v > 127:
        out += bytes([v & 127 | 128])
        v >>= 7
    return out + bytes([v])


def num(field, v):
    return varint(field << 3) + varint(v)


def blob(field, data):
    data = data.encode() if isinstance(data, str) else data
    return varint(field << 3 | 2) + varint(len(data)) + data


def f32(field, v):
    return varint(field << 3 | 5) + struct.pack("<f", v)


FLOAT, UINT8, INT64, STRING, BOOL, INT4 = 1, 2, 7, 8, 9, 22


def tensor(name, dims, raw=None, dtype=FLOAT, more=b""):
    t = b"".join(num(1, d) for d in dims) + num(2, dtype) + more
    if name:
        t += blob(8, name)
    return t + (blob(9, raw) if raw is not None else b"")


def external(name, dims, *pairs, dtype=FLOAT):
    entries = b"".join(blob(13, blob(1, k) + blob(2, v)) for k, v in pairs)
    return tensor(name, dims, None, dtype, entries + num(14, 1))


def value(name, dims=None, dtype=FLOAT):
    if dims is None:
        return blob(1, name)
    shape = b"".join(blob(1, num(1, d)) for d in dims)
    return blob(1, name) + blob(2, blob(1, num(1, dtype) + blob(2, shape)))


def attr(name, kind, body):
    return blob(5, blob(1, name) + body + num(20, kind))


def ints(name, *v):
    return attr(name, 7, b"".join(num(8, x) for x in v))


def int_(name, v):
    return attr(name, 2, num(3, v))


def node(op, ins, outs, attrs=b"", name="", domain=""):
    n = b"".join(blob(1, x) for x in ins) + b"".join(blob(2, x) for x in outs)
    n += blob(3, name) if name else b""
    return n + blob(4, op) + attrs + (blob(7, domain) if domain else b"")


def graph(nodes, inputs=(), outputs=(), inits=(), more=b""):
    g = b"".join(blob(1, n) for n in nodes) + blob(2, "g")
    g += b"".join(blob(5, t) for t in inits)
    g += b"".join(blob(11, v) for v in inputs) + b"".join(blob(12, v) for v in outputs)
    return g + more


def model(g, ir=8, opset=13, functions=(), more=b""):
    imports = blob(8, num(2, opset)) if opset else b""
    return num(1, ir) + blob(7, g) + imports + b"".join(blob(25, f) for f in functions) + more


def f32s(*v):
    return struct.pack("<%df" % len(v), *v)


def i64s(*v):
    return struct.pack("<%dq" % len(v), *v)


def simple(inits=(), nodes=None, **kw):
    """x -> Relu -> y, plus the given errors."""
    nodes = [node("Relu", ["x"], ["y"])] if nodes is None else nodes
    return model(graph(nodes, [value("x", [2])], [value("y", [2])], inits), **kw)


def times(n, b):
    """The bytes that a line of a .rep file expands to."""
    return b"".join(b.replace(COUNT, b"%06d" % i) for i in range(n))


def wire():
    good = simple()
    put("wire-empty.onnx", b"")
    put("wire-cut.onnx", good[:-9])
    put("wire-length.onnx", num(1, 8) + b"\x3a\xff\xff\xff\x7f" + b"xx")
    put("wire-length-64.onnx", num(1, 8) + b"\x3a" + b"\xff" * 9 + b"\x01" + b"xx")
    put("wire-endless-number.onnx", b"\x08" + b"\xff" * 24)
    put("wire-group.onnx", num(1, 8) + b"\x3b\x3c")
    put("wire-wrong-type.onnx", blob(1, "eight") + blob(7, graph([])))
    put("wire-packed.onnx", simple([blob(1, b"\x02\x80") + num(2, FLOAT) + blob(8, "w")]))
    put("wire-duplicate-field.onnx", good + blob(7, graph([])))
    put("wire-zero-byte.onnx", simple(nodes=[node("Re\0lu", ["x"], ["y"])]))
    put("wire-field-zero.onnx", num(1, 8) + b"\x02\x00")
    put("wire-no-graph.onnx", num(1, 8) + blob(8, num(2, 13)))
    g = graph([])
    for _ in range(60):  # each level is three messages
        g = graph([node("If", ["c"], ["y"], attr("then_branch", 5, blob(6, g)))])
    put("wire-nesting.onnx", model(g))
    t = num(1, FLOAT)
    for _ in range(120):  # sequences of sequences
        t = blob(4, blob(1, t))
    put("wire-nesting-type.onnx", model(graph([], [blob(1, "x") + blob(2, t)])))
    n = (1 << 24) + 1
    text = varint(2 << 3 | 2) + varint(n)
    put("wire-text.onnx", [(1, num(1, 8) + text), (n // 7, b"%producer"[:7]), (n % 7, b"x"),
                           (1, blob(7, graph([])))])
    k = 1000001
    put("graph-too-many-nodes.onnx", [(1, num(1, 8) + varint(7 << 3 | 2) + varint(2 * k)),
                                      (k, b"\x0a\x00")])
    k = 12000000
    put("wire-unpacked.onnx", [(1, num(1, 8) + varint(7 << 3 | 2) + varint(2 * k)),
                               (k, b"\x2a\x00")])
    put("not-zip.onnx", b"PK\3\4" + bytes(40))
    put("not-lfs.onnx", b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 9\n")


def graphs():
    put("graph-cycle.onnx", simple(nodes=[node("Relu", ["b"], ["a"]), node("Relu", ["a"], ["b"]),
                                          node("Add", ["x", "a"], ["y"])]))
    put("graph-undefined-input.onnx", simple(nodes=[node("Relu", ["ghost"], ["y"])]))
    put("graph-duplicate-output.onnx", simple(nodes=[node("Relu", ["x"], ["y"]),
                                                     node("Abs", ["x"], ["y"])]))
    put("graph-undefined-output.onnx", model(graph([], [value("x", [2])], [value("ghost", [2])])))
    put("graph-no-opset.onnx", simple(opset=0))
    put("graph-ir-version.onnx", simple(ir=1 << 40))
    put("graph-too-many-imports.onnx", simple(more=b"".join(
        blob(8, blob(1, "d%d" % i) + num(2, 1)) for i in range(200))))
    put("graph-too-many-attributes.onnx", simple(nodes=[node("Relu", ["x"], ["y"], b"".join(
        int_("a%d" % i, i) for i in range(257)))]))
    put("graph-duplicate-attribute.onnx", simple(nodes=[node(
        "Softmax", ["x"], ["y"], int_("axis", 0) + int_("axis", 1))]))
    put("graph-attribute-ref.onnx", simple(nodes=[node("Softmax", ["x"], ["y"], blob(
        5, blob(1, "axis") + blob(21, "outer") + num(20, 2)))]))
    put("graph-too-many-inputs.onnx", simple(nodes=[node("Relu", ["x"] * 400, ["y"])]))
    omitted = model(graph(  # the filter is omitted, but not the bias after it
        [node("Conv", ["x", "", "v"], ["c"]),
         node("BatchNormalization", ["c", "v", "v", "v", "v"], ["y"])],
        [value("x", [1, 2, 4, 4])], [value("y", [1, 2, 2, 2])], [tensor("v", [2], f32s(1, 2))]))
    put("graph-omitted-weight-quantize.onnx", omitted)
    put("graph-omitted-weight-speedup.onnx", omitted)
    put("graph-unknown-domain.onnx", simple(nodes=[node("system", ["x"], ["y"], domain="os")],
                                     more=blob(8, blob(1, "os") + num(2, 1))))
    fn = blob(1, "f") + blob(4, "x") + blob(5, "y") + blob(9, num(2, 13)) + blob(10, "mine")
    put("function-recursive.onnx", simple(
        nodes=[node("f", ["x"], ["y"], domain="mine")],
        functions=[fn + blob(7, node("f", ["x"], ["y"], domain="mine"))],
        more=blob(8, blob(1, "mine") + num(2, 1))))
    fs, names = [], ["f%d" % i for i in range(9)]
    for i, name in enumerate(names):  # 8 calls each, 9 levels: 134 million nodes
        call = names[i + 1] if i + 1 < len(names) else "Relu"
        dom = "mine" if i + 1 < len(names) else ""
        body = b""
        for k in range(8):
            body += blob(7, node(call, ["x" if not k else "t%d" % (k - 1)],
                                 ["y" if k == 7 else "t%d" % k], domain=dom))
        fs.append(blob(1, name) + blob(4, "x") + blob(5, "y") + body + blob(9, num(2, 13)) +
                  blob(9, blob(1, "mine") + num(2, 1)) + blob(10, "mine"))
    put("function-bomb.onnx", simple(nodes=[node("f0", ["x"], ["y"], domain="mine")], functions=fs,
                                     more=blob(8, blob(1, "mine") + num(2, 1))))
    # A string of 16 MB in a function that is called 20 times.
    n = 16000000
    fn = (blob(1, "f") + blob(4, "x") + blob(5, "y") + blob(9, num(2, 13)) + blob(10, "mine") +
          blob(7, node("Relu", ["x"], ["y"])) + varint(8 << 3 | 2) + varint(n))
    calls = graph([node("f", ["x"], ["y%d" % i], domain="mine") for i in range(20)],
                  [value("x", [2])], [value("y0", [2])])
    put("function-bytes.onnx", [(1, model(calls, more=blob(8, blob(1, "mine") + num(2, 1))) +
                                 varint(25 << 3 | 2) + varint(len(fn) + n) + fn), (n, b"d")])
    # Strings that are printed in error messages: CVE-2024-27319 read beyond the end of one.
    put("text-long.onnx", simple(nodes=[node("O" * 1500, ["x" * 1500], ["y" * 1500],
                                             name="n" * 1000)]))
    put("text-format.onnx", simple(nodes=[node("%s%n%x%1000000d", ["%s%s%s%n"], ["y"],
                                               name="%n")]))
    put("text-terminal.onnx", simple(nodes=[node("Relu", ["\x1b[2J\x07\r\n\x7f"], ["y"])]))
    put("text-utf8.onnx", simple(nodes=[blob(1, b"\xff\xfe") + node("Relu", [], ["y"])]))


def tensors():
    big = 1 << 32
    put("tensor-overflow.onnx", simple([tensor("w", [big, big], b"")]))
    put("tensor-overflow-to-zero.onnx", simple([tensor("w", [big, big, 4], f32s(1))]))
    put("tensor-overflow-small.onnx", simple([tensor("w", [(1 << 62) + 1, 4], f32s(1, 2, 3, 4))]))
    put("tensor-negative.onnx", simple([tensor("w", [-1, -4], f32s(1, 2, 3, 4))]))
    put("tensor-elements.onnx", simple([tensor("w", [1 << 20, (1 << 20) + 1], b"x")]))
    put("tensor-rank.onnx", model(graph([node("Add", ["x", "w"], ["y"])], [value("x", [2])],
                                        [value("y", [2])], [tensor("w", [1] * 9, f32s(1))])))
    put("tensor-short.onnx", simple([tensor("w", [1 << 30], f32s(1, 2))]))
    put("tensor-long.onnx", simple([tensor("w", [1], f32s(1, 2))]))
    put("tensor-short-float-data.onnx", simple([tensor("w", [1 << 30], None, FLOAT, f32(4, 1.0))]))
    put("tensor-unknown-type.onnx", model(graph([node("Add", ["x", "w"], ["y"])], [value("x", [2])],
                                        [value("y", [2])], [tensor("w", [1], b"1234", 99)])))
    put("tensor-int4.onnx", simple([tensor("w", [5], b"12", INT4)]))
    put("tensor-text-raw.onnx", model(graph([node("Identity", ["w"], ["y"])], [],
                                            [value("y", [1], STRING)],
                                            [tensor("w", [1], b"12345678", STRING)])))
    put("tensor-no-name.onnx", simple([tensor("", [1], f32s(1))]))

    def sparse(dims, values, idx, n=1):
        return blob(15, blob(1, tensor("s", [n], values)) + blob(2, tensor("i", [n], idx, INT64)) +
                    b"".join(num(3, d) for d in dims))
    use = [node("Add", ["x", "s"], ["y"])]
    put("sparse-bomb.onnx", model(graph(use, [value("x", [1])], [value("y", [1])], (),
                                        sparse([1 << 30], f32s(1), i64s(5)))))
    put("sparse-outside.onnx", model(graph(use, [value("x", [1])], [value("y", [1])], (),
                                           sparse([4], f32s(1), i64s(1 << 40)))))
    put("sparse-overflow.onnx", model(graph(use, [value("x", [1])], [value("y", [1])], (),
                                            sparse([big, big], f32s(1), i64s(5)))))


def running():
    """Valid files that need too much memory or have impossible sizes when they run."""
    def run(name, op, inits, attrs=b"", ins=None, dtype=FLOAT, dims=(2,)):
        ins = ins or ["x"] + [t for t, _ in inits]
        put(name, model(graph([node(op, ins, ["y"], attrs)], [value("x", dims, dtype)],
                              [value("y")], [t for _, t in inits])))

    def shape(*v):
        return [("s", tensor("s", [len(v)], i64s(*v), INT64))]
    run("run-expand.onnx", "Expand", shape(1 << 37, 2))
    run("run-expand-overflow.onnx", "Expand", shape(1 << 40, 1 << 40, 2))
    run("run-tile.onnx", "Tile", shape(1 << 62))
    run("run-reshape.onnx", "Reshape", shape(3, -1))
    run("run-reshape-overflow.onnx", "Reshape", shape(1 << 62, 1 << 62))
    run("run-pad.onnx", "Pad", shape(1 << 62, 1 << 62))
    run("run-gather.onnx", "Gather", [("i", tensor("i", [1], i64s(1 << 60), INT64))])
    run("run-gather-below.onnx", "Gather", [("i", tensor("i", [1], i64s(-3), INT64))])
    run("run-onehot.onnx", "OneHot", [("d", tensor("d", [1], i64s(1 << 61), INT64)),
                                      ("v", tensor("v", [2], f32s(0, 1)))], dtype=INT64)
    run("run-slice-step.onnx", "Slice", [(n, tensor(n, [1], i64s(v), INT64)) for n, v in
                                         (("b", 0), ("e", 1 << 62), ("a", 0), ("p", 0))])
    run("run-conv.onnx", "Conv", [("w", tensor("w", [1, 1, 3, 3], f32s(*range(9))))],
        ints("pads", 1 << 62, 1 << 62, 1 << 62, 1 << 62), dims=(1, 1, 4, 4))
    run("run-conv-dilation.onnx", "Conv", [("w", tensor("w", [1, 1, 3, 3], f32s(*range(9))))],
        ints("dilations", 1 << 62, 1 << 62), dims=(1, 1, 4, 4))
    run("run-pool.onnx", "MaxPool", [], ints("kernel_shape", 0, 0), dims=(1, 1, 4, 4))
    run("run-split.onnx", "Split", [("s", tensor("s", [1], i64s(-5), INT64))])
    put("run-constant-of-shape.onnx", model(graph(
        [node("ConstantOfShape", ["s"], ["c"]), node("Add", ["x", "c"], ["y"])],
        [value("x", [2])], [value("y")], [t for _, t in shape(1 << 38, 2)])))
    put("run-range.onnx", model(graph(
        [node("Range", ["a", "b", "c"], ["r"]), node("Add", ["x", "r"], ["y"])],
        [value("x", [1], INT64)], [value("y")],
        [tensor(n, [], i64s(v), INT64) for n, v in
         (("a", 0), ("b", (1 << 63) - 1), ("c", 1))])))


def empty_tensors():
    """Tensors with billions of rows and no elements, which must not take memory either."""
    many = 1 << 31

    def one(name, op, x, inits=(), attrs=b"", outs=("y",), opset=13):
        put(name, model(graph([node(op, ["x"] + [n for n, _ in inits], outs, attrs)],
                              [value("x", x)], [value(o) for o in outs],
                              [tensor(n, d, f32s(*[1] * math.prod(d))) for n, d in inits]),
                        opset=opset))
    put("empty-concat.onnx", model(graph(
        [node("Concat", ["x", "x"], ["y"], int_("axis", 1))], [value("x", [1 << 35, 0])],
        [value("y")])))
    one("empty-det.onnx", "Det", [0, 1 << 20, 1 << 20])
    one("empty-norm.onnx", "LayerNormalization", [0, many], [("s", [1])], opset=17)
    one("empty-rnn.onnx", "RNN", [0, many, 2], [("w", [1, 3, 2]), ("r", [1, 3, 3])],
        int_("hidden_size", 3))
    one("empty-unique.onnx", "Unique", [0, many, 0], (), int_("axis", 1), ("y", "i"))


def folding():
    """Constants of a few bytes that constant folding could expand to gigabytes."""
    def sum_of(name, nodes, inits):
        put(name, model(graph(nodes + [node("ReduceMax", ["c"], ["m"], int_("keepdims", 0)),
                                       node("Add", ["x", "m"], ["y"])],
                              [value("x", [2])], [value("y")], inits)))

    def shape(n):
        return tensor("n", [1], i64s(n), INT64)
    sum_of("fold-shape.onnx", [node("ConstantOfShape", ["n"], ["c"])], [shape(1 << 28)])
    sum_of("fold-tile.onnx", [node("Tile", ["t", "n"], ["c"])],
           [shape(1 << 22), tensor("t", [64], f32s(*range(64)))])
    much = graph([node("ConstantOfShape", ["n"], ["b"])], (), [value("b")])
    sum_of("fold-if.onnx", [node("If", ["q"], ["c"], attr("then_branch", 5, blob(6, much)) +
                                 attr("else_branch", 5, blob(6, much)))],
           [shape(1 << 28), tensor("q", [], b"\1", BOOL)])
    sum_of("fold-unique.onnx", [node("ConstantOfShape", ["n"], ["o"]),
                                node("Unique", ["o"], ["c"])], [shape(1 << 25)])


def bodies():
    """Endless loops, loops whose state grows, and long sequences."""
    def loop(name, nodes, ins, inits=(), last="y", x=(2,)):
        inner = graph(nodes, [value("i", [], INT64), value("go", [], BOOL), value("s")],
                      [value("more", [], BOOL), value("t")])
        put(name, model(graph([node("Loop", ins, ["z"], attr("body", 5, blob(6, inner))),
                               node("Identity", ["z"], [last])],
                              [value("x", list(x))], [value(last)], inits), opset=13))
    keep, step = node("Identity", ["go"], ["more"]), node("Neg", ["s"], ["t"])
    count, yes = tensor("n", [], i64s(1 << 62), INT64), tensor("q", [], b"\1", BOOL)
    loop("loop-endless.onnx", [keep, step], ["", "", "x"])
    loop("loop-fold.onnx", [keep, step], ["n", "q", "c"], [count, yes, tensor("c", [1], f32s(1))])
    grow = node("Concat", ["s", "s"], ["t"], int_("axis", 0))
    loop("loop-grow.onnx", [keep, grow], ["n", "", "x"], [count])
    loop("loop-fold-grow.onnx", [keep, grow], ["n", "", "c"], [count, tensor("c", [1], f32s(1))])
    put("sequence-long.onnx", model(graph(
        [node("SplitToSequence", ["x"], ["s"]), node("SequenceLength", ["s"], ["y"])],
        [value("x", [(1 << 16) + 1])], [value("y", [], INT64)])))


def recipes():
    """A recipe whose run record is a pipe."""
    put("resume-pipe.json", '{"model": "m.onnx", "data": "digits", "output": "o.onnx",\n "steps": '
        '[{"step": "prune", "sparsity": 0.5}]}\n')


def choices():
    """Files of tuning choices (--choices)."""
    put("choices-binary.txt", bytes(range(256)))
    put("choices-escape.txt", b"conv_1x1_packed\tConv \x1b[2J\n")
    put("choices-long-line.txt", [(1, b"conv_1x1_packed\t"), (8192, b"k"), (1, b"\n")])
    put("choices-too-many-lines.txt", [(20001, b"conv_1x1_packed\tk" + COUNT + b"\n")])
    put("choices-long-name.txt", b"n" * 65 + b"\tConv\n")
    put("choices-zero-byte.txt", b"conv_1x1_packed\0\tConv\nconv_depthwise\tConv\n")


def external_data():
    """External data: files must be beneath the model's folder and have the declared size."""
    def put_at(name, *pairs, dims=(4,)):
        put(name, simple([external("w", dims, *pairs)]))

    def at(name, location, **kw):
        put_at(name, ("location", location), **kw)
    at("external-parent-folder.onnx", "../victim.bin")
    at("external-parent-of-subfolder.onnx", "junk/../../victim.bin")
    at("external-absolute.onnx", "/etc/passwd")
    at("external-backslash.onnx", "..\\victim.bin")
    at("external-link.onnx", "w.bin")
    at("external-link-folder.onnx", "sub/victim.bin")
    at("external-proc.onnx", "/proc/self/environ")
    at("external-hard-link.onnx", "w.bin")
    at("external-pipe.onnx", "w.bin")
    at("external-folder.onnx", ".")
    at("external-missing.onnx", "w.bin")
    at("external-long-name.onnx", "n" * 300)
    at("external-too-large.onnx", "w.bin")
    put_at("external-offset.onnx", ("location", "w.bin"), ("offset", "17"))
    put_at("external-overflow.onnx", ("location", "w.bin"), ("offset", str((1 << 64) - 4)),
           ("length", "16"))
    put_at("external-length.onnx", ("location", "w.bin"), ("length", str(1 << 62)))
    put_at("external-allocation.onnx", ("location", "w.bin"), dims=(1 << 38,))
    put_at("external-negative.onnx", ("location", "w.bin"), ("offset", "-1"))
    put_at("external-number.onnx", ("location", "w.bin"), ("length", "0x10"))
    put_at("external-huge-number.onnx", ("location", "w.bin"), ("length", "9" * 40))
    put_at("external-duplicate-key.onnx", ("location", "w.bin"), ("location", "../victim.bin"))
    put_at("external-unknown-keys.onnx", ("__class__", "x"), ("basepath", "/etc"),
           ("tensor", "9" * 30))
    put_at("external-short.onnx", ("location", "w.bin"), ("length", "8"))
    # 820 files, each named in 20 ways: 16,400.
    w = [blob(5, external("%c%s" % (97 + i, COUNT.decode()), [1],
                          ("location", "./" * i + "w" + COUNT.decode()))) for i in range(20)]
    g = graph([node("Relu", ["x"], ["y"])], [value("x", [2])], [value("y", [2])])
    put("external-too-many-files.onnx", [(1, num(1, 8) + blob(8, num(2, 13)) + varint(7 << 3 | 2) +
                                 varint(len(g) + 820 * sum(map(len, w))) + g)] +
        [(820, x) for x in w])
    for name in ("external-cut", "external-cut-save"):
        put(name + ".onnx", model(graph([node("MatMul", ["x", "w"], ["y"])], [value("x", [1, 256])],
                                        [value("y")],
                                        [external("w", [256, 16], ("location", "cut.bin"))])))
    conv = [node("Conv", ["x", "w"], ["y"])]
    for name, location in (("save-parent-folder.onnx", "../victim.bin"),
                           ("save-over-weights.onnx", "w.onnx")):
        put(name, model(graph(conv, [value("x", [1, 1, 3, 3])], [value("y")],
                              [external("w", [2, 1, 3, 3], ("location", location))])))
    put("save-link.onnx", model(graph(conv, [value("x", [1, 1, 3, 3])], [value("y")],
                                      [tensor("w", [2, 1, 3, 3], bytes(range(72)))])))


# ---- zip ----------------------------------------------------------------------------------------

def crc(data):
    return zlib.crc32(data) & 0xffffffff


class Entry:
    """A file in a zip archive; keyword arguments replace fields of its header by wrong values."""

    def __init__(self, name, data, deflate=False, **wrong):
        self.name = name.encode()
        c = zlib.compressobj(9, zlib.DEFLATED, -15)
        self.body = c.compress(data) + c.flush() if deflate else data
        self.method = 8 if deflate else 0
        self.crc, self.size, self.packed, self.flags = crc(data), len(data), len(self.body), 0
        self.extra, self.at = b"", None
        self.__dict__.update(wrong)

    def common(self):
        return struct.pack("<HHHHHIIIHH", 20, self.flags, self.method, 0, 0x21, self.crc,
                           self.packed & 0xffffffff, self.size & 0xffffffff, len(self.name),
                           len(self.extra))

    def local(self):
        return b"PK\3\4" + self.common() + self.name + self.extra + self.body

    def line(self, at):
        return (b"PK\1\2" + struct.pack("<H", 20) + self.common() + bytes(6) + bytes(4) +
                struct.pack("<I", at if self.at is None else self.at) + self.name + self.extra)


def end(n, size, at):
    return b"PK\5\6" + struct.pack("<HHHHIIH", 0, 0, n, n, size, at, 0)


def archive(*entries):
    out, lines = b"", b""
    for e in entries:
        lines += e.line(len(out))
        out += e.local()
    return out + lines + end(len(entries), len(lines), len(out))


def npy(header, data=b"", version=1, length=None):
    head = header.encode()
    n = len(head) if length is None else length
    return b"\x93NUMPY" + bytes([version, 0]) + struct.pack("<H" if version == 1 else "<I", n) + \
        head + data


def array(shape, descr="<f4", data=b""):
    return npy("{'descr': '%s', 'fortran_order': False, 'shape': %s, }" % (descr, shape), data)


def numpy_files():
    one = array("(1,)", data=f32s(1))
    put("npy-magic.npy", b"\x93NUMPX" + one[6:])
    put("npy-header.npy", npy("{", version=2, length=0xfffffff0))
    put("npy-header-limit.npy", [(1, b"\x93NUMPY\2\0" + struct.pack("<I", 65537)), (65537, b" ")])
    put("npy-overflow.npy", array("(4294967296, 4294967296, 4294967296)", data=f32s(1)))
    put("npy-dimension.npy", array("(%s,)" % ("9" * 40), data=f32s(1)))
    put("npy-negative.npy", array("(-1,)", data=f32s(1)))
    put("npy-rank.npy", array("(%s)" % ("1," * 9), data=f32s(1)))
    put("npy-object.npy", array("(1,)", "|O", b"\x80\x04cos\nsystem\n."))
    put("npy-short.npy", array("(1073741824,)", data=f32s(1)))
    put("npy-code.npy", npy("{'descr': __import__('os').system('id'), 'shape': (1,), }", f32s(1)))
    put("npy-duplicate-key.npy", npy("{'shape': (1,), 'shape': (2,), 'descr': '<f4', "
                             "'fortran_order': False}", f32s(1)))

    put("npz-parent-folder.npz", archive(Entry("../../x.npy", one)))
    put("npz-absolute.npz", archive(Entry("/tmp/x.npy", one)))
    put("npz-backslash.npz", archive(Entry("..\\x.npy", one)))
    put("npz-duplicate-entry.npz", archive(Entry("x.npy", one), Entry("x.npy", one)))
    put("npz-check-sum.npz", archive(Entry("x.npy", one, crc=1)))
    put("npz-encrypted.npz", archive(Entry("x.npy", one, flags=1)))
    put("npz-method.npz", archive(Entry("x.npy", one, method=14)))
    put("npz-ratio.npz", archive(Entry("x.npy", one, True, size=0x7fffffff)))
    put("npz-size.npz", archive(Entry("x.npy", one, size=0x7fffffff, packed=0x7fffffff)))
    huge = struct.pack("<HHQQ", 1, 16, 1 << 60, 1 << 60)
    put("npz-zip64.npz", archive(Entry("x.npy", one, size=0xffffffff, packed=0xffffffff,
                                       extra=huge)))
    e = Entry("a.npy", one + bytes(300))
    lines = b"".join(Entry(n, one + bytes(300)).line(0) for n in
                     ("a.npy", "b.npy", "c.npy", "d.npy"))
    put("npz-overlap.npz", e.local() + lines + end(4, len(lines), len(e.local())))
    put("npz-size-too-small.npz", archive(Entry("x.npy", bytes(5000), True, size=10)))
    put("npz-not-numpy.npz", archive(Entry("x.txt", b"hello")))
    put("npz-short-array.npz", archive(Entry("x.npy", array("(1073741824,)", data=f32s(1)), True)))
    put("npz-cut.npz", archive(Entry("x.npy", one))[:-10])
    put("npz-empty.npz", b"PK")
    n = 65537
    line = Entry("x.npy", b"").line(0)
    head = Entry("x.npy", b"").local()
    tail = (b"PK\6\6" + struct.pack("<QHHIIQQQQ", 44, 45, 45, 0, 0, n, n, n * len(line), len(head)) +
            b"PK\6\7" + struct.pack("<IQI", 0, len(head) + n * len(line), 1) +
            b"PK\5\6" + struct.pack("<HHHHIIH", 0, 0, 0xffff, 0xffff, 0xffffffff, 0xffffffff, 0))
    put("npz-entries.npz", [(1, head), (n, line), (1, tail)])
    # 3 MB of deflate data that claim to expand to 3 GB.
    size, n = 0xc0000000, 0xc0000000 // 1000
    head = Entry("x.npy", b"", True, size=size, packed=n, body=b"")
    line = head.line(0)
    put("npz-growth.npz", [(1, head.local()), (n, b"\0"), (1, line),
                           (1, end(1, len(line), len(head.local()) + n))])


# ---- pickles -------------------------------------------------------------------------------------

def text(s):
    return b"X" + struct.pack("<I", len(s)) + s.encode()


def store(key="0", kind="FloatStorage", n=4):
    """The pickled persistent id of a storage."""
    return (b"(" + text("storage") + b"ctorch\n" + kind.encode() + b"\n" + text(key) + text("cpu") +
            b"J" + struct.pack("<I", n) + b"tQ")


def long(v):
    b = v.to_bytes(8, "little", signed=True)
    return b"\x8a\x08" + b


def a_tensor(storage, offset, dims, strides):
    def tup(v):
        return b"(" + b"".join(long(x) for x in v) + b"t"
    return (b"ctorch._utils\n_rebuild_tensor_v2\n(" + storage + long(offset) + tup(dims) +
            tup(strides) + b"\x89ccollections\nOrderedDict\n)RtR")


def state(body):
    return b"\x80\x02}(" + text("w") + body + b"u."


def pth(pickle, *more, packed=False, root="archive"):
    return archive(Entry(root + "/data.pkl", pickle, packed),
                   *[Entry(root + "/data/" + k, d) for k, d in more])


def torch_files():
    four = ("0", f32s(1, 2, 3, 4))
    put("pth-system.pth", pth(b"\x80\x02cos\nsystem\n" + text("touch ../owned") + b"\x85R."))
    put("pth-posix.pth", pth(b"\x80\x04\x8c\x05posix\x8c\x06system\x93" + text("touch ../owned") +
                             b"\x85R."))
    put("pth-eval.pth", pth(state(b"cbuiltins\neval\n" + text("__import__('os')") + b"\x85R")))
    put("pth-getattr.pth", pth(state(b"cbuiltins\ngetattr\n(" + text("a") + text("b") + b"tR")))
    put("pth-torch-load.pth", pth(state(b"ctorch.serialization\nload\n" + text("x") + b"\x85R")))
    put("pth-inst.pth", pth(b"\x80\x02(S'id'\nios\nsystem\n."))
    put("pth-instance.pth", pth(b"\x80\x02(" + text("id") + b"ios\nsystem\n."))
    put("pth-object.pth", pth(b"\x80\x02(cos\nsystem\n" + text("id") + b"o."))
    put("pth-newobj.pth", pth(b"\x80\x02ccollections\nOrderedDict\n)\x81."))
    put("pth-extension.pth", pth(b"\x80\x02\x82\x01."))
    put("pth-opcode.pth", pth(b"\x80\x02\xff."))
    put("pth-call-storage.pth", pth(b"\x80\x02ctorch\nFloatStorage\n)R."))
    put("pth-protocol.pth", pth(b"\x80\xff}."))
    put("pth-memo.pth", pth(b"\x80\x02}r\xff\xff\xff\xff."))
    put("pth-memo-missing.pth", pth(b"\x80\x02j\xff\xff\xff\x7f."))
    put("pth-no-stop.pth", pth(b"\x80\x02}"))
    put("pth-underflow.pth", pth(b"\x80\x02s."))
    put("pth-text.pth", pth(b"\x80\x02X\xff\xff\xff\xffabc."))
    put("pth-long.pth", pth(b"\x80\x02\x8a\xff" + b"\xff" * 255 + b"."))
    deep = b"\x80\x02" + (b"}" + text("k")) * 40 + b"}" + b"s" * 40 + b"."
    put("pth-deep.pth", pth(deep))
    put("pth-recursive.pth", pth(b"\x80\x02]q\0h\0a."))
    # Each pair contains the previous pair twice, 28 levels: 2^28 names.
    shared = b"\x80\x02](]q\0" + b"".join(b"h%ch%c\x86q%c" % (i, i, i + 1)
                                          for i in range(28)) + b"e."
    put("pth-shared.pth", pth(shared))
    put("pth-objects.pth", pth(b"\x80\x02]" + b"]a" * ((1 << 20) + 1) + b".", packed=True))
    put("pth-stack.pth", pth(b"\x80\x02" + b"N" * ((1 << 20) + 1) + b".", packed=True))
    put("pth-beyond-storage.pth", pth(state(a_tensor(store(), 1, [4], [1])), four))
    put("pth-strides.pth", pth(state(a_tensor(store(), 0, [1 << 40, 1 << 40], [1 << 40, 1])), four))
    put("pth-stride-overflow.pth", pth(state(a_tensor(store(), 0, [3, 2],
                                                      [(1 << 63) - 1, 1])), four))
    put("pth-stride-bomb.pth", pth(state(a_tensor(store(), 0, [1 << 31, 2], [0, 1])), four))
    put("pth-negative.pth", pth(state(a_tensor(store(), -1, [1], [1])), four))
    put("pth-rank.pth", pth(state(a_tensor(store(), 0, [1] * 9, [1] * 9)), four))
    put("pth-storage-size.pth", pth(state(a_tensor(store(n=1 << 30), 0, [1 << 29], [1])), four))
    put("pth-storage-missing.pth", pth(state(a_tensor(store("7"), 0, [4], [1])), four))
    put("pth-storage-key.pth", pth(state(a_tensor(store("../../etc/passwd"), 0, [4], [1])), four))
    put("pth-storage-long.pth", pth(state(a_tensor(store("k" * 33), 0, [4], [1])),
                                    ("k" * 33, f32s(1, 2, 3, 4))))
    put("pth-storage-conflict.pth", pth(b"\x80\x02}(" + text("a") + a_tensor(store(), 0, [4], [1]) +
                                   text("b") + a_tensor(store(n=5), 0, [4], [1]) + b"u.", four))
    put("pth-duplicate-name.pth", pth(b"\x80\x02}(" + text("a") + a_tensor(store(), 0, [4], [1]) +
                             text("a") + a_tensor(store(), 0, [4], [1]) + b"u.", four))
    put("pth-name.pth", pth(b"\x80\x02}(" + text("n" * 1500) + a_tensor(store(), 0, [4], [1]) +
                            b"u.", four))
    put("pth-parent-folder.pth", pth(state(a_tensor(store(), 0, [4], [1])), four, root="../up"))
    put("pth-byte-order.pth", archive(Entry("a/data.pkl", b"\x80\x02}."),
                                      Entry("a/byteorder", b"big")))
    put("pth-script.pth", archive(Entry("a/data.pkl", b"\x80\x02}."),
                                  Entry("a/code/__torch__.py", b"import os")))
    put("pth-legacy.pth", bytes.fromhex("80028a0a6cfc9c46f9206aa85019") + b".\x80\x02M\xe9\x03.")
    n, many = 65537, store(COUNT.decode(), n=0) + b"a"
    pickle = b"\x80\2]" + times(n, many) + b"."
    e = Entry("a/data.pkl", pickle, body=b"")
    line = Entry("a/data.pkl", pickle).line(0)
    e.packed = len(pickle)
    put("pth-too-many-storages.pth", [(1, e.local() + b"\x80\2]"), (n, many), (1, b"." + line),
                             (1, end(1, len(line), len(e.local()) + len(pickle)))])
    n = (1 << 24) + 1
    e = Entry("a/data.pkl", b"", size=n, packed=n, body=b"")
    line = e.line(0)
    put("pth-pickle.pth", [(1, e.local()), (n, b"]"), (1, line),
                           (1, end(1, len(line), len(e.local()) + n))])


def safetensors():
    def st(header, data=b"", length=None):
        h = header.encode() if isinstance(header, str) else header
        return struct.pack("<Q", len(h) if length is None else length) + h + data

    def t(begin, stop, shape="[1]", dtype="F32", name="w"):
        return '"%s":{"dtype":"%s","shape":%s,"data_offsets":[%s,%s]}' % (name, dtype, shape, begin,
                                                                         stop)

    def put_at(name, *tensors, data=f32s(1, 2)):
        put(name, st("{" + ",".join(tensors) + "}", data))
    put("st-length.safetensors", st("{}", length=(1 << 64) - 1))
    put("st-header.safetensors", st("{}", length=1 << 20))
    n = (1 << 25) + 1
    put("st-header-limit.safetensors", [(1, struct.pack("<Q", n) + b"{"), (n, b" ")])
    n, entry = 262145, b'"' + COUNT + b'":0,'
    put("st-entries.safetensors", [(1, struct.pack("<Q", n * len(entry) + 7) + b"{"), (n, entry),
                                   (1, b'"x":0}')])
    put("st-short.safetensors", b"\2\0\0\0\0\0\0")
    put_at("st-overlap.safetensors", t(0, 4), t(0, 4, name="v"))
    put_at("st-hole.safetensors", t(4, 8))
    put_at("st-outside.safetensors", t(8, 12))
    put_at("st-negative.safetensors", t(-4, 0))
    put_at("st-backwards.safetensors", t(8, 4))
    put_at("st-trailing-data.safetensors", t(0, 4))
    put_at("st-huge-offset.safetensors", t(0, 1 << 62))
    put_at("st-number.safetensors", t(0, "1" + "0" * 30))
    put_at("st-overflow.safetensors", t(0, 8, "[4294967296,4294967296,4294967296]"))
    put_at("st-shape.safetensors", t(0, 8, "[-1,-2]"))
    put_at("st-rank.safetensors", t(0, 4, "[1,1,1,1,1,1,1,1,1]"))
    put_at("st-dtype.safetensors", t(0, 8, "[1]", "X99"))
    put_at("st-duplicate-name.safetensors", t(0, 4), t(4, 8))
    put_at("st-bool.safetensors", t(0, 8, "[8]", "BOOL"))
    put("st-utf8.safetensors", st(b'{"\xff\xfe":1}'))
    put("st-deep.safetensors", st('{"w":' + "[" * 2500 + "]" * 2500 + "}"))
    put("st-list.safetensors", st("[1]"))


def json_files():
    entry = '"sparsity": 0.5, "op_types": ["default"]'
    put("config-deep.json", "[" * 65 + "]" * 65)
    put("config-deeper.json", "[" * 3000)
    put("config-duplicate-key.json", '[{%s, "sparsity": 0.9}]' % entry)
    put("config-number.json", '[{"sparsity": 1e999, "op_types": ["default"]}]')
    put("config-integer.json", '[{"sparsity": 123456789012345678901234567890, '
                               '"op_types": ["default"]}]')
    put("config-nan.json", '[{"sparsity": NaN, "op_types": ["default"]}]')
    put("config-utf8.json", b'[{"op_types": ["\xff\xfe"]}]')
    put("config-zero-byte.json", '[{"op_types": ["a\\u0000b"]}]')
    put("config-surrogate.json", '[{"op_types": ["\\ud800"]}]')
    put("config-cut.json", '[{"op_types": ["default')
    put("config-trailing-data.json", "[{%s}] [1]" % entry)
    put("config-slow-regex.json", '[{"sparsity": 0.5, "op_names": ["re:%s"]}]' % ("(a*)*" * 200))
    put("config-too-many-keys.json", "[{%s}]" % ",".join('"%x":1' % i for i in range(1001)))
    put("config-size.json", [(1, b"["), (1 << 20, b" "), (1, b"]")])
    put("recipe-deep.json", '{"steps": ' + "[" * 70 + "]" * 70 + "}")
    put("recipe-duplicate-key.json", '{"model": "a.onnx", "model": "b.onnx", "steps": []}')
    put("recipe-utf8.json", b'{"model": "\xc0\xaf.onnx", "steps": []}')
    put("recipe-number.json", '{"model": "a.onnx", "seed": 1e400, "steps": []}')
    put("recipe-list.json", "[1, 2, 3]")


# ---- data ----------------------------------------------------------------------------------------

def png(w, h, bits=8, color=2, data=b"", more=b"", cut=None):
    def chunk(kind, body):
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", crc(kind + body))
    out = (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", w, h, bits, color, 0, 0,
                                                             0)) +
           more + chunk(b"IDAT", data) + chunk(b"IEND", b""))
    return out[:cut]


def jpeg(w, h, scans=b"", progressive=False):
    def part(mark, body):
        return b"\xff" + bytes([mark]) + struct.pack(">H", len(body) + 2) + body
    frame = struct.pack(">BHHB", 8, h, w, 1) + b"\1\x11\0"
    # A Huffman code of one bit for the symbol 0: difference 0 for DC, "end of block" for AC.
    codes = bytes([1] + [0] * 15) + b"\0"
    return (b"\xff\xd8" + part(0xdb, b"\0" + b"\1" * 64) +
            part(0xc2 if progressive else 0xc0, frame) + part(0xc4, b"\0" + codes) +
            part(0xc4, b"\x10" + codes) + scans + b"\xff\xd9")


def scan(first, last, high=0, low=0, body=b"\x00"):
    return (b"\xff\xda" + struct.pack(">H", 8) + b"\1\1\0" +
            bytes([first, last, high << 4 | low]) + body)


def data_files():
    row = zlib.compress(b"\0" + bytes(9))
    put("png-pixels.png", png(100000, 100000, data=row))
    put("png-limit.png", png(8193, 8192, data=row))
    put("png-zero-width.png", png(0, 4, data=row))
    put("png-cut.png", png(3, 1, data=row, cut=45))
    put("png-short.png", png(3, 3, data=row))
    put("png-check-sum.png", png(3, 1, data=row)[:40] + b"\0" + png(3, 1, data=row)[41:])
    put("png-deflate.png", png(3, 1, data=b"\x78\x9c\xff\xff\xff\xff"))
    put("png-bits.png", png(3, 1, bits=77, data=row))
    put("png-chunk.png", png(3, 1, data=row)[:33] + b"\x7f\xff\xff\xffIDATxx")
    put("jpeg-pixels.jpg", jpeg(65500, 65500, scan(0, 63)))
    put("jpeg-cut.jpg", jpeg(64, 64, scan(0, 63))[:60])
    put("jpeg-zero-size.jpg", jpeg(0, 0, scan(0, 63)))
    put("jpeg-scans.jpg", jpeg(16, 16, scan(0, 0) + scan(1, 63) * 200, True))
    put("jpeg-cut-scan.jpg", jpeg(512, 512, scan(0, 63, body=b""))[:-2])

    def idx(kind, dims, data=b"", rank=None):
        return (bytes([0, 0, kind, len(dims) if rank is None else rank]) +
                b"".join(struct.pack(">I", d) for d in dims) + data)
    full = 0xffffffff
    put("idx-overflow.idx", idx(8, [full] * 8, b"x"))
    put("idx-overflow-small.idx", idx(0x0e, [0x80000000, 0x80000000, 4], bytes(8)))
    put("idx-rank-ubyte.gz", idx(8, [1], b"x", 255))
    put("idx-short.idx", idx(8, [60000, 28, 28], bytes(10)))
    put("idx-type-ubyte.gz", idx(0x77, [1], b"x"))
    put("idx-cut.idx", idx(8, [3, 3, 3])[:9])
    bomb = gzip.compress(idx(8, [60000, 28, 28]) + bytes(100), 9, mtime=0)
    put("idx-gz-ratio-ubyte.gz", bomb)
    put("idx-gz-cut-ubyte.gz", gzip.compress(idx(8, [4, 2, 2], bytes(16)), 9, mtime=0)[:-6])
    put("idx-gz-trailing-data-ubyte.gz", gzip.compress(idx(8, [1, 2, 2], bytes(900)), 9, mtime=0))
    head = gzip.compress(idx(8, [1 << 20, 4096]), 9, mtime=0)
    put("idx-gz-growth-ubyte.gz", [(1, head), ((1 << 32) // 1000, b"\0")])
    put("cifar-cut_batch.bin", bytes(1000))
    put("tensor-pb.pb", tensor("x", [1 << 30], f32s(1)))
    put("tensor-pb-external.pb", external("x", [4], ("location", "/etc/passwd")))


def plugins():
    put("plugin-text.so", b"#!/bin/sh\ntouch ../owned\n")
    put("plugin-recipe.json", '{"model": "m.onnx", "data": "digits", "output": "o.onnx",\n "steps": '
        '[{"step": "prune", "sparsity": 0.5, "pruner": "x",\n            "plugin": "./evil.so"}]}\n')
    elf = bytearray(b"\x7fELF\2\1\1" + bytes(57))
    elf[16:20] = struct.pack("<HH", 3, 62)
    elf[32:40] = struct.pack("<Q", 1 << 40)
    elf[54:58] = struct.pack("<HH", 56, 60)
    put("plugin-cut.so", bytes(elf))


def main():
    os.makedirs(OUT, exist_ok=True)
    for make in (wire, graphs, tensors, running, empty_tensors, folding, bodies, choices, recipes,
                 external_data, numpy_files, torch_files, safetensors, json_files, data_files,
                 plugins):
        make()


main()
