#!/usr/bin/python3
"""make_digits.py - train the small digit classifier that `make demo` and the tests use.

usage: make_digits.py [--csv digits.csv.gz]

Reads data/digits/*-ubyte.gz and writes to the same folder
    digits.onnx             the trained network, logits of ten classes
    sample.npz              one test image of each digit, as input of the network
    sample_logits.npz       PyTorch's logits for them
With --csv the data files are written first, from the table that python3-sklearn ships as
sklearn/datasets/data/digits.csv.gz: a row has 64 pixels from 0 to 16 and the digit.  The rows
are shuffled, and the first 360 of the 1797 are for testing.

Seeded and single-threaded, so that the same PyTorch gives the same file.
"""
import argparse
import gzip
import os
import struct
import sys
import warnings

import numpy as np
import torch
from torch import nn

HERE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "data", "digits")
EPOCHS = 60


def write_idx(name, array):
    """The MNIST file format: two zeros, type 8 (bytes), rank, big-endian dimensions, data."""
    head = struct.pack(f">BBBB{array.ndim}I", 0, 0, 8, array.ndim, *array.shape)
    with open(os.path.join(HERE, name), "wb") as f:
        with gzip.GzipFile("", "wb", 9, f, mtime=0) as z:
            z.write(head + array.astype(np.uint8).tobytes())


def read_idx(name):
    with gzip.open(os.path.join(HERE, name)) as z:
        raw = z.read()
    dims = struct.unpack(f">{raw[3]}I", raw[4:4 + 4 * raw[3]])
    return np.frombuffer(raw, np.uint8, offset=4 + 4 * raw[3]).reshape(dims)


def make_data(csv):
    table = np.loadtxt(gzip.open(csv), delimiter=",", dtype=np.int64)
    table = table[np.random.RandomState(0).permutation(len(table))]
    for part, rows in (("train", table[360:]), ("test", table[:360])):
        write_idx(f"{part}-images-idx3-ubyte.gz", rows[:, :64].reshape(-1, 8, 8))
        write_idx(f"{part}-labels-idx1-ubyte.gz", rows[:, 64])


def load(part):
    x = read_idx(f"{part}-images-idx3-ubyte.gz").astype(np.float32)[:, None] / 16
    y = read_idx(f"{part}-labels-idx1-ubyte.gz").astype(np.int64)
    return torch.from_numpy(x), torch.from_numpy(y)


class Block(nn.Module):
    """A residual block of two convolutions."""

    def __init__(self, channels):
        super().__init__()
        self.conv1 = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(channels)
        self.conv2 = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(channels)

    def forward(self, x):
        y = torch.relu(self.bn1(self.conv1(x)))
        return torch.relu(x + self.bn2(self.conv2(y)))


class Digits(nn.Module):
    """(N, 1, 8, 8) pixels from 0 to 1 -> (N, 10) logits."""

    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 16, 3, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(16)
        self.conv2 = nn.Conv2d(16, 32, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(32)
        self.block = Block(32)
        self.conv3 = nn.Conv2d(32, 64, 3, padding=1, bias=False)
        self.bn3 = nn.BatchNorm2d(64)
        self.fc = nn.Linear(256, 10)

    def forward(self, x):
        x = torch.relu(self.bn1(self.conv1(x)))
        x = torch.relu(self.bn2(self.conv2(x)))
        x = nn.functional.max_pool2d(x, 2)                  # (N, 32, 4, 4)
        x = self.block(x)
        x = torch.relu(self.bn3(self.conv3(x)))
        x = nn.functional.max_pool2d(x, 2)                  # (N, 64, 2, 2)
        return self.fc(torch.flatten(x, 1))


def jitter(x):
    """Images shifted by at most a pixel, with some noise."""
    dy, dx = torch.randint(-1, 2, (2,)).tolist()
    padded = nn.functional.pad(x, (1, 1, 1, 1))
    x = padded[:, :, 1 + dy:9 + dy, 1 + dx:9 + dx]
    return x + 0.05 * torch.randn_like(x)


def train(model, x, y):
    steps = EPOCHS * ((len(x) + 63) // 64)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3, weight_decay=1e-2)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 1e-2, total_steps=steps)
    model.train()
    for _ in range(EPOCHS):
        for rows in torch.randperm(len(x)).split(64):
            loss = nn.functional.cross_entropy(model(jitter(x[rows])), y[rows],
                                               label_smoothing=0.05)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
    model.eval()


def main():
    ap = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    ap.add_argument("--csv", help="make the data files from this table first")
    args = ap.parse_args()
    if args.csv:
        make_data(args.csv)
    torch.manual_seed(1)
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    x, y = load("train")
    test_x, test_y = load("test")
    model = Digits()
    train(model, x, y)
    pick = torch.tensor([int((test_y == digit).nonzero()[0]) for digit in range(10)])
    with torch.no_grad():
        right = int((model(test_x).argmax(1) == test_y).sum())
        np.savez(os.path.join(HERE, "sample.npz"), image=test_x[pick].numpy())
        np.savez(os.path.join(HERE, "sample_logits.npz"), logits=model(test_x[pick]).numpy())
    torch.onnx.export(model, test_x[:2], os.path.join(HERE, "digits.onnx"), opset_version=13,
                      training=torch.onnx.TrainingMode.PRESERVE,      # keep batch norms and names
                      input_names=["image"], output_names=["logits"],
                      dynamic_axes={"image": {0: "batch"}, "logits": {0: "batch"}})
    params = sum(p.numel() for p in model.parameters())
    print(f"{params} parameters, {right} of {len(test_y)} test images classified correctly "
          f"({100 * right / len(test_y):.2f} %)")
    return 0 if right >= 0.97 * len(test_y) else 1


if __name__ == "__main__":
    sys.exit(main())
