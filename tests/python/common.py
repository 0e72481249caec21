# common.py - what the tests of the Python package share: paths, the package from this tree, temporary folders.
import os
import shutil
import sys
import tempfile
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
if not os.environ.get("PARE_INSTALLED"):        # else the installed package
    sys.path.insert(0, os.path.join(ROOT, "python"))

import pare  # noqa: E402
from pare import _declarations as d  # noqa: E402,F401
from pare._library import lib  # noqa: E402,F401


class Folder(unittest.TestCase):
    """A test in an empty folder."""

    def setUp(self):
        self.folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.folder)
        old = os.getcwd()
        os.chdir(self.folder)
        self.addCleanup(os.chdir, old)


def digits(part="train"):
    """Images (n, 1, 8, 8) in [0, 1] and labels of data/digits."""
    import gzip
    import struct
    import numpy as np

    def read(kind):
        with gzip.open(os.path.join(ROOT, "data", "digits", f"{part}-{kind}-ubyte.gz")) as f:
            head = f.read(4)
            shape = struct.unpack(">%dI" % head[3], f.read(4 * head[3]))
            return np.frombuffer(f.read(), np.uint8).reshape(shape)

    x = read("images-idx3").astype(np.float32)
    return (x / x.max())[:, None], read("labels-idx1").astype(np.int64)


def command(test):
    """The path of the command; the test is skipped if it is not built."""
    path = os.path.join(os.environ.get("PARE_BUILD", os.path.join(ROOT, "build")), "pare")
    if not os.path.exists(path):
        test.skipTest("needs the command")
    return path
