# test_declarations.py - ctypes declarations against headers, compiler and library.
import ctypes
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

from common import ROOT, d, lib

TOOL = os.path.join(ROOT, "tools", "make_python.py")


def c_path(struct):
    """(field, offset, size) of each field of a ctypes struct."""
    for name, _ in struct._fields_:
        f = getattr(struct, name)
        yield name, f.offset, f.size


class Declarations(unittest.TestCase):
    def test_file_equals_what_the_headers_generate(self):
        subprocess.run([sys.executable, TOOL, "--check"], check=True)

    def test_changed_header_is_noticed(self):
        with tempfile.TemporaryDirectory() as dir:
            path = os.path.join(dir, "old.py")
            with open(os.path.join(ROOT, "python", "pare", "_declarations.py"), encoding="utf-8") as f:
                text = f.read()
            with open(path, "w", encoding="utf-8") as f:
                f.write(text.replace('("rank", c_int)', '("rank", c_int64)', 1))
            r = subprocess.run([sys.executable, TOOL, "--check", "-o", path], capture_output=True, text=True)
            self.assertEqual(r.returncode, 1)
            self.assertIn("differs from the headers", r.stderr)

    @unittest.skipUnless(shutil.which("cc"), "needs a C compiler")
    def test_offsets_and_sizes_equal_the_compiler_s(self):
        lines = ["#include <pare/analyze.h>\n#include <pare/budget.h>", "#include <pare/compress.h>", "#include <pare/plugin.h>", "#include <pare/command.h>"]
        n = 0
        for s in d.STRUCTS:
            name = s.__name__
            lines.append(f'_Static_assert(sizeof(struct {name}) == {ctypes.sizeof(s)}, "{name}");')
            for field, offset, size in c_path(s):
                lines.append(f"_Static_assert(offsetof(struct {name}, {field}) == {offset} && "
                             f'sizeof(((struct {name} *)0)->{field}) == {size}, "{name}.{field}");')
                n += 1
        for name, value in vars(d).items():
            if name.startswith("PARE_") and isinstance(value, int):
                lines.append(f'_Static_assert({name} == {value}, "{name}");')
        self.assertGreater(n, 400)
        with tempfile.TemporaryDirectory() as dir:
            path = os.path.join(dir, "offsets.c")
            with open(path, "w", encoding="utf-8") as f:
                f.write("\n".join(lines) + "\n")
            r = subprocess.run(["cc", "-fsyntax-only", "-I", os.path.join(ROOT, "include"), path],
                               capture_output=True, text=True)
            self.assertEqual(r.returncode, 0, r.stderr)

    def test_library_has_every_struct_with_the_same_size(self):
        for s in d.STRUCTS:
            self.assertEqual(lib.pare_struct_size(s.__name__.encode()), ctypes.sizeof(s), s.__name__)

    def test_every_public_function_is_declared(self):
        nm = shutil.which("nm")
        if not nm:
            self.skipTest("needs nm")
        out = subprocess.run([nm, "-D", "--defined-only", lib._name], capture_output=True, text=True).stdout
        exported = {line.split()[2] for line in out.splitlines() if line.split()[1] == "T"}
        variadic = {"pare_fail", "pare_no_memory", "pare_at"}
        self.assertEqual(exported - set(d.FUNCTIONS) - variadic, set())


class Import(unittest.TestCase):
    def fails(self, env, code="import pare"):
        r = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True,
                           env={**os.environ, "PYTHONPATH": os.path.join(ROOT, "python"), **env})
        self.assertEqual(r.returncode, 1, r.stdout)
        return r.stderr.splitlines()[-1]

    def test_missing_library_is_one_sentence(self):
        self.assertIn("ImportError: libpare was not found; install it",
                      self.fails({"PARE_LIBRARY": "/nothing/libpare.so"}))

    def test_another_library_is_refused(self):
        self.assertIn("is not libpare", self.fails({"PARE_LIBRARY": "libc.so.6"}))

    def test_another_abi_is_refused(self):
        code = ("import importlib.util, sys, os\n"
                "spec = importlib.util.find_spec('pare')\n"
                "p = os.path.join(os.path.dirname(spec.origin), '_declarations.py')\n"
                "text = open(p).read().replace('PARE_ABI = ', 'PARE_ABI = 10 + ', 1)\n"
                "s = importlib.util.spec_from_loader('pare._declarations', None)\n"
                "m = importlib.util.module_from_spec(s)\nexec(text, m.__dict__)\n"
                "sys.modules['pare._declarations'] = m\nimport pare\n")
        self.assertIn("has binary interface", self.fails({}, code))

    def test_another_struct_size_is_refused(self):
        code = ("import importlib.util, sys, os\n"
                "spec = importlib.util.find_spec('pare')\n"
                "p = os.path.join(os.path.dirname(spec.origin), '_declarations.py')\n"
                "text = open(p).read().replace('(c_char * 512)', '(c_char * 500)', 1)\n"
                "s = importlib.util.spec_from_loader('pare._declarations', None)\n"
                "m = importlib.util.module_from_spec(s)\nexec(text, m.__dict__)\n"
                "sys.modules['pare._declarations'] = m\nimport pare\n")
        self.assertIn("struct pare_err has 516 bytes", self.fails({}, code))


if __name__ == "__main__":
    unittest.main()
