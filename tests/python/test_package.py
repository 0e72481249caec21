# test_package.py - the wheel and the Debian package, each installed in a folder of its own and used from there.
import os
import shutil
import subprocess
import sys
import unittest

from common import ROOT, Folder, lib

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

    def test_sources_need_no_newer_python_than_3_9(self):
        import ast
        for folder, _, names in os.walk(os.path.join(ROOT, "python")):
            for n in names:
                if n.endswith(".py"):
                    with open(os.path.join(folder, n), encoding="utf-8") as f:
                        ast.parse(f.read(), n, feature_version=(3, 9))


if __name__ == "__main__":
    unittest.main()
