# SPDX-License-Identifier: Apache-2.0
"""Tests the installed package: what is in it, what it says of torch, what it imports, and what it refuses to load.

    PYTHONPATH=build-torch/python python build-torch/test/test_package.py SOURCE

SOURCE: the directory with pyproject.toml.
"""
import importlib.metadata
import importlib.util
import inspect
import os
import shutil
import subprocess
import sys
import tempfile
import typing
import unittest
from pathlib import Path

import torch

import hunch

SOURCE = Path(sys.argv.pop()).resolve() if len(sys.argv) > 1 else None
INSTALLED = Path(hunch.__file__).parent


def run(code, *paths):
    """Runs code in another interpreter, where `paths` come first; what it prints, or its error."""
    env = dict(os.environ, PYTHONPATH=os.pathsep.join([*map(str, paths), str(INSTALLED.parent)]))
    done = subprocess.run([sys.executable, "-B", "-c", code], env=env, cwd=tempfile.gettempdir(), capture_output=True,
                          text=True)
    return done.stdout + done.stderr


class Package(unittest.TestCase):
    def test_the_wheel_says_which_torch_it_is_for(self):
        said = importlib.metadata.metadata("hunch-torch")
        self.assertEqual(said["Name"], "hunch-torch")
        minor = ".".join(torch.__version__.split(".")[:2])
        self.assertEqual(set(said.get_all("Requires-Dist")),
                         {f"torch=={minor}.*", 'transformers>=5.24; extra == "transformers"'})
        self.assertEqual(said.get_all("Provides-Extra"), ["transformers"])
        from hunch import _built
        self.assertEqual(_built.TORCH, torch.__version__)

    def test_everything_is_in_the_wheel(self):
        for name in ("libhunch_torch.so", "py.typed", "_built.py"):
            self.assertTrue((INSTALLED / name).is_file(), name)
        files = [str(f) for f in importlib.metadata.files("hunch-torch")]
        licence, = (f for f in importlib.metadata.files("hunch-torch") if f.name == "LICENSE")
        self.assertIn("Apache License", licence.read_text())
        self.assertEqual(importlib.metadata.metadata("hunch-torch").get_all("License-File"), ["LICENSE"])
        self.assertFalse([f for f in files if f.endswith((".hpp", ".cuh", ".cpp", ".cmake"))])
        if SOURCE is not None:
            for file in (SOURCE / "hunch").glob("*.py"):
                self.assertEqual(file.read_bytes(), (INSTALLED / file.name).read_bytes(), file.name)

    def test_importing_it_imports_no_engine(self):
        found = run("import sys, hunch; print([m for m in ('transformers', 'vllm', 'sglang', 'hunch.transformers', "
                    "'hunch.vllm', 'hunch.sglang') if m in sys.modules])")
        self.assertEqual(found.strip(), "[]")

    def test_all_that_is_public_is_documented_and_typed(self):
        for name in hunch.__all__:
            thing = getattr(hunch, name)
            if name == "STATUS":
                continue
            self.assertTrue(inspect.getdoc(thing), name)
            if inspect.isfunction(thing):
                hints = typing.get_type_hints(thing)
                self.assertEqual(set(hints), {*inspect.signature(thing).parameters, "return"}, name)

    def test_the_library_is_not_loaded_for_another_torch(self):
        with tempfile.TemporaryDirectory() as folder:
            copy = Path(folder) / "hunch"
            shutil.copytree(INSTALLED, copy)
            for torch_version, cuda, message in (
                    ("1.13.1", "", "was built against torch 1.13.1, and this is torch"),
                    (torch.__version__, "7", "was built for CUDA 7, and this torch is for CUDA")):
                (copy / "_built.py").write_text(f"TORCH = {torch_version!r}\nCUDA = {cuda!r}\n")
                self.assertIn(message, run("import hunch", folder))
            # Another patch of the same minor version has the same interface.
            minor = ".".join(torch.__version__.split(".")[:2])
            (copy / "_built.py").write_text(f"TORCH = '{minor}.99'\nCUDA = ''\n")
            self.assertEqual(run("import hunch; print(hunch.__file__)", folder).strip(), str(copy / "__init__.py"))
            (copy / "_built.py").unlink()
            self.assertIn("is the source of the package hunch, not an installation", run("import hunch", folder))

    @unittest.skipUnless(SOURCE, "no SOURCE given")
    def test_the_torch_of_a_build_is_that_of_the_environment(self):
        found = subprocess.run([sys.executable, SOURCE / "wheel" / "built_against.py"], capture_output=True, text=True,
                               check=True)
        self.assertIn(f'"version": "{torch.__version__}"', found.stdout)
        # As in an isolated build: what hides torch from this interpreter does not hide it from the build.
        with tempfile.TemporaryDirectory() as folder:
            (Path(folder) / "sitecustomize.py").write_text(
                "import sys\nsys.path[:] = [p for p in sys.path if 'site-packages' not in p]\n")
            env = dict(os.environ, PYTHONPATH=folder)
            hidden = subprocess.run([sys.executable, SOURCE / "wheel" / "built_against.py", "--visible"], env=env,
                                    capture_output=True, text=True, check=True)
            self.assertEqual(hidden.stdout, "null")
            again = subprocess.run([sys.executable, SOURCE / "wheel" / "built_against.py"], env=env,
                                   capture_output=True, text=True, check=True)
            self.assertEqual(again.stdout, found.stdout)

    @unittest.skipUnless(SOURCE, "no SOURCE given")
    def test_a_copy_without_the_headers_says_so(self):
        with tempfile.TemporaryDirectory() as folder:
            copy = Path(folder) / "a" / "b" / "torch_op"
            shutil.copytree(SOURCE, copy)
            done = subprocess.run(["cmake", "-S", copy, "-B", Path(folder) / "build"], capture_output=True, text=True)
            self.assertNotEqual(done.returncode, 0)
            self.assertIn("there is no include/hunch/hunch.hpp", done.stderr)

    @unittest.skipUnless(SOURCE and shutil.which("clang++"), "no SOURCE, or no clang here")
    def test_clang_is_refused(self):
        """Its OpenMP calls a runtime that torch does not bring, which only an import would tell."""
        with tempfile.TemporaryDirectory() as folder:
            done = subprocess.run(["cmake", "-S", SOURCE, "-B", folder, "-DCMAKE_CXX_COMPILER=clang++"],
                                  capture_output=True, text=True)
            self.assertNotEqual(done.returncode, 0)
            self.assertIn("needs g++", done.stderr)

    @unittest.skipUnless(SOURCE, "no SOURCE given")
    def test_the_script_knows_its_python(self):
        """By a name and by a relative path too, which is meant from where it is called; and without dpkg."""
        script = (SOURCE / "build.sh").read_text()
        begin = script[: script.index("build=$root/build-torch")]
        with tempfile.TemporaryDirectory() as folder:
            scripts, tools = Path(folder, "examples", "torch_op"), Path(folder, "tools")
            scripts.mkdir(parents=True)
            tools.mkdir()
            shutil.copy(SOURCE.parent / "packages.sh", scripts.parent)
            Path(scripts, "build.sh").write_text(begin + 'cd /; "$PYTHON" -c "import sys; print(sys.prefix)"\n')
            for name in ("bash", "dirname", "basename", "readlink", "g++", "cmake", "make", "python3"):
                (tools / name).symlink_to(shutil.which(name))
            (tools / "chosen").symlink_to(sys.executable)

            def called(python):
                env = dict(os.environ, PATH=str(tools), PYTHON=python)
                return subprocess.run([tools / "bash", scripts / "build.sh"], env=env, cwd=folder, capture_output=True,
                                      text=True)
            wanted = subprocess.run([tools / "chosen", "-c", "import sys; print(sys.prefix)"], capture_output=True,
                                    text=True).stdout
            for python in ("tools/chosen", "./tools/chosen", "chosen", str(tools / "chosen")):
                done = called(python)
                self.assertEqual((done.stdout, done.stderr), (wanted, ""), python)
            self.assertIn("there is no tools/none", called("tools/none").stderr)
            (tools / "make").unlink()
            self.assertRegex(called("chosen").stderr, "(?s)apt-get, which is not here.*make")

    @unittest.skipUnless(SOURCE and importlib.util.find_spec("scikit_build_core"), "no SOURCE, or no back end here")
    def test_a_source_distribution_is_refused(self):
        with tempfile.TemporaryDirectory() as folder:
            build = f"from scikit_build_core.build import build_sdist; build_sdist({folder!r})"
            done = subprocess.run([sys.executable, "-B", "-c", build], cwd=SOURCE, capture_output=True, text=True)
            self.assertNotEqual(done.returncode, 0)
            self.assertIn("there is no source distribution", done.stdout + done.stderr)
            self.assertFalse(os.listdir(folder))


if __name__ == "__main__":
    unittest.main()
