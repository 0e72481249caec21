# test_docs.py - run the Python blocks of README and docs/python.md, in order, in an empty folder.
import os
import subprocess
import sys
import unittest

from common import ROOT, Folder

try:
    import torch  # noqa: F401
except ImportError:
    torch = None


def blocks(name):
    with open(os.path.join(ROOT, name), encoding="utf-8") as f:
        parts = f.read().split("\n```python\n")[1:]
    return "\n".join(p.split("\n```\n")[0] for p in parts)


class Documents(Folder):
    def run_blocks(self, name):
        code = blocks(name)
        self.assertGreater(len(code), 100)
        r = subprocess.run([sys.executable, "-W", "ignore", "-c", code], capture_output=True, text=True,
                           env={**os.environ, "PYTHONPATH": os.path.join(ROOT, "python")})
        self.assertEqual(r.returncode, 0, r.stderr)
        return r.stdout

    def test_readme(self):
        out = self.run_blocks("README.md")
        self.assertIn("small", out)
        self.assertTrue(os.path.exists("small.onnx"))

    @unittest.skipUnless(torch, "needs PyTorch")
    def test_python_md(self):
        out = self.run_blocks(os.path.join("docs", "python.md"))
        self.assertIn("training was canceled", out)
        self.assertTrue(os.path.exists("int8.onnx"))


if __name__ == "__main__":
    unittest.main()
