"""`python -m pare ...`: the command pare of the same installation."""
from __future__ import annotations

import os
import shutil
import sys

from ._library import lib


def command() -> str:
    """The command next to the library, in the PATH otherwise."""
    folder = os.path.dirname(os.path.abspath(lib._name)) if os.path.sep in lib._name else ""
    for path in (os.path.join(folder, "pare"), os.path.join(os.path.dirname(folder), "bin", "pare")):
        if folder and os.path.isfile(path) and os.access(path, os.X_OK):
            return path
    return shutil.which("pare") or ""


def main() -> int:
    words = sys.argv[1:]
    for i, word in enumerate(words):
        value = word.split("=", 1)[1] if word.startswith("--plugin=") else words[i + 1] if word == "--plugin" and i + 1 < len(words) else ""
        if any(v.endswith(".py") for v in value.split(",")):
            print("pare: %s: the command loads plugins that are shared objects; a Python class is passed to "
                  "pare.prune() or pare.quantize()" % value, file=sys.stderr)
            return 2
    path = command()
    if not path:
        print("pare: the command was not found next to the library or in PATH; install the package 'pare'",
              file=sys.stderr)
        return 1
    os.execv(path, [path] + words)
    return 1


if __name__ == "__main__":
    sys.exit(main())
