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
