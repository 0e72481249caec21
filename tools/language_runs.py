#!/usr/bin/env python3
"""language_runs.py - quantized and sparse language models compared with the float ones.

    language_runs.py minilm|stories FOLDER [CASE...]

FOLDER has what export_language.py writes: the model, calib.npz and test.npz.  minilm prints the cosine of
unseen sentences to the float model's: the least and the mean over mean-pooled sentence vectors, and the mean over
hidden states of words, without padding.  stories prints the perplexity of unseen sequences.  CASEs are
names of the table below (default: all).  Files in FOLDER/runs are reused.  PARE is the command (default:
build/pare), THREADS the number of threads (default: one per core).
"""
import os
import resource
import subprocess
import sys

import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))
PARE = os.environ.get('PARE', os.path.join(HERE, '..', 'build', 'pare'))
THREADS = os.environ.get('THREADS', '0')

W4 = ['--preset', 'w4', '--group-size', '32']
GPTQ = W4 + ['--rounding', 'gptq', '--rounding-passes', '6']
SPARSE = ['--sparsity', '0.5', '--no-repair']
CASES = {
    'minilm': {
        'int8': ['quantize', '--preset', 'int8'],
        'int8-smooth': ['quantize', '--preset', 'int8', '--smooth'],
        'w4-nearest': ['quantize'] + W4 + ['--range', 'minmax'],
        'w4-mse': ['quantize'] + W4,
        'w4-awq': ['quantize'] + W4 + ['--awq'],
        'w4-gptq': ['quantize'] + GPTQ,
        'w4-awq-gptq': ['quantize'] + GPTQ + ['--awq'],
    },
    'stories': {
        'w4-nearest': ['quantize'] + W4 + ['--range', 'minmax'],
        'w4-mse': ['quantize'] + W4,
        'w4-awq': ['quantize'] + W4 + ['--awq'],
        'w4-gptq': ['quantize'] + GPTQ,
        'w4-awq-gptq': ['quantize'] + GPTQ + ['--awq'],
        'level': ['prune', '--pruner', 'level'] + SPARSE,
        'wanda': ['prune', '--pruner', 'wanda'] + SPARSE,
        'sparsegpt': ['prune', '--pruner', 'sparsegpt'] + SPARSE,
    },
}


def run_parts(model, data, items, see):
    """Runs the arrays of data in parts of a few items; see(part of data, outputs) gets each."""
    n = len(next(iter(data.values())))
    for at in range(0, n, items):
        part = {k: v[at:at + items] for k, v in data.items()}
        np.savez('part.npz', **part)
        subprocess.run([PARE, 'run', model, '--input', 'part.npz', '-o', 'out.npz', '--threads', THREADS],
                       check=True, stdout=subprocess.DEVNULL)
        with np.load('out.npz') as out:
            see(part, out[out.files[0]].astype(np.float32))
    os.remove('part.npz')
    os.remove('out.npz')


def hidden_states(model, data):
    """Hidden states of words, and mean-pooled sentence vectors."""
    words, sentences = [], []

    def see(part, y):
        mask = part['attention_mask'].astype(bool)
        for i in range(len(y)):
            words.append(y[i][mask[i]])
            sentences.append(y[i][mask[i]].mean(0))

    run_parts(model, data, 32, see)
    return np.concatenate(words), np.stack(sentences)


def cosines(a, b):
    return (a * b).sum(-1) / np.linalg.norm(a, axis=-1) / np.linalg.norm(b, axis=-1)


def perplexity(model, data):
    sums = []

    def see(part, y):
        y = y[:, :-1].astype(np.float64)
        y -= y.max(-1, keepdims=True)
        right = np.take_along_axis(y, part['input_ids'][:, 1:, None], -1)[..., 0]
        sums.extend((right - np.log(np.exp(y).sum(-1))).ravel())

    run_parts(model, data, 8, see)
    return float(np.exp(-np.mean(sums)))


def main(what, folder, *cases):
    os.makedirs(os.path.join(folder, 'runs'), exist_ok=True)
    os.chdir(os.path.join(folder, 'runs'))
    model = f'../{what}.onnx'
    data = dict(np.load('../test.npz'))
    float_size = os.path.getsize(model)
    if what == 'minilm':
        words, sentences = hidden_states(model, data)
        print(f'{"":14}{"words":>9}{"sentences":>11}{"least":>9}{"size":>7}{"seconds":>9}')
    else:
        base = perplexity(model, data)
        print(f'{"":14}{"perplexity":>11}{"change":>9}{"size":>7}{"seconds":>9}')
        print(f'{"float":14}{base:11.4f}')
    for name in cases or CASES[what]:
        args = CASES[what][name]
        path, seconds = f'{name}.onnx', ''
        if not os.path.exists(path):
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            with open(f'{name}.txt', 'w') as log:
                subprocess.run([PARE, args[0], model] + args[1:] + ['--data', '../calib.npz', '--batch', '32', '--threads',
                               THREADS, '-o', path], check=True, stdout=log, stderr=log)
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            seconds = f'{after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime:.1f}'
        size = os.path.getsize(path) / float_size
        if what == 'minilm':
            w, s = hidden_states(path, data)
            c = cosines(s, sentences)
            print(f'{name:14}{cosines(w, words).mean():9.4f}{c.mean():11.4f}{c.min():9.4f}{size:7.3f}{seconds:>9}',
                  flush=True)
        else:
            p = perplexity(path, data)
            print(f'{name:14}{p:11.4f}{p - base:+9.4f}{size:7.3f}{seconds:>9}', flush=True)


if __name__ == '__main__':
    if len(sys.argv) < 3 or sys.argv[1] not in CASES:
        sys.exit(__doc__)
    main(*sys.argv[1:])
