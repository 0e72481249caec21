# test_docs.py - run the Python blocks of README and docs/, and the cells of the notebook, in order, in an empty folder.
import ast
import io
import json
import os
import subprocess
import sys
import types
import unittest
from unittest import mock

from common import ROOT, Folder, pare

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

    @unittest.skipUnless(torch, "needs PyTorch")
    def test_python_from_nni_md(self):
        self.run_blocks(os.path.join("docs", "python-from-nni.md"))
        self.assertTrue(os.path.exists("model.onnx"))


class Notebook(Folder):
    """docs/python-tutorial.ipynb as a notebook runs it: the last expression of a cell is shown, as HTML if it can."""

    def test_cells(self):
        with open(os.path.join(ROOT, "docs", "python-tutorial.ipynb"), encoding="utf-8") as f:
            notebook = json.load(f)
        cells = ["".join(c["source"]) for c in notebook["cells"] if c["cell_type"] == "code"]
        self.assertTrue(all(not c.get("outputs") for c in notebook["cells"]))
        names, shown = {}, []
        for i, code in enumerate(cells):
            tree = ast.parse(code)
            last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
            exec(compile(tree, "cell %d" % i, "exec"), names)
            if last is not None:
                value = eval(compile(ast.Expression(last.value), "cell %d" % i, "eval"), names)
                shown.append(value._repr_html_() if hasattr(value, "_repr_html_") else repr(value))
        tables = [s for s in shown if s.startswith("<table>")]
        self.assertEqual(len(tables), 6, shown)          # model, report, layers, int8, budget, comparison
        self.assertIn("<td>conv2</td>", tables[0])
        self.assertIn("<th>limit</th>", tables[4])
        for name in ("float", "small", "int8", "budget"):
            self.assertIn("<td>%s</td>" % name, tables[5])
        self.assertTrue(os.path.exists("int8.onnx") and os.path.exists("report.html"))


class Progress(unittest.TestCase):
    def test_bar_of_a_notebook(self):
        """A fake IPython: the bar is displayed once, then updated in place; closed, nothing is written to the terminal."""
        shown = []

        class Handle:
            def update(self, value):
                shown.append(("update", value._repr_html_()))

        def display(value, display_id=None):
            shown.append(("display", value._repr_html_()))
            return Handle()

        shell = type("ZMQInteractiveShell", (), {})()
        ipython, display_module = types.ModuleType("IPython"), types.ModuleType("IPython.display")
        ipython.get_ipython, display_module.display = (lambda: shell), display
        with mock.patch.dict(sys.modules, {"IPython": ipython, "IPython.display": display_module}), \
                mock.patch("sys.stderr", io.StringIO()) as stderr:
            watch = pare._progress.Watch(None)           # by itself: it runs in a notebook
            for done in (10, 50, 100):
                watch.bar.drawn = 0.0
                self.assertIsNot(watch.function(pare.Progress("train", done, 100, 1.0)), False)
            watch.bar.close()
            self.assertEqual(stderr.getvalue(), "")
        self.assertEqual([s[0] for s in shown], ["display", "update", "update"])
        self.assertIn("<progress max='1' value='0.500'></progress> train 50/100", shown[1][1])

    def test_bar_of_a_terminal(self):
        stderr = io.StringIO()
        stderr.isatty = lambda: True
        with mock.patch("sys.stderr", stderr):
            watch = pare._progress.Watch(None)
            watch.function(pare.Progress("train", 50, 100, 1.0))
            self.assertIn("[############            ]", stderr.getvalue())
            watch.bar.close()
            self.assertTrue(stderr.getvalue().endswith(" \r"))
        with mock.patch("sys.stderr", io.StringIO()):
            self.assertIsNone(pare._progress.Watch(None).bar)    # a script


if __name__ == "__main__":
    unittest.main()
