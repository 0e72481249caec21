# test_command.py - `python -m pare`: the command with plugins in Python.
import os
import subprocess
import sys
import unittest

from common import ROOT, Folder, command, lib, pare

PRUNER = '''import numpy as np
import pare
from neighbor import power

class Mine(pare.Pruner):
    "Keep filters with a large norm."
    granularity, types = "out_channel", "Conv2d|Linear"
    options = {"power": (float, power, "exponent of the magnitude", 0.5, 4)}

    def score(self, layer):
        axes = tuple(i for i in range(layer.weight.ndim) if i != layer.out_axis)
        return (np.abs(layer.weight) ** self.power).sum(axis=axes)
'''
QUANTIZER = '''import numpy as np
import pare

class Largest(pare.Quantizer):
    "Scale by the largest magnitude."
    def quantize_weight(self, layer, w):
        q = layer.quant("weight")
        scale = float(np.abs(w).max()) / q.qmax
        layer.scale("weight")[...], layer.zero_point("weight")[...] = scale, 0
        return np.clip(np.round(w / scale), q.qmin, q.qmax) * scale

    def backward(self, layer, site, x, gy):
        open("backward", "a").write("x")
        return np.where(np.abs(x) > 1, 0, gy)
'''
CONFIG = '[{"quant_types": ["weight"], "quant_bits": 8, "quant_dtype": "int", "op_types": ["Conv2d", "Linear"]}]'


class Command(Folder):
    def setUp(self):
        super().setUp()
        pare.new("lenet", (1, 8, 8), seed=1).save("m.onnx")
        self.write("mine.py", PRUNER)
        self.write("neighbor.py", "power = 1.0\n")

    def write(self, name, text):
        with open(name, "w", encoding="utf-8") as f:
            f.write(text)

    def pare(self, *words, code=0):
        env = {**os.environ, "PYTHONPATH": os.path.join(ROOT, "python"), "PARE_LIBRARY": os.path.abspath(lib._name)}
        r = subprocess.run([sys.executable, "-m", "pare", *words], capture_output=True, text=True, env=env)
        self.assertEqual(r.returncode, code, r.stderr + r.stdout)
        return r.stdout if not code else r.stderr

    def test_commands_are_those_of_the_program(self):
        program = subprocess.run([command(self), "list", "pruners"], capture_output=True, text=True).stdout
        self.assertEqual(self.pare("list", "pruners"), program)
        self.assertIn("unknown command", self.pare("prun", code=2))

    def test_a_pruner_masks_as_the_function_does(self):
        self.pare("prune", "m.onnx", "--plugin", "mine.py", "--pruner", "mine", "--sparsity", "0.5", "-o", "o.onnx")
        from importlib.util import module_from_spec, spec_from_file_location
        sys.path.insert(0, self.folder)
        self.addCleanup(sys.path.remove, self.folder)
        spec = spec_from_file_location("mine", "mine.py")
        module = module_from_spec(spec)
        spec.loader.exec_module(module)
        wanted = pare.prune(pare.load("m.onnx"), module.Mine, sparsity=0.5, progress=False)
        got = pare.load("o.onnx")
        for name in ("conv1.weight", "fc1.weight"):
            self.assertEqual(got[name].tobytes(), wanted[name].tobytes())
            self.assertTrue((got[name] == 0).any())

    def test_list_and_help_show_plugins(self):
        self.assertIn("Keep filters with a large norm", self.pare("list", "--plugin", "mine.py", "pruners"))
        self.assertIn("exponent of the magnitude", self.pare("help", "--plugin", "mine.py", "pruner", "mine"))

    def test_a_quantizer_trains_with_its_backward_pass(self):
        self.write("q.py", QUANTIZER)
        self.write("c.json", CONFIG)
        self.pare("quantize", "m.onnx", "--plugin", "q.py", "--quantizer", "largest", "--config", "c.json", "--data",
                  "digits", "--epochs", "1", "-q", "-o", "o.onnx")
        self.assertGreater(os.path.getsize("backward"), 10)
        self.assertTrue(pare.load("o.onnx").run(pare_input())["output"].shape == (2, 10))

    def test_a_recipe_loads_allowed_plugins(self):
        self.write("r.json", '{"model": "m.onnx", "data": "digits", "output": "o.onnx", "seconds": 0, "steps": '
                             '[{"step": "prune", "pruner": "mine", "plugin": "mine.py", "sparsity": 0.5}]}')
        self.assertIn("executable code", self.pare("compress", "r.json", code=1))
        self.pare("compress", "r.json", "--plugin", "mine.py", "-q")
        self.assertTrue((pare.load("o.onnx")["conv1.weight"] == 0).any())

    def test_an_exception_has_its_traceback(self):
        self.write("bad.py", PRUNER.replace("axes =", "raise KeyError('one of mine')\n        axes ="))
        words = ("prune", "m.onnx", "--pruner", "mine", "--sparsity", "0.5", "-o", "o.onnx", "--plugin")
        text = self.pare(*words, "bad.py", code=1)
        self.assertIn("Traceback", text)
        self.assertIn("bad.py\", line 11, in score", text)
        self.assertIn("one of mine", text)
        self.assertFalse(os.path.exists("o.onnx"))
        self.write("syntax.py", "class\n")
        self.assertIn("SyntaxError", self.pare(*words, "syntax.py", code=1))
        self.write("empty.py", "import pare\n")
        text = self.pare(*words, "empty.py", code=1)
        self.assertIn("empty.py: defines no subclass of pare.Pruner or pare.Quantizer", text)
        self.assertNotIn("Traceback", text)
        self.assertIn("missing.py", self.pare(*words, "missing.py", code=1))

    def test_the_program_names_the_module(self):
        r = subprocess.run([command(self), "list", "--plugin", "mine.py", "pruners"], capture_output=True, text=True)
        self.assertEqual(r.returncode, 1)
        self.assertIn("python3 -m pare", r.stderr)


def pare_input():
    import numpy as np
    return np.zeros((2, 1, 8, 8), np.float32)


if __name__ == "__main__":
    unittest.main()
