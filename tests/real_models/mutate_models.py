#!/usr/bin/python3
"""mutate_models.py - damage real models in ways that keep them readable, and take them through commands.

usage: mutate_models.py BUILD_FOLDER COUNT [--seed N] [--keep FOLDER] [--all] [--jobs N]

Each of COUNT mutants is a model of models.json with up to three changes of operator types, attributes, edges, declared
dimensions, initializers or opsets.  Most mutants are a random part of a model: up to 60 nodes with their initializers.
inspect, run, prune --speedup and quantize must end by themselves with exit code 0, or with 1 or 2 and one sentence on
stderr: no signal, no sanitizer report, no hang, no file after a failure, a readable one otherwise.
"""
import argparse
import copy
import json
import multiprocessing
import os
import random
import resource
import shutil
import subprocess
import sys
import tempfile

import numpy as np
import onnx
from onnx import numpy_helper

os.environ["OMP_WAIT_POLICY"] = "passive"  # waiting threads must not keep a busy core
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "..", "tools"))
import fetch_models  # noqa: E402

SMALL = 3_000_000       # bytes: larger models are never taken as a whole
WHOLE = 0.1             # of small models
PART = 1_000_000        # bytes: at most these in initializers of a part
SECONDS = 60            # of processor time; the machine may be busy
TIMEOUT = 600
LIMITS = ["--max-memory", "2G", "--timeout", str(TIMEOUT - 100)]
PRESETS = ("int8-weights", "int8-dynamic", "w4", "fp16", "bf16")
TYPES = ("Relu Sigmoid Add Mul Sub Div MatMul Conv Gemm Reshape Transpose Concat Slice Gather Softmax Squeeze Unsqueeze "
         "Flatten ReduceMean MaxPool AveragePool GlobalAveragePool BatchNormalization LayerNormalization Split Expand "
         "Where Equal ArgMax TopK Cast Shape ConstantOfShape Range Pad Resize LSTM GRU If Loop Scan Identity Clip Pow "
         "Sqrt QuantizeLinear DequantizeLinear NonMaxSuppression ConvTranspose InstanceNormalization Einsum Tile").split()
KINDS = {2: np.uint8, 3: np.int8, 6: np.int32, 7: np.int64, 9: np.bool_, 10: np.float16, 11: np.float64}
NUMBERS = (0, 1, -1, 2, 3, 7, 64, 1 << 20, -(1 << 40), (1 << 62))


def change_type(g, rng):
    rng.choice(g.node).op_type = rng.choice(TYPES)


def change_attribute(g, rng):
    nodes = [n for n in g.node if n.attribute]
    if not nodes:
        return
    node = rng.choice(nodes)
    at = rng.choice(node.attribute)
    if rng.random() < 0.3:
        node.attribute.remove(at)
    elif at.type == onnx.AttributeProto.INT:
        at.i = rng.choice(NUMBERS)
    elif at.type == onnx.AttributeProto.FLOAT:
        at.f = rng.choice((0.0, -1.0, 1e38, float("nan"), float("inf")))
    elif at.type == onnx.AttributeProto.INTS and at.ints:
        at.ints[rng.randrange(len(at.ints))] = rng.choice(NUMBERS)
    elif at.type == onnx.AttributeProto.INTS:
        at.ints.append(rng.choice(NUMBERS))
    elif at.type == onnx.AttributeProto.STRING:
        at.s = rng.choice((b"", b"SAME_UPPER", b"linear", b"\xff"))


def names(g):
    return [v.name for v in g.input] + [t.name for t in g.initializer] + [o for n in g.node for o in n.output] + [""]


def change_edge(g, rng):
    nodes = [n for n in g.node if n.input]
    if nodes:
        node = rng.choice(nodes)
        if rng.random() < 0.2:
            del node.input[rng.randrange(len(node.input))]
        else:
            node.input[rng.randrange(len(node.input))] = rng.choice(names(g))


def change_dimension(g, rng):
    values = [v for v in list(g.input) + list(g.output) + list(g.value_info) if v.type.tensor_type.shape.dim]
    if values:
        d = rng.choice(rng.choice(values).type.tensor_type.shape.dim)
        if rng.random() < 0.4:
            d.dim_param = rng.choice(("n", "m", ""))
        else:
            d.dim_value = rng.choice(NUMBERS)


def change_constant(g, rng):
    tensors = list(g.initializer) + [a.t for n in g.node if n.op_type == "Constant" for a in n.attribute
                                     if a.type == onnx.AttributeProto.TENSOR]
    tensors = [t for t in tensors if t.data_type not in (onnx.TensorProto.STRING, onnx.TensorProto.UNDEFINED)]
    if not tensors:
        return
    t = rng.choice(tensors)
    what = rng.random()
    if what < 0.2 and t.dims:
        t.dims[rng.randrange(len(t.dims))] = rng.choice(NUMBERS)
    elif what < 0.3:
        t.data_type = rng.randrange(1, 25)
    else:
        try:
            a = numpy_helper.to_array(t).copy()
        except Exception:
            return
        if a.size:
            a.reshape(-1)[rng.randrange(a.size)] = rng.choice((0, 1, 2, 127)) if a.dtype.kind in "ub" else -1
            if a.dtype.kind == "f" and rng.random() < 0.5:
                a *= rng.choice((0, 1e30, float("nan")))
            t.CopyFrom(numpy_helper.from_array(a, t.name))


def drop_node(g, rng):
    del g.node[rng.randrange(len(g.node))]


CHANGES = (change_type, change_attribute, change_edge, change_dimension, change_constant, drop_node)


def graphs(g):
    """The graph and those in its nodes."""
    yield g
    for n in g.node:
        for a in n.attribute:
            if a.type == onnx.AttributeProto.GRAPH:
                yield from graphs(a.g)


def reads(node):
    """The names that a node reads, also in its bodies."""
    found = list(node.input)
    for a in node.attribute:
        if a.type == onnx.AttributeProto.GRAPH:
            own = {t.name for t in a.g.initializer} | {v.name for v in a.g.input} | {o for n in a.g.node for o in n.output}
            found += [i for n in a.g.node for i in reads(n) if i not in own]
            found += [v.name for v in a.g.output if v.name not in own]
    return found


def part(model, types, rng):
    """Up to 60 neighboring nodes of the main graph, with what they read: initializers, and new inputs."""
    g = model.graph
    first, count = rng.randrange(len(g.node)), rng.randint(3, 60)
    weights = {t.name: t for t in g.initializer}
    m = onnx.ModelProto()
    m.CopyFrom(onnx.ModelProto(ir_version=model.ir_version, opset_import=model.opset_import, functions=model.functions))
    made, taken, total = set(), set(), 0
    for node in g.node[first:first + count]:
        need = [weights[i] for i in dict.fromkeys(reads(node)) if i in weights and i not in taken]
        total += sum(t.ByteSize() for t in need)
        if total > PART:
            break
        m.graph.node.add().CopyFrom(node)
        for t in need:
            m.graph.initializer.add().CopyFrom(t)
            taken.add(t.name)
        for i in reads(node):
            if i and i not in taken and i not in made:
                m.graph.input.add().CopyFrom(types.get(i) or onnx.helper.make_tensor_value_info(i, 1, None))
                taken.add(i)
        made.update(node.output)
    read = {i for n in m.graph.node for i in n.input}
    for name in sorted(made - read - {""}):
        m.graph.output.add(name=name)
    return m if m.graph.node else part(model, types, rng)


def load(path):
    """The model, what is known about its values, and whether it is small."""
    model = onnx.load(path)
    bare = copy.deepcopy(model)
    try:
        bare = onnx.shape_inference.infer_shapes(bare)
    except Exception:
        pass
    types = {v.name: v for v in list(bare.graph.input) + list(bare.graph.value_info)}
    return model, types, os.path.getsize(path) < SMALL


def mutant(model, types, small, rng):
    m = copy.deepcopy(model) if small and rng.random() < WHOLE else part(model, types, rng)
    done = []
    for _ in range(rng.randint(1, 3)):
        g = rng.choice([g for g in graphs(m.graph) if g.node])
        change = rng.choice(CHANGES)
        change(g, rng)
        done.append(change.__name__)
        if not g.node:
            break
    if rng.random() < 0.1:
        m.opset_import[0].version = rng.choice((1, 7, 9, 11, 13, 17, 21, 23, 26, 99))
        done.append("opset")
    return m, done


def write_data(m, path, rng):
    """Two items for every input, whether they fit or not; free dimensions get one size."""
    arrays, size = {}, rng.choice((1, 8, 64))
    for v in m.graph.input:
        t = v.type.tensor_type
        dims = [d.dim_value if 0 < d.dim_value < 1000 else size for d in t.shape.dim]
        if np.prod(dims[1:]) > 1e6:
            dims = dims[:2]
        kind = KINDS.get(t.elem_type, np.float32)
        a = np.random.default_rng(rng.randrange(1 << 30)).normal(0, 1, [2] + dims[1:])
        arrays[v.name.replace("/", "_")] = (a if np.dtype(kind).kind == "f" else abs(a)).astype(kind)
    np.savez(path, **arrays)


def problem(command, out):
    """What is wrong with how the command ended, or None; and its exit code."""
    if os.path.exists(out):
        os.remove(out)
    try:
        p = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, timeout=TIMEOUT,
                           preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS + 5)))
    except subprocess.TimeoutExpired:
        return f"took more than {TIMEOUT} s", -1
    text = p.stderr.decode("utf-8", "replace")
    if p.returncode < 0:
        return f"killed by signal {-p.returncode}", p.returncode
    if "Sanitizer" in text or "runtime error" in text:
        return text[:2000], p.returncode
    if p.returncode not in (0, 1, 2):
        return f"exit code {p.returncode}", p.returncode
    if p.returncode and not any(line.startswith("pare: ") for line in text.splitlines()):
        return "failed without a message: " + text[-300:], p.returncode
    if p.returncode and os.path.exists(out):
        return "failed, but wrote a file", p.returncode
    if not p.returncode and out in command and not os.path.exists(out):
        return "worked, but wrote no file", p.returncode
    return None, p.returncode


def commands(pare, m, work, rng):
    """What a mutant goes through, by name."""
    path, out, data = (os.path.join(work, f) for f in ("m.onnx", "o.onnx", "d.npz"))
    quantize = ["--preset", rng.choice(PRESETS)]
    if rng.randrange(4) == 0:
        write_data(m, data, rng)
        quantize = ["--preset", "int8", "--data", data, "--valid", "none"]
    return {"inspect": [pare, "inspect", path], "run": [pare, "run", path, "--threads", "1"],
            "prune": [pare, "prune", path, "--pruner", "l1", "--sparsity", "0.5", "--speedup", "--no-bench", "-o", out]
                     + ["--dependency-aware"] * rng.randrange(2),
            "quantize": [pare, "quantize", path, *quantize, "-o", out]}


def check(seed, pare, models, work, keep):
    """Make a mutant and run the commands: how many, how many worked, and what is wrong."""
    rng = random.Random(seed)
    name, model = rng.choice(models)
    m, done = mutant(*model, rng)
    path, out = os.path.join(work, "m.onnx"), os.path.join(work, "o.onnx")
    with open(path, "wb") as f:
        f.write(m.SerializeToString())
    codes, wrong = [], []
    for what, command in commands(pare, m, work, rng).items():
        why, code = problem(command + LIMITS, out)
        codes.append(code)
        if not why and code == 0 and out in command and problem([pare, "inspect", out], "")[1]:
            why = "wrote a file that cannot be read"
        if why:
            wrong.append(f"FAIL {what}, seed {seed}, {name}, {' '.join(done)}: {why}")
    if wrong and keep:
        os.makedirs(keep, exist_ok=True)
        shutil.copy(path, os.path.join(keep, f"{seed}.onnx"))
    return len(codes), codes.count(0), wrong


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("build")
    ap.add_argument("count", type=int)
    ap.add_argument("--seed", type=int, default=1)
    ap.add_argument("--keep", help="the folder for mutants that show a problem")
    ap.add_argument("--all", action="store_true", help="all models, not only those of a short test")
    ap.add_argument("--jobs", type=int, default=2)
    args = ap.parse_args()
    build = os.path.abspath(args.build)
    pare, folder = os.path.join(build, "pare"), os.path.join(build, "real_models")
    with open(os.path.join(HERE, "models.json")) as f:
        specs = json.load(f)
    paths = [fetch_models.fetch(n, s, folder) for n, s in specs.items() if s.get("ci") or args.all]
    models = [(os.path.basename(p), load(p)) for p in paths]
    bad = runs = works = 0

    def one(seed):
        with tempfile.TemporaryDirectory(dir=build) as work:
            return check(seed, pare, models, work, args.keep)

    global task  # workers are forked, so they share the models
    task = one
    with multiprocessing.get_context("fork").Pool(args.jobs) as pool:
        seeds = range(args.seed * 1_000_000, args.seed * 1_000_000 + args.count)
        for i, (n, worked, wrong) in enumerate(pool.imap_unordered(run_task, seeds), 1):
            runs, works, bad = runs + n, works + worked, bad + len(wrong)
            print("\n".join(wrong), end="\n" * bool(wrong), flush=True)
            if i % 250 == 0:
                print(f"{i} mutants", flush=True)
    print(f"{args.count} mutants, {runs} commands, of which {works} worked")
    print(f"{runs - bad} passed, {bad} failed")
    return bad > 0


def run_task(seed):
    return task(seed)


if __name__ == "__main__":
    sys.exit(main())
