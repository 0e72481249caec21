#!/usr/bin/env python3
"""export_minilm.py - MiniLM-L6 from its weights to ONNX with three integer inputs, and sentences as token ids.

usage: export_minilm.py WEIGHTS.safetensors VOCABULARY.json MODEL.onnx DATA.npz
"""
import json
import math
import struct
import sys

import numpy as np
import torch
from torch import nn

SIZE, HEADS, LAYERS = 384, 12, 6


def read_weights(path):
    with open(path, "rb") as f:
        header = json.loads(f.read(struct.unpack("<Q", f.read(8))[0]))
        data = f.read()
    kinds = {"F16": np.float16, "I64": np.int64, "F32": np.float32}
    return {name: torch.from_numpy(np.frombuffer(data[slice(*e["data_offsets"])], kinds[e["dtype"]])
                                   .reshape(e["shape"]).astype(np.float32))
            for name, e in header.items() if name != "__metadata__"}


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.query, self.key, self.value = (nn.Linear(SIZE, SIZE) for _ in range(3))
        self.dense, self.norm = nn.Linear(SIZE, SIZE), nn.LayerNorm(SIZE, eps=1e-12)
        self.up, self.down = nn.Linear(SIZE, 4 * SIZE), nn.Linear(4 * SIZE, SIZE)
        self.last = nn.LayerNorm(SIZE, eps=1e-12)

    def heads(self, x):
        return x.view(x.shape[0], x.shape[1], HEADS, SIZE // HEADS).transpose(1, 2)

    def forward(self, x, mask):
        scores = self.heads(self.query(x)) @ self.heads(self.key(x)).transpose(2, 3)
        weights = torch.softmax(scores / math.sqrt(SIZE // HEADS) + mask, -1)
        y = (weights @ self.heads(self.value(x))).transpose(1, 2).reshape(x.shape)
        x = self.norm(x + self.dense(y))
        return self.last(x + self.down(nn.functional.gelu(self.up(x))))


class MiniLM(nn.Module):
    def __init__(self):
        super().__init__()
        self.word, self.place, self.kind = (nn.Embedding(n, SIZE) for n in (30522, 512, 2))
        self.norm = nn.LayerNorm(SIZE, eps=1e-12)
        self.layers = nn.ModuleList(Layer() for _ in range(LAYERS))

    def forward(self, input_ids, attention_mask, token_type_ids):
        at = torch.arange(input_ids.shape[1], device=input_ids.device)
        x = self.norm(self.word(input_ids) + self.place(at) + self.kind(token_type_ids))
        mask = (1 - attention_mask[:, None, None, :].float()) * -1e4
        for layer in self.layers:
            x = layer(x, mask)
        return x


def name_of(key):
    """The name of a weight of this module in the file."""
    place = {"query": "attention.self.query", "key": "attention.self.key", "value": "attention.self.value",
             "dense": "attention.output.dense", "norm": "attention.output.LayerNorm", "up": "intermediate.dense",
             "down": "output.dense", "last": "output.LayerNorm"}
    first = {"word": "word_embeddings", "place": "position_embeddings", "kind": "token_type_embeddings",
             "norm": "LayerNorm"}
    part = key.split(".")
    if part[0] == "layers":
        return f"encoder.layer.{part[1]}.{place[part[2]]}.{part[3]}"
    return f"embeddings.{first[part[0]]}.{part[1]}"


def sentences(path, n):
    """n sentences of 8 to 24 words that are tokens, padded to 26."""
    vocabulary = json.load(open(path))["model"]["vocab"]
    words = [i for w, i in vocabulary.items() if w.isalpha() and len(w) > 2]
    rng = np.random.default_rng(1)
    ids, mask = np.zeros((n, 26), np.int64), np.zeros((n, 26), np.int64)
    for i in range(n):
        k = rng.integers(8, 25)
        ids[i, :k + 2] = [101, *rng.choice(words, k), 102]
        mask[i, :k + 2] = 1
    return ids, mask


weights = read_weights(sys.argv[1])
model = MiniLM().eval()
model.load_state_dict({k: weights[name_of(k)] for k in model.state_dict()})
ids, mask = sentences(sys.argv[2], 32)
example = tuple(torch.from_numpy(x[:2]) for x in (ids, mask, 0 * ids))
axes = {0: "batch", 1: "length"}
names = ["input_ids", "attention_mask", "token_type_ids"]
torch.onnx.export(model, example, sys.argv[3], input_names=names, output_names=["hidden"],
                  dynamic_axes={n: axes for n in [*names, "hidden"]}, opset_version=14)
np.savez(sys.argv[4], input_ids=ids, attention_mask=mask, token_type_ids=0 * ids)
