#!/usr/bin/env python3
"""export_language.py - MiniLM and stories15M as float ONNX files, with calibration and test data.

    export_language.py minilm MODEL.fp16.safetensors TOKENIZER.json TEXT OUT_DIR
    export_language.py stories LLAMA2.data OUT_DIR

minilm writes minilm.onnx (input_ids, attention_mask, token_type_ids; free batch and length), and
lines of TEXT as calib.npz and test.npz, arrays named as the inputs.  stories reads a llama2.c
checkpoint, writes stories.onnx (input_ids), and stories that the model generates as calib.npz
and test.npz (array input_ids).  The weights are not committed.
"""
import json
import math
import os
import re
import struct
import sys
import unicodedata

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F


# ---- MiniLM ---------------------------------------------------------------------------------

def read_safetensors(path):
    with open(path, 'rb') as f:
        n = struct.unpack('<Q', f.read(8))[0]
        head = json.loads(f.read(n))
        body = f.read()
    kind = {'F16': np.float16, 'F32': np.float32, 'I64': np.int64}
    out = {}
    for name, t in head.items():
        if name == '__metadata__':
            continue
        a, b = t['data_offsets']
        v = np.frombuffer(body[a:b], kind[t['dtype']]).reshape(t['shape'])
        out[name] = torch.from_numpy(v.astype(np.float32) if v.dtype == np.float16 else v.copy())
    return out


class BertLayer(nn.Module):
    def __init__(self, d, heads, inner):
        super().__init__()
        self.heads = heads
        self.query, self.key, self.value = nn.Linear(d, d), nn.Linear(d, d), nn.Linear(d, d)
        self.dense = nn.Linear(d, d)
        self.norm1 = nn.LayerNorm(d, 1e-12)
        self.up, self.down = nn.Linear(d, inner), nn.Linear(inner, d)
        self.norm2 = nn.LayerNorm(d, 1e-12)

    def split(self, x):
        b, t = x.shape[0], x.shape[1]
        return x.view(b, t, self.heads, -1).permute(0, 2, 1, 3)

    def forward(self, x, mask):
        q, k, v = self.split(self.query(x)), self.split(self.key(x)), self.split(self.value(x))
        score = torch.matmul(q, k.transpose(-1, -2)) / math.sqrt(q.shape[-1]) + mask
        y = torch.matmul(score.softmax(-1), v).permute(0, 2, 1, 3)
        y = y.reshape(x.shape[0], x.shape[1], x.shape[2])
        x = self.norm1(self.dense(y) + x)
        return self.norm2(self.down(F.gelu(self.up(x))) + x)


class Bert(nn.Module):
    def __init__(self, d=384, heads=12, inner=1536, layers=6, words=30522, positions=512):
        super().__init__()
        self.word, self.position = nn.Embedding(words, d), nn.Embedding(positions, d)
        self.kind, self.norm = nn.Embedding(2, d), nn.LayerNorm(d, 1e-12)
        self.register_buffer('ids', torch.arange(positions).unsqueeze(0))
        self.layer = nn.ModuleList(BertLayer(d, heads, inner) for _ in range(layers))

    def forward(self, input_ids, attention_mask, token_type_ids):
        mask = (1.0 - attention_mask[:, None, None, :].float()) * -1e9
        x = self.word(input_ids) + self.kind(token_type_ids)
        x = self.norm(x + self.position(self.ids[:, :input_ids.shape[1]]))
        for layer in self.layer:
            x = layer(x, mask)
        return x


def load_bert(path):
    w = {k.removeprefix('bert.'): v for k, v in read_safetensors(path).items()}
    name = {'word': 'embeddings.word_embeddings', 'position': 'embeddings.position_embeddings',
            'kind': 'embeddings.token_type_embeddings', 'norm': 'embeddings.LayerNorm'}
    part = {'query': 'attention.self.query', 'key': 'attention.self.key',
            'value': 'attention.self.value', 'dense': 'attention.output.dense',
            'norm1': 'attention.output.LayerNorm', 'up': 'intermediate.dense',
            'down': 'output.dense', 'norm2': 'output.LayerNorm'}
    m = Bert()
    state = m.state_dict()
    for k in state:
        p = k.split('.')
        if k == 'ids':
            continue
        full = '.'.join(['encoder.layer', p[1], part[p[2]], p[3]]) if p[0] == 'layer' else \
            f'{name[p[0]]}.{p[1]}'
        state[k] = w[full]
    m.load_state_dict(state)
    return m.eval()


def word_pieces(vocab, text):
    text = ''.join(c for c in unicodedata.normalize('NFD', text.lower())
                   if unicodedata.category(c) != 'Mn')
    ids = []
    for word in re.findall(r'\w+|[^\w\s]', text):
        at, piece = 0, []
        while at < len(word):
            end = len(word)
            while end > at and ('##' if at else '') + word[at:end] not in vocab:
                end -= 1
            if end == at:
                piece = [vocab['[UNK]']]
                break
            piece.append(vocab[('##' if at else '') + word[at:end]])
            at = end
        ids += piece
    return [vocab['[CLS]']] + ids[:62] + [vocab['[SEP]']]


def text_arrays(vocab, lines):
    ids = [word_pieces(vocab, x) for x in lines]
    x = np.zeros((len(ids), max(map(len, ids))), np.int64)
    mask = np.zeros_like(x)
    for i, v in enumerate(ids):
        x[i, :len(v)] = v
        mask[i, :len(v)] = 1
    return {'input_ids': x, 'attention_mask': mask, 'token_type_ids': np.zeros_like(x)}


def export_minilm(weights, tokenizer, text, out):
    m = load_bert(weights)
    vocab = json.load(open(tokenizer))['model']['vocab']
    lines = [x.strip() for x in open(text, errors='replace') if len(x.split()) > 5]
    rng = np.random.default_rng(1)
    lines = [lines[i] for i in rng.permutation(len(lines))[:256]]
    np.savez(os.path.join(out, 'calib.npz'), **text_arrays(vocab, lines[:128]))
    np.savez(os.path.join(out, 'test.npz'), **text_arrays(vocab, lines[128:]))
    x = torch.ones(2, 8, dtype=torch.int64)
    axes = {0: 'batch', 1: 'length'}
    names = ['input_ids', 'attention_mask', 'token_type_ids']
    torch.onnx.export(m, (x, x, x * 0), os.path.join(out, 'minilm.onnx'), input_names=names,
                      output_names=['last_hidden_state'], opset_version=14,
                      dynamic_axes={k: axes for k in names + ['last_hidden_state']})


# ---- stories15M -----------------------------------------------------------------------------

class RmsNorm(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(d))

    def forward(self, x):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-5) * self.weight


class Block(nn.Module):
    def __init__(self, d, inner, heads):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = RmsNorm(d), RmsNorm(d)
        self.wq, self.wk = nn.Linear(d, d, bias=False), nn.Linear(d, d, bias=False)
        self.wv, self.wo = nn.Linear(d, d, bias=False), nn.Linear(d, d, bias=False)
        self.w1, self.w3 = nn.Linear(d, inner, bias=False), nn.Linear(d, inner, bias=False)
        self.w2 = nn.Linear(inner, d, bias=False)

    def rotate(self, x, cos, sin):
        b, t, d = x.shape
        x = x.view(b, t, self.heads, d // self.heads // 2, 2)
        a, c = x[..., 0], x[..., 1]
        y = torch.stack([a * cos - c * sin, a * sin + c * cos], -1)
        return y.view(b, t, self.heads, d // self.heads).transpose(1, 2)

    def forward(self, x, cos, sin, mask):
        b, t, d = x.shape
        y = self.norm1(x)
        q, k = self.rotate(self.wq(y), cos, sin), self.rotate(self.wk(y), cos, sin)
        v = self.wv(y).view(b, t, self.heads, d // self.heads).transpose(1, 2)
        score = torch.matmul(q, k.transpose(2, 3)) / math.sqrt(d // self.heads) + mask
        y = torch.matmul(score.softmax(-1), v).transpose(1, 2).reshape(b, t, d)
        x = x + self.wo(y)
        y = self.norm2(x)
        return x + self.w2(F.silu(self.w1(y)) * self.w3(y))


class Llama(nn.Module):
    def __init__(self, d, inner, layers, heads, words, length):
        super().__init__()
        self.word = nn.Embedding(words, d)
        self.block = nn.ModuleList(Block(d, inner, heads) for _ in range(layers))
        self.norm = RmsNorm(d)
        angle = torch.outer(torch.arange(length).float(),
                            1 / 10000 ** (torch.arange(0, d // heads, 2).float() / (d // heads)))
        self.register_buffer('cos', angle.cos()[:, None, :])
        self.register_buffer('sin', angle.sin()[:, None, :])
        self.register_buffer('mask', torch.full((1, 1, length, length), -1e9).triu(1))

    def forward(self, input_ids):
        t = input_ids.shape[1]
        x = self.word(input_ids)
        for b in self.block:
            x = b(x, self.cos[:t], self.sin[:t], self.mask[:, :, :t, :t])
        return F.linear(self.norm(x), self.word.weight)


def load_llama(path):
    data = open(path, 'rb').read()
    d, inner, layers, heads, _, words, length = struct.unpack('<7i', data[:28])
    at = 28
    m = Llama(d, inner, layers, heads, abs(words), length)

    def take(*shape):
        nonlocal at
        n = int(np.prod(shape))
        v = np.frombuffer(data, np.float32, n, at).reshape(shape).copy()
        at += 4 * n
        return torch.from_numpy(v)

    m.word.weight.data = take(abs(words), d)
    for name, shape in (('norm1', (d,)), ('wq', (d, d)), ('wk', (d, d)), ('wv', (d, d)),
                        ('wo', (d, d)), ('norm2', (d,)), ('w1', (inner, d)), ('w2', (d, inner)),
                        ('w3', (inner, d))):
        for b, v in zip(m.block, take(layers, *shape)):
            getattr(b, name).weight.data = v
    m.norm.weight.data = take(d)
    return m.eval()


@torch.no_grad()
def generate(m, n, length, seed):
    """n sequences of tokens sampled from the model (temperature 0.9, top-p 0.95).

    Keys and values of earlier tokens are kept, so that each step computes one token."""
    g = torch.Generator().manual_seed(seed)
    ids = torch.ones(n, 1, dtype=torch.int64)
    kept = [None] * len(m.block)
    for t in range(length - 1):
        x = m.word(ids[:, t:])
        for i, b in enumerate(m.block):
            d = x.shape[2]
            y = b.norm1(x)
            q, k = (b.rotate(w(y), m.cos[t:t + 1], m.sin[t:t + 1]) for w in (b.wq, b.wk))
            v = b.wv(y).view(n, 1, b.heads, d // b.heads).transpose(1, 2)
            kept[i] = (k, v) if t == 0 else tuple(torch.cat(p, 2) for p in zip(kept[i], (k, v)))
            score = torch.matmul(q, kept[i][0].transpose(2, 3)) / math.sqrt(d // b.heads)
            y = torch.matmul(score.softmax(-1), kept[i][1]).transpose(1, 2).reshape(n, 1, d)
            x = x + b.wo(y)
            y = b.norm2(x)
            x = x + b.w2(F.silu(b.w1(y)) * b.w3(y))
        p = (F.linear(m.norm(x), m.word.weight)[:, -1] / 0.9).softmax(-1)
        top, at = p.sort(-1, descending=True)
        top[top.cumsum(-1) - top > 0.95] = 0
        ids = torch.cat([ids, at.gather(1, torch.multinomial(top, 1, generator=g))], 1)
    return ids.numpy()


def export_stories(checkpoint, out):
    m = load_llama(checkpoint)
    ids = generate(m, 192, 128, 1)
    np.savez(os.path.join(out, 'calib.npz'), input_ids=ids[:128])
    np.savez(os.path.join(out, 'test.npz'), input_ids=ids[128:])
    axes = {0: 'batch', 1: 'length'}
    torch.onnx.export(m, torch.ones(2, 8, dtype=torch.int64), os.path.join(out, 'stories.onnx'),
                      input_names=['input_ids'], output_names=['logits'], opset_version=14,
                      dynamic_axes={'input_ids': axes, 'logits': axes})


if __name__ == '__main__':
    if len(sys.argv) == 6 and sys.argv[1] == 'minilm':
        export_minilm(*sys.argv[2:])
    elif len(sys.argv) == 4 and sys.argv[1] == 'stories':
        export_stories(*sys.argv[2:])
    else:
        sys.exit(__doc__)
