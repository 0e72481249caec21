# wheel_backend.py - build backend of the package (PEP 517): a wheel with the library inside, by the standard library only.
#
# The library is PARE_LIBRARY, or build/libpare.so of the source tree, which `make all` makes.  Its dependencies
# (protobuf-c, Jansson, libpng, libjpeg, OpenMP, and oneDNN if it was built with it) stay those of the system.
import base64
import csv
import hashlib
import io
import os
import sysconfig
import zipfile

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(HERE)


def _version():
    with open(os.path.join(ROOT, "VERSION"), encoding="utf-8") as f:
        return f.read().strip()


def _metadata():
    return ("Metadata-Version: 2.1\nName: pare\nVersion: %s\nSummary: Make trained neural networks smaller and faster: "
            "ONNX in, ONNX out\nLicense: MIT\nRequires-Python: >=3.9\nRequires-Dist: numpy\n" % _version())


def _tag():
    return "py3-none-" + sysconfig.get_platform().replace("-", "_").replace(".", "_")


def _wheel():
    return "Wheel-Version: 1.0\nGenerator: pare\nRoot-Is-Purelib: false\nTag: %s\n" % _tag()


def _library():
    path = os.environ.get("PARE_LIBRARY") or os.path.join(ROOT, os.environ.get("BUILD", "build"), "libpare.so")
    if not os.path.exists(path):
        raise SystemExit("wheel_backend.py: %s does not exist; run 'make all' first, or name libpare.so in PARE_LIBRARY" % path)
    return path


def _package_files():
    for folder, dirs, names in sorted(os.walk(os.path.join(HERE, "pare"))):
        dirs[:] = sorted(n for n in dirs if n != "__pycache__")
        for n in sorted(names):
            if n.endswith((".py", ".typed")):
                path = os.path.join(folder, n)
                yield os.path.relpath(path, HERE), path


def _write(directory, files):
    """A wheel of [(name, bytes)]."""
    info, name = "pare-%s.dist-info" % _version(), "pare-%s-%s.whl" % (_version(), _tag())
    files = files + [(info + "/METADATA", _metadata().encode()), (info + "/WHEEL", _wheel().encode())]
    record = io.StringIO()
    rows = csv.writer(record, lineterminator="\n")
    with zipfile.ZipFile(os.path.join(directory, name), "w", zipfile.ZIP_DEFLATED) as z:
        for path, data in files:
            digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
            rows.writerow([path, "sha256=" + digest, len(data)])
            z.writestr(zipfile.ZipInfo(path, (2020, 1, 1, 0, 0, 0)), data, zipfile.ZIP_DEFLATED)
        rows.writerow([info + "/RECORD", "", ""])
        z.writestr(zipfile.ZipInfo(info + "/RECORD", (2020, 1, 1, 0, 0, 0)), record.getvalue())
    return name


def _read(path):
    with open(path, "rb") as f:
        return f.read()


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    files = [(name, _read(path)) for name, path in _package_files()]
    return _write(wheel_directory, files + [("pare/libpare.so", _read(_library()))])


def build_editable(wheel_directory, config_settings=None, metadata_directory=None):
    return _write(wheel_directory, [("pare.pth", (HERE + "\n").encode())])


def build_sdist(sdist_directory, config_settings=None):
    raise SystemExit("wheel_backend.py: a source distribution needs the whole tree; use the repository")
