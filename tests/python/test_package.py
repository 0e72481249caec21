# test_package.py - the wheel and the Debian package, each installed in a folder of its own and used from there.
import glob
import os
import shutil
import subprocess
import sys
import unittest

from common import ROOT, Folder, lib, pare

USE = ("import pare\nm = pare.new('lenet', (1, 8, 8))\n"
       "print(pare.prune(m, 'l1', sparsity=0.5, speedup=True, progress=False).params)\nprint(pare.__file__)\n"
       "from pare._library import lib\nprint(lib._name)\n")


class Package(Folder):
    def use(self, path, **env):
        env = {**{k: v for k, v in os.environ.items() if k != "PARE_LIBRARY"}, "PYTHONPATH": path, **env}
        r = subprocess.run([sys.executable, "-c", USE], capture_output=True, text=True, env=env)
        self.assertEqual(r.returncode, 0, r.stderr)
        params, file, library = r.stdout.split()
        self.assertEqual(int(params), 34295)
        self.assertTrue(file.startswith(path))
        return library

    def test_wheel_has_the_library(self):
        env = {**os.environ, "PARE_LIBRARY": os.path.abspath(lib._name)}
        r = subprocess.run([sys.executable, "-m", "pip", "install", "--no-index", "--no-deps", "--target", "site",
                            "--no-cache-dir", os.path.join(ROOT, "python")], capture_output=True, text=True, env=env)
        if "No module named pip" in r.stderr:
            self.skipTest("needs pip")
        self.assertEqual(r.returncode, 0, r.stderr + r.stdout)
        site = os.path.join(self.folder, "site")
        self.assertEqual(self.use(site), os.path.join(site, "pare", "libpare.so"))
        self.assertTrue(os.path.exists(os.path.join(site, "pare", "py.typed")))

    def test_debian_package_has_the_modules(self):
        if not shutil.which("dpkg-deb"):
            self.skipTest("needs dpkg-deb")
        subprocess.run([os.path.join(ROOT, "tools", "python_deb.sh"), self.folder], check=True, capture_output=True)
        deb = next(n for n in os.listdir(".") if n.startswith("python3-pare_") and n.endswith("_all.deb"))
        subprocess.run(["dpkg-deb", "-x", deb, "root"], check=True)
        site = os.path.join(self.folder, "root", "usr", "lib", "python3", "dist-packages")
        self.use(site, PARE_LIBRARY=os.path.abspath(lib._name))
        control = subprocess.run(["dpkg-deb", "-f", deb, "Depends"], capture_output=True, text=True).stdout
        self.assertIn("python3-numpy", control)

    def test_submodules_are_imported_when_they_are_used(self):
        code = ("import sys, pare\nassert not {'torch', 'pare.nni', 'pare.torch'} & set(sys.modules)\n"
                "print(pare.torch.__name__, pare.nni.__name__)\ntry:\n    pare.nothing\nexcept AttributeError as e:\n    print(e)\n")
        r = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env={
            **os.environ, "PARE_LIBRARY": os.path.abspath(lib._name), "PYTHONPATH": os.path.join(ROOT, "python")})
        self.assertEqual(r.stdout, "pare.torch pare.nni\nmodule 'pare' has no attribute 'nothing'\n", r.stderr)

    def test_sources_need_no_newer_python_than_3_9(self):
        import ast
        for folder, _, names in os.walk(os.path.join(ROOT, "python")):
            for n in names:
                if n.endswith(".py"):
                    with open(os.path.join(folder, n), encoding="utf-8") as f:
                        ast.parse(f.read(), n, feature_version=(3, 9))

    def test_types(self):
        """mypy finds no error in the package, and in a program that uses it."""
        if not shutil.which("mypy"):
            self.skipTest("needs mypy")
        with open("use.py", "w", encoding="utf-8") as f:
            f.write("import pare\nm: pare.Model = pare.load('m.onnx')\nlayers: list[pare.Layer] = m.layers\n"
                    "small = pare.compress(m, budget='latency=0.5', data='digits')\nreveal_type(small)\n")
        r = subprocess.run(["mypy", "--config-file", os.path.join(ROOT, "python", "pyproject.toml"), "--cache-dir",
                            os.path.join(os.environ.get("PARE_BUILD", "."), "mypy"), os.path.join(ROOT, "python", "pare"), "use.py"],
                           capture_output=True, text=True, env={**os.environ, "MYPYPATH": os.path.join(ROOT, "python")})
        self.assertEqual(r.returncode, 0, r.stdout + r.stderr)
        self.assertIn('Revealed type is "pare._model.Model"', r.stdout)

    def test_other_interpreters(self):
        """Every Python from 3.9 that is found compiles the modules, and loads and checks the library; one with numpy prunes."""
        found = {}
        for path in glob.glob(os.path.expanduser("~/.pyenv/versions/3.*/bin/python3")) + [
                shutil.which("python3.%d" % n) for n in range(9, 15)]:
            version = path and subprocess.run([path, "-c", "import sys; print(*sys.version_info[:2])"],
                                              capture_output=True, text=True).stdout
            if version and (3, 9) <= tuple(map(int, version.split())):
                found[version.strip()] = path
        for version, path in sorted(found.items()):
            with self.subTest(version):
                code = ("import compileall, sys, types\nroot = %r\n"
                        "assert compileall.compile_dir(root, quiet=1, force=True), 'not compiled'\n"
                        "p = types.ModuleType('pare'); p.__path__ = [root]; sys.modules['pare'] = p\n"
                        "from pare import _library\nprint(_library.lib.pare_version().decode())\n"
                        % shutil.copytree(os.path.join(ROOT, "python", "pare"), "copy" + version.replace(" ", "."),
                                          ignore=shutil.ignore_patterns("__pycache__", "*.so*")))
                env = {**os.environ, "PARE_LIBRARY": os.path.abspath(lib._name)}
                r = subprocess.run([path, "-W", "error", "-c", code], capture_output=True, text=True, env=env)
                self.assertEqual((r.returncode, r.stdout.strip()), (0, pare.__version__), r.stderr)
                if subprocess.run([path, "-c", "import numpy"], capture_output=True).returncode == 0:
                    self.use_with(path)

    def use_with(self, interpreter):
        env = {**os.environ, "PARE_LIBRARY": os.path.abspath(lib._name), "PYTHONPATH": os.path.join(ROOT, "python")}
        r = subprocess.run([interpreter, "-c", USE], capture_output=True, text=True, env=env)
        self.assertEqual(r.stdout.split()[:1], ["34295"], r.stderr)


if __name__ == "__main__":
    unittest.main()
