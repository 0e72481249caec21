# test_model.py - models, data, training, compression and algorithms in Python.
import gc
import os
import signal
import subprocess
import sys
import threading
import time
import traceback
import unittest
import warnings
from unittest import mock

import numpy as np

from common import Folder, command, digits, lib, pare

try:
    import torch
except ImportError:
    torch = None
try:
    import onnx
except ImportError:
    onnx = None


class Filters(pare.Pruner):
    "Keep filters with a large norm."
    granularity, types = "out_channel", "Conv2d|Linear"
    options = {"power": (float, 1.0, "exponent of the magnitude", 0.5, 4)}
    seen = {}

    def score(self, layer):
        w = layer.weight
        Filters.seen[layer.name] = (w.ctypes.data, w.flags.writeable)
        return (np.abs(w) ** self.power).sum(axis=tuple(i for i in range(w.ndim) if i != layer.out_axis))


class Models(Folder):
    @classmethod
    def setUpClass(cls):
        cls.model = pare.new("lenet", (1, 8, 8), seed=1)
        cls.history = cls.model.train(digits(), digits("test"), epochs=3, threads=1, progress=False)

    def test_training_reports_epochs(self):
        self.assertEqual([e.epoch for e in self.history], [0, 1, 2])
        self.assertGreater(self.history[-1].valid_accuracy, 0.8)
        self.assertEqual(self.model.evaluate(digits("test"), progress=False).accuracy, self.history[-1].valid_accuracy)

    def test_layers_and_tensors(self):
        self.assertEqual([l.name for l in self.model.layers], ["conv1", "conv2", "fc1", "fc2"])
        self.assertEqual(self.model.layers[0].type, "Conv2d")
        self.assertIn("conv2", repr(self.model.inspect()))
        self.assertIn("<td>conv2</td>", self.model._repr_html_())
        w = self.model["conv1.weight"]
        self.assertFalse(w.flags.writeable)
        self.assertEqual(w.ctypes.data, self.model["conv1.weight"].ctypes.data)
        with self.assertRaisesRegex(pare.Error, "'nothing' is not an initializer"):
            self.model["nothing"]

    def test_views_keep_the_model(self):
        m = self.model.copy()
        w = m["conv1.weight"]
        expected = w.copy()
        del m
        gc.collect()
        np.testing.assert_array_equal(w, expected)

    def test_changed_weights_are_used_and_saved(self):
        m = self.model.copy()
        x = digits("test")[0][:4]
        before = m.run(x)["output"]
        m["fc2.bias"] = m["fc2.bias"] + 1
        np.testing.assert_allclose(m.run(x)["output"], before + 1, atol=1e-5)
        m.save("m.onnx")
        np.testing.assert_allclose(pare.load("m.onnx").run(x)["output"], before + 1, atol=1e-5)
        with self.assertRaisesRegex(pare.Error, "new value"):
            m["fc2.bias"] = np.zeros(3, np.float32)
        other = pare.new("lenet", (1, 8, 8), seed=9)
        other.load_state_dict(self.model.state_dict())
        np.testing.assert_array_equal(other.run(x)["output"], self.model.run(x)["output"])

    def test_settings_of_a_preset_stay_with_options_of_similar_names(self):
        digest = lambda **k: self.model.quantize("w4a8", data=digits(), **k).to_bytes()
        self.assertEqual(digest(rounding_items=64), digest(rounding="gptq", rounding_items=64))

    def test_runs_after_a_compression_was_closed(self):
        m = self.model.copy()
        x = digits("test")[0][:4]
        before = m.run(x)["output"]
        c = pare.Compression(m, quantizer="ptq", config=[{"quant_types": ["weight", "input"], "quant_bits": 4,
                                                          "op_types": ["Conv2d", "Linear"]}])
        c.use_data(digits())
        c.compress()
        quantized = m.run(x)["output"]               # a plan whose nodes call the quantizer
        self.assertGreater(np.abs(quantized - before).max(), 1e-3)
        c.close()
        after = m.run(x)["output"]
        np.testing.assert_array_equal(after, m.copy().run(x)["output"])

    def test_bytes_and_files(self):
        x = digits("test")[0][:4]
        expected = self.model.run({"input": x})["output"]
        for m in (pare.load(self.model.to_bytes()), self.model.copy()):
            np.testing.assert_array_equal(m.run(x)["output"], expected)
        with self.assertRaises(pare.Error) as c:
            pare.load("missing.onnx")
        self.assertEqual(c.exception.code, "IO")
        with self.assertRaisesRegex(pare.Error, "is not a model"):
            pare.load(3)
        with self.assertRaises(pare.Error):
            pare.load(b"nonsense")

    @unittest.skipUnless(onnx, "needs onnx")
    def test_model_proto(self):
        proto = self.model.to_onnx()
        onnx.checker.check_model(proto)
        self.assertEqual(pare.load(proto).params, self.model.params)

    def test_arguments_without_effect_are_errors(self):
        with self.assertRaisesRegex(pare.Error, "'input_shape', which only a torch.nn.Module takes"):
            pare.load(self.model.to_bytes(), input_shape=(1, 1, 8, 8))
        with self.assertRaisesRegex(pare.Error, "an example of inputs"):
            pare.load("m.onnx", np.zeros(3))
        with self.assertRaisesRegex(pare.Error, "widen=False needs the path"):
            pare.load(self.model.to_bytes(), widen=False)
        with self.assertRaisesRegex(pare.Error, "'finetune', which goes with budget or max_drop"):
            pare.compress(self.model, "int8", data=digits(), finetune=3)
        with self.assertRaisesRegex(pare.Error, "a preset and a budget"):
            pare.compress(self.model, "int8", data=digits(), budget="latency=0.5")
        with self.assertRaisesRegex(pare.Error, "a text or a dictionary"):
            pare.compress(self.model, data=digits(), budget=0.5)
        with self.assertRaisesRegex(pare.Error, "no option 'finetun'; it has batch, cache"):
            pare.compress(self.model, data=digits(), budget="macs=0.5", finetun=3)
        with self.assertRaisesRegex(pare.Error, "'tiny'"):
            pare.compress(self.model, budget="tiny", data=digits(), progress=False)
        with self.assertRaisesRegex(pare.Error, "either a pruner or a quantizer"):
            pare.Compression(self.model, pruner="l1", quantizer="qat", config=[{"sparsity": 0.5}])
        with self.assertRaisesRegex(pare.Error, "registry goes with a name"):
            pare.prune(self.model, Filters, sparsity=0.5, registry=pare.Registry())

    def test_wrong_inputs_are_errors(self):
        with self.assertRaisesRegex(pare.Error, "no input 'y'"):
            self.model.run({"y": np.zeros(3)})
        with self.assertRaises(pare.Error):
            self.model.run(np.zeros((1, 2, 8, 8), np.float32))

    def test_prune_speedup_quantize_report(self):
        before = self.model.state_dict()
        small = pare.prune(self.model, "l1", sparsity=0.5, speedup=True, progress=False)
        for name, value in before.items():
            np.testing.assert_array_equal(self.model[name], value)       # the argument is not changed
        self.assertLess(small.report.params_left, small.report.params)
        small.train(digits(), epochs=2, teacher=self.model, threads=1, progress=False)
        int8 = small.quantize("int8", data=digits(), progress=False)
        self.assertGreater(int8.evaluate(digits("test"), progress=False)["top-1"], 0.8)
        r = pare.report(self.model, small, int8, data=digits("test"), names=["a", "b", "c"], seconds=0.05, progress=False)
        self.assertLess(r.rows[2]["bytes"], r.rows[0]["bytes"] / 5)
        self.assertIn("top-1", r._repr_html_())

    def test_compress_to_a_budget(self):
        lines = []
        small = pare.compress(self.model, budget={"macs": 0.4, "size": "300KB"}, methods="channels", data=digits(),
                              valid=digits("test"), threads=1, seconds=2, say=lines.append, progress=False)
        r = small.report
        self.assertTrue(r.met)
        self.assertLessEqual(small.inspect().macs, 0.4 * self.model.inspect().macs)
        self.assertLessEqual(small.inspect().macs, r.cost.macs.after)
        self.assertLessEqual(r.cost["size"].after, 300e3)
        self.assertIsNone(r.cost.latency.limit)
        self.assertEqual([l.name for l in r.layers], ["conv1", "conv2", "fc1", "fc2"])
        self.assertEqual(r.after.accuracy, small.evaluate(digits("test"), progress=False).accuracy)
        self.assertIn("held-out items", repr(r))
        self.assertIn("<td>macs M</td>", r._repr_html_())
        self.assertTrue(any("stage 1 of 3" in l for l in lines), lines)

    def test_compress_to_a_bound_of_the_accuracy(self):
        with warnings.catch_warnings():
            warnings.simplefilter("error")           # no budget is missed where none is given
            small = pare.compress(self.model, max_drop=5, methods="channels", data=digits(), threads=1, seconds=2,
                                  progress=False)
        self.assertTrue(small.report.met)
        self.assertGreater(small.report.held_after, small.report.held_before - 0.05)
        self.assertLess(small.params, self.model.params)

    def test_missed_budget_is_a_warning(self):
        with self.assertWarnsRegex(UserWarning, "the budget is missed"):
            small = pare.compress(self.model, budget="macs=0.0001", methods="channels", data=digits(), threads=1, seconds=1,
                                  progress=False)
        self.assertFalse(small.report.met)
        lines = []

        def fails(line):
            lines.append(line)
            return 1 / 0

        with self.assertRaises(ZeroDivisionError):   # of a callback, which ends the search
            pare.compress(self.model, budget="macs=0.5", data=digits(), threads=1, seconds=1, progress=False, say=fails)
        self.assertEqual(len(lines), 1)

    def test_same_masks_as_the_command(self):
        pare_command = command(self)
        self.model.save("m.onnx")
        for pruner in ("level", "l1", "fpgm"):
            subprocess.run([pare_command, "prune", "m.onnx", "--pruner", pruner, "--sparsity", "0.5", "-o", "p.onnx"],
                           check=True, capture_output=True)
            got, expected = pare.prune("m.onnx", pruner, sparsity=0.5, progress=False), pare.load("p.onnx")
            for name in expected.tensors():
                np.testing.assert_array_equal(got[name], expected[name])

    def test_data_from_iterables(self):
        x, y = digits("test")
        expected = self.model.evaluate((x, y), progress=False).accuracy
        batches = [(x[i:i + 50], y[i:i + 50]) for i in range(0, len(x), 50)]
        self.assertEqual(self.model.evaluate(batches, progress=False).accuracy, expected)
        self.assertEqual(self.model.evaluate(({"input": x}, y), progress=False).accuracy, expected)
        if torch is not None:
            loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(torch.from_numpy(x), torch.from_numpy(y)),
                                                 batch_size=40)
            self.assertEqual(self.model.evaluate(loader, progress=False).accuracy, expected)
        with self.assertRaisesRegex(pare.Error, "labels for"):
            pare.Data.arrays(x, y[:5])

    @unittest.skipUnless(torch, "needs PyTorch")
    def test_loader_that_shuffles_is_shuffled_in_each_epoch(self):
        set_ = torch.utils.data.TensorDataset(*(torch.from_numpy(a[:60]) for a in digits()))
        orders = {}
        for shuffle in (False, True):
            data = pare.Data.batches(torch.utils.data.DataLoader(set_, batch_size=20, shuffle=shuffle))
            training = pare.Training(self.model.copy(), data, epochs=2, threads=1, progress=False)
            epochs = [[], []]
            for labels in epochs:
                while (batch := training.next()) is not None:
                    labels.extend(batch[1].tolist())
            orders[shuffle] = epochs
            self.assertEqual(sorted(epochs[0]), sorted(digits()[1][:60].tolist()))
        self.assertEqual(orders[False][0], orders[False][1])
        self.assertNotEqual(orders[True][0], orders[True][1])

    def test_lists_of_algorithms(self):
        self.assertIn("l1", [p.name for p in pare.pruners()])
        self.assertIn("int8", pare.presets())
        qat = next(q for q in pare.quantizers() if q.name == "qat")
        self.assertEqual([o.default for o in qat.options if o.name == "ema_decay"], [0.99])
        level = next(p for p in pare.pruners() if p.name == "level")     # those of all pruners, too
        self.assertIn("global", next(o for o in level.options if o.name == "mode").choices)
        self.assertIn("sparsity", [k.name for k in level["keys"]])
        self.assertIn("quant_bits", [k.name for k in qat["keys"]])

    # ---- algorithms ----
    def test_python_pruner_equals_l1_without_copies(self):
        Filters.seen.clear()
        got = pare.prune(self.model, Filters, sparsity=0.5, progress=False)
        expected = pare.prune(self.model, "l1", sparsity=0.5, progress=False)
        for name in expected.tensors():
            np.testing.assert_array_equal(got[name], expected[name])
        self.assertTrue(all(not writable for _, writable in Filters.seen.values()))
        m = self.model.copy()
        c = pare.Compression(m, pruner=Filters, config=[{"sparsity": 0.5, "op_types": ["Conv2d"]}])
        address = {l.name: l.weight.ctypes.data for l in c.layers}
        c.compress(progress=False)
        self.assertEqual({n: a for n, (a, _) in Filters.seen.items() if n in address}, address)

    def test_sums_of_units(self):
        """sums() is what l1 and l2 rank by; numpy gets the same for every shape of units."""
        class Sums(pare.Pruner):
            power = 1

            def score(self, layer):
                w = layer.weight
                s = layer.sums(self.power)
                block = [n // g for n, g in zip(w.shape, s.shape)]
                cut = np.abs(w.astype(np.float64)).reshape([k for p in zip(s.shape, block) for k in p])
                expected = (cut ** self.power).sum(axis=tuple(range(1, 2 * w.ndim, 2)))
                np.testing.assert_allclose(s, expected, rtol=1e-6)
                np.testing.assert_array_equal(s, layer.sums(self.power, of=-w.astype(np.float64)))
                seen.append(s.shape == layer.units)
                return s

        class Squares(Sums):
            power = 2

        seen = []
        for cls, name in ((Sums, "l1"), (Squares, "l2")):
            for units in ({"granularity": "out_channel"}, {"granularity": "in_channel"}, {"granularity": "element"},
                          {"granularity": "block", "block": [5, 5]}):
                config = [{"sparsity": 0.5, "op_types": ["Conv2d", "Linear"], **units}]
                got, expected = (pare.prune(self.model, p, config=config, progress=False) for p in (cls, name))
                for tensor in expected.tensors():
                    np.testing.assert_array_equal(got[tensor], expected[tensor])
        self.assertTrue(seen and all(seen))
        layer = pare.Compression(self.model.copy(), pruner="l1", config=[{"sparsity": 0.5, "op_types": ["Conv2d"]}]).layers[0]
        with self.assertRaisesRegex(ValueError, "power 3, must be 1 or 2"):
            layer.sums(3)
        with self.assertRaisesRegex(ValueError, r"got an array of shape \(3,\), its weight has"):
            layer.sums(of=np.zeros(3))

    def test_scores_of_any_type_and_order(self):
        def masks(change):
            made = type("Made", (Filters,), {"score": lambda self, layer: change(Filters.score(self, layer))})
            return pare.prune(self.model, made, sparsity=0.5, progress=False)

        expected = masks(lambda s: s)
        for change in (list, lambda s: s.astype(np.float64), lambda s: np.stack([s, s], 1)[:, 0], lambda s: s[:, None]):
            got = masks(change)
            for name in expected.tensors():
                np.testing.assert_array_equal(got[name], expected[name])

    def test_registry_is_freed_before_or_after_its_compression(self):
        for first in (True, False):
            r = pare.Registry()
            c = pare.Compression(self.model.copy(), pruner=r.add(Filters), registry=r,
                                 config=[{"sparsity": 0.5, "op_types": ["Conv2d"]}])
            c.compress(progress=False)
            c.data_cycle = [c, r]
            (r if first else c).close()
            (c if first else r).close()
            with self.assertRaisesRegex(pare.Error, "was closed"):
                c.update_masks()
            del c, r
            gc.collect()

    def test_options_are_checked_by_the_library(self):
        pare.prune(self.model, Filters, sparsity=0.5, power=2, progress=False)
        with self.assertRaisesRegex(pare.Error, r"option 'power' is 9, must be in \[0.5, 4\]"):
            pare.prune(self.model, Filters, sparsity=0.5, power=9, progress=False)

    def test_exceptions_have_their_traceback(self):
        class Fails(Filters):
            def score(self, layer):
                return [][3]

        try:
            pare.prune(self.model, Fails, sparsity=0.5, progress=False)
            self.fail("no exception")
        except IndexError:
            self.assertIn("return [][3]", traceback.format_exc())
        pare.prune(self.model, "l1", sparsity=0.5, progress=False)       # nothing stays pending

    def test_class_with_the_name_of_a_built_in_pruner(self):
        class L1(Filters):
            "Keep all filters the same: the first ones are removed."
            def score(self, layer):
                return np.ones(layer.units)

        got = pare.prune(self.model, L1, sparsity=0.5, progress=False)["conv2.weight"]
        np.testing.assert_array_equal(np.flatnonzero((got != 0).any(axis=(1, 2, 3))), np.arange(25, 50))

    def test_exceptions_of_every_callback_have_their_traceback(self):
        config = [{"quant_types": ["weight", "output"], "quant_bits": 8, "quant_dtype": "int", "op_types": ["Conv2d"]}]

        def fails(*arguments):
            return 1 / 0

        def train(**methods):
            kind = pare.Quantizer if any(k in methods for k in ("quantize_weight", "quantize_output", "backward")) else pare.Pruner
            base = {"granularity": "out_channel", "score": lambda self, layer: np.ones(layer.units)}
            if kind is pare.Quantizer:
                base = {"quantize_weight": lambda self, layer, w: w, "quantize_output": lambda self, layer, x: x}
            algorithm = type("Fails", (kind,), {**base, **methods})
            keep = {"quantizer": algorithm, "config": config} if kind is pare.Quantizer else {
                "pruner": algorithm, "config": [{"sparsity": 0.5, "op_types": ["Conv2d"]}]}
            model = self.model.copy()
            training = pare.Training(model, digits(), epochs=1, threads=1, progress=False)
            c = pare.Compression(model, **keep)
            c.follow(training)
            c.compress(progress=False)
            training.run()

        def collector():
            c = pare.Compression(self.model.copy(), pruner="l1", config=[{"sparsity": 0.5, "op_types": ["Conv2d"]}])
            training = pare.Training(c.model, digits(), epochs=1, threads=1, progress=False)
            c.follow(training)
            c.add_collector(fails)
            c.compress(progress=False)
            training.run()

        cases = {h: (lambda h=h: train(**{h: fails})) for h in (
            "start", "on_epoch", "before_step", "on_step", "loss", "calc_mask", "quantize_weight", "quantize_output", "backward")}
        cases["collector"] = collector
        cases["progress"] = lambda: self.model.copy().train(digits(), epochs=1, threads=1, progress=fails)
        cases["end of an epoch"] = lambda: self.model.copy().train(digits(), epochs=1, threads=1, progress=False, on_epoch=fails)
        cases["data"] = lambda: self.model.evaluate((fails() for _ in range(3)), progress=False)
        for name, run in cases.items():
            with self.subTest(name):
                try:
                    run()
                    self.fail("no exception")
                except ZeroDivisionError:
                    self.assertIn("return 1 / 0", traceback.format_exc())
        self.model.evaluate(digits("test"), progress=False)              # nothing stays pending

    def test_model_is_freed_if_a_callback_failed_unnoticed(self):
        """The function succeeds, since its callback could not tell it; the model that it made is freed."""
        gc.collect()                                 # models of other tests
        freed, prune, free = [], lib.pare_prune, lib.pare_model_free

        def late(*arguments):
            code = prune(*arguments)
            pare._library.pend(ZeroDivisionError("late"))
            return code

        def count(pointer):
            freed.append(pointer.value)
            free(pointer)

        with mock.patch.dict(lib.__dict__, {"pare_prune": late, "pare_model_free": count}):
            with self.assertRaises(ZeroDivisionError):
                pare.prune(self.model, "l1", sparsity=0.5, progress=False)
            gc.collect()
        self.assertEqual(len(freed), 2)              # the copy that is pruned, and the result

    def test_python_quantizer_trains(self):
        class Largest(pare.Quantizer):
            "Scale by the largest magnitude."
            calls = 0

            def quantize_weight(self, layer, w):
                q = layer.quant("weight")
                s = float(np.abs(w).max()) / q.qmax
                layer.scale("weight")[...], layer.zero_point("weight")[...] = s, 0
                return np.clip(np.round(w / s), q.qmin, q.qmax) * s

            def backward(self, layer, site, x, gy):
                Largest.calls += 1
                return np.where(np.abs(x) > 1, 0, gy)

        q = pare.quantize(self.model, quantizer=Largest, data=digits(), valid=digits("test"), epochs=1,
                          train={"threads": 1}, progress=False,
                          config=[{"quant_types": ["weight"], "quant_bits": 8, "quant_dtype": "int",
                                   "op_types": ["Conv2d", "Linear"]}])
        self.assertGreater(Largest.calls, 20)
        self.assertGreater(q.report.after.accuracy, 0.8)

    def test_results_are_written_without_a_copy(self):
        """A parameter `out` is the library's array; the training is the same as with arrays of the methods' own."""
        class Own(pare.Quantizer):
            def quantize_output(self, layer, x):
                return np.round(x * 16) / 16

            def backward(self, layer, site, x, gy):
                return gy * (np.abs(x) <= 1)

        class Direct(pare.Quantizer):
            addresses = set()

            def quantize_output(self, layer, x, out):
                Direct.addresses.add((out.ctypes.data, out.flags.writeable, x.flags.writeable))
                np.round(np.multiply(x, 16, out=out), out=out)
                return np.divide(out, 16, out=out)

            def backward(self, layer, site, x, gy, out):
                return np.multiply(gy, np.abs(x) <= 1, out=out)

        losses = {}
        x, y = digits()
        for quantizer in (Own, Direct):
            model = self.model.copy()
            training = pare.Training(model, optimizer="sgd", lr=0.01, threads=1, progress=False)
            c = pare.Compression(model, quantizer=quantizer, config=[{"quant_types": ["output"], "quant_bits": 8,
                                                                      "op_types": ["Conv2d"]}])
            c.follow(training)
            c.compress(progress=False)
            losses[quantizer] = [training.step(x[i:i + 64], y[i:i + 64]) for i in range(0, 256, 64)]
        self.assertEqual(losses[Own], losses[Direct])
        self.assertEqual({a[1:] for a in Direct.addresses}, {(True, False)})

    # ---- progress, interruption, threads ----
    def test_progress_cancels(self):
        seen = []

        def progress(p):
            seen.append(p)
            return len(seen) < 5

        with self.assertRaises(pare.Canceled):
            self.model.copy().train(digits(), epochs=50, threads=1, progress=progress)
        self.assertEqual(len(seen), 5)
        self.assertEqual(seen[0].what, "train")

    def test_interrupt_leaves_a_checkpoint_that_resumes(self):
        code = ("import sys; sys.path[:0] = %r\nfrom common import digits, pare\n"
                "m = pare.new('lenet', (1, 8, 8), seed=1)\n"
                "def show(p):\n    if p.done == 60: print('training', flush=True)\n"
                "try:\n    m.train(digits(), epochs=%d, threads=1, progress=show, checkpoint='c d.safetensors', resume=True)\n"
                "except KeyboardInterrupt: print('interrupted')\n"
                "else: m.save('%s')\n")
        path = [os.path.dirname(os.path.abspath(__file__))]
        child = subprocess.Popen([sys.executable, "-c", code % (path, 300, "x.onnx")], stdout=subprocess.PIPE, text=True)
        self.assertEqual(child.stdout.readline(), "training\n")
        time.sleep(0.3)
        child.send_signal(signal.SIGINT)
        out, _ = child.communicate(timeout=60)
        self.assertEqual((out, child.returncode), ("interrupted\n", 0))
        self.assertTrue(os.path.exists("c d.safetensors"))
        r = subprocess.run([sys.executable, "-c", "import sys; sys.path[:0] = %r\nfrom common import digits, pare\n"
                            "m = pare.new('lenet', (1, 8, 8), seed=1)\n"
                            "h = m.train(digits(), epochs=300, threads=1, progress=False, checkpoint='c d.safetensors', "
                            "resume=True, on_epoch=lambda e: False)\nprint(h[0].epoch > 0)\n" % path],
                           capture_output=True, text=True)
        self.assertEqual(r.stdout, "True\n", r.stderr)      # it resumes in the epoch of the checkpoint

    def test_two_threads_with_two_models(self):
        results = {}

        def work(seed):
            m = pare.new("lenet", (1, 8, 8), seed=seed)
            m.train(digits(), epochs=1, threads=1, progress=False)
            p = pare.prune(m, Filters if seed % 2 else "l1", sparsity=0.5, progress=False)
            results[seed] = p.run(digits("test")[0][:8])["output"]

        alone = {}
        for seed in (1, 2):
            work(seed)
            alone[seed] = results.pop(seed)
        threads = [threading.Thread(target=work, args=(s,)) for s in (1, 2)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        for seed in (1, 2):
            np.testing.assert_array_equal(results[seed], alone[seed])


@unittest.skipUnless(torch, "needs PyTorch")
class Torch(Folder):
    class Net(torch.nn.Module if torch else object):
        def __init__(self):
            super().__init__()
            self.conv1, self.bn1 = torch.nn.Conv2d(1, 8, 3, padding=1), torch.nn.BatchNorm2d(8)
            self.conv2, self.bn2 = torch.nn.Conv2d(8, 8, 3, padding=1), torch.nn.BatchNorm2d(8)
            self.fc = torch.nn.Linear(8 * 64, 10)

        def forward(self, x):
            a = torch.relu(self.bn1(self.conv1(x)))
            return self.fc(torch.relu(self.bn2(self.conv2(a)) + a).flatten(1))

    def test_module_in_and_weights_back(self):
        net = self.Net().train()
        model = pare.load(net, torch.rand(2, 1, 8, 8))
        self.assertTrue(net.training)
        self.assertEqual(model.inputs[0].shape, (-1, 1, 8, 8))
        self.assertLessEqual({n for n, _ in net.named_parameters()}, set(model.tensors()))
        model.train(digits(), epochs=1, threads=1, progress=False)
        model.to_torch()
        net.eval()
        x = torch.from_numpy(digits("test")[0][:9])
        np.testing.assert_allclose(net(x).detach().numpy(), model.run(x)["output"], atol=1e-4)

    def test_smaller_module_is_rebuilt(self):
        net = self.Net().eval()
        model = pare.load(net, input_shape=(1, 1, 8, 8))
        small = pare.prune(model, "l1", sparsity=0.5, speedup=True, progress=False)
        small.to_torch(net)
        self.assertEqual(net.conv1.out_channels, 4)
        self.assertEqual(net.bn1.num_features, 4)
        x = torch.rand(3, 1, 8, 8)
        np.testing.assert_allclose(net(x).detach().numpy(), small.run(x)["output"], atol=1e-4)

    def test_smaller_depthwise_convolution_is_rebuilt(self):
        layers = torch.nn
        net = layers.Sequential(layers.Conv2d(1, 16, 3, padding=1), layers.BatchNorm2d(16), layers.ReLU6(),
                                layers.Conv2d(16, 16, 3, padding=1, groups=16), layers.BatchNorm2d(16), layers.ReLU6(),
                                layers.Conv2d(16, 8, 1), layers.AdaptiveAvgPool2d(1), layers.Flatten(), layers.Linear(8, 10)).eval()
        small = pare.prune(pare.load(net, torch.rand(1, 1, 8, 8)), "l1", sparsity=0.5, speedup=True, progress=False)
        small.to_torch(net)
        self.assertEqual((net[3].groups, net[3].in_channels, net[6].in_channels), (8, 8, 8))
        x = torch.rand(3, 1, 8, 8)
        np.testing.assert_allclose(net(x).detach().numpy(), small.run(x)["output"], atol=1e-5)
        self.assertEqual(net(x).shape, (3, 10))
        net(x).sum().backward()                      # it can be trained
        self.assertEqual(net[3].weight.grad.shape, net[3].weight.shape)

    def test_module_that_cannot_be_rebuilt_stays_as_it_is(self):
        class Product(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.conv1, self.conv2 = torch.nn.Conv2d(1, 8, 3), torch.nn.Conv2d(8, 8, 3)
                self.unused = torch.nn.Parameter(torch.ones(8))

            def forward(self, x):
                return self.conv2(torch.relu(self.conv1(x)))

        net = Product().eval()
        before = {k: v.clone() for k, v in net.state_dict().items()}
        small = pare.prune(pare.load(net, torch.rand(1, 1, 8, 8)), "l1", sparsity=0.5, speedup=True, progress=False,
                           config=[{"sparsity": 0.5, "op_names": ["conv1"]}])
        with self.assertRaisesRegex(pare.Error, "'unused' has no counterpart"):
            small.to_torch(net)
        for key, value in net.state_dict().items():
            self.assertTrue(torch.equal(value, before[key]), key)
        self.assertEqual(pare.torch.state_dict(small)["conv1.weight"].shape[0], 4)

    def test_module_without_example_is_an_error(self):
        with self.assertRaisesRegex(pare.Error, "needs an example of its inputs"):
            pare.load(self.Net())


if __name__ == "__main__":
    unittest.main()
