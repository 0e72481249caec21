#!/usr/bin/python3
"""peer_torch.py - PyTorch's peer of the inference benchmark; README.md describes the protocol.

The module runs in eager mode, with the exported weights, in the faster of the two memory formats.
"""
import os
import sys
import time

import numpy as np
import torch

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tools"))
import export_models


def timed(model, x):
    start = time.perf_counter()
    model(x)
    return (time.perf_counter() - start) * 1e3


def pick_format(model, x):
    best = None
    for name, layout in (("nchw", torch.contiguous_format), ("nhwc", torch.channels_last)):
        m, v = model.to(memory_format=layout), x.contiguous(memory_format=layout)
        timed(m, v)
        cost = min(timed(m, v) for _ in range(3))
        if best is None or cost < best[0]:
            best = (cost, name, layout)
    return best[1:]


def main():
    path, inputs, threads, target = sys.argv[1:]
    torch.set_num_threads(int(threads))
    base = path[:-len(".onnx")]
    model = export_models.build(os.path.basename(base))
    model.load_state_dict(torch.load(base + ".pt"))
    x = torch.from_numpy(next(iter(np.load(inputs).values())))
    with torch.inference_mode():
        name, layout = pick_format(model, x)
        model, x = model.to(memory_format=layout), x.contiguous(memory_format=layout)
        model(x).contiguous().numpy().tofile(target)
        print("ready", name, flush=True)
        for line in sys.stdin:
            print(*(f"{timed(model, x):.4f}" for _ in range(int(line.split()[1]))), flush=True)


if __name__ == "__main__":
    main()
