# SPDX-License-Identifier: Apache-2.0
"""Tests when functions of an engine are replaced, with a package that stands for the engine.

    PYTHONPATH=build-torch/python python build-torch/test/test_engine_patch.py
"""
import importlib
import importlib.util
import sys
import tempfile
import unittest
from pathlib import Path

from hunch._engine_patch import InterfaceDiffers, Patch, Target

PACKAGE = "an_engine"
MODULES = {"__init__": '__version__ = "1.2.3"\n', "sampler": "def sample(logits):\n    return 'theirs'\n",
           "runner": f"from {PACKAGE}.sampler import sample\n"}


def ours(logits):
    return "ours"


class Engine(unittest.TestCase):
    def setUp(self):
        self.folder = Path(self.enterContext(tempfile.TemporaryDirectory()))
        (self.folder / PACKAGE).mkdir()
        for name, text in MODULES.items():
            self.write(name, text)
        sys.path.insert(0, str(self.folder))
        self.addCleanup(sys.path.remove, str(self.folder))
        self.addCleanup(self.forget)
        self.patch = Patch(PACKAGE, ("1.2.3",))
        self.addCleanup(self.patch.undo)
        self.targets = (Target(f"{PACKAGE}.sampler", "sample", ours),)

    def write(self, name, text):
        (self.folder / PACKAGE / f"{name}.py").write_text(text)
        importlib.invalidate_caches()

    def forget(self):
        for name in [n for n in sys.modules if n.split(".")[0] == PACKAGE]:
            del sys.modules[name]

    def sampled(self):
        return importlib.import_module(f"{PACKAGE}.runner").sample(None)


class WhenImported(Engine):
    def setUp(self):
        super().setUp()
        self.patch.apply_when_imported(self.targets)

    def test_a_function_is_replaced(self):
        self.assertEqual(self.sampled(), "ours")
        self.patch.undo()
        self.assertEqual(self.sampled(), "theirs")

    def test_a_search_for_its_module_changes_nothing(self):
        """Engines look for modules without importing them, to find out what is installed."""
        for _ in range(2):
            found = importlib.util.find_spec(f"{PACKAGE}.sampler")
            self.assertEqual(found.name, f"{PACKAGE}.sampler")
        self.assertTrue(self.patch.is_applied)
        self.assertEqual(self.sampled(), "ours")

    def test_a_module_that_was_found_may_be_run_apart(self):
        found = importlib.util.find_spec(f"{PACKAGE}.sampler")
        module = importlib.util.module_from_spec(found)
        found.loader.exec_module(module)  # as no import does: no other module has it
        self.assertEqual(module.sample(None), "theirs")
        self.assertEqual(self.sampled(), "ours")

    def test_an_import_that_failed_may_come_again(self):
        self.write("sampler", "import a_module_that_is_not_there\n")
        with self.assertRaises(ImportError):
            importlib.import_module(f"{PACKAGE}.sampler")
        self.assertTrue(self.patch.is_applied)
        self.write("sampler", MODULES["sampler"] + "# another size, so that Python reads it again\n")
        self.assertEqual(self.sampled(), "ours")

    def test_what_was_found_before_it_was_given_up_is_left(self):
        found = importlib.util.find_spec(f"{PACKAGE}.sampler")
        self.patch.undo()
        sys.modules[found.name] = module = importlib.util.module_from_spec(found)
        found.loader.exec_module(module)
        self.assertEqual(self.sampled(), "theirs")
        self.assertFalse(self.patch.is_applied)

    def test_a_module_that_is_not_there(self):
        (self.folder / PACKAGE / "sampler.py").unlink()
        importlib.invalidate_caches()
        self.assertIsNone(importlib.util.find_spec(f"{PACKAGE}.sampler"))
        with self.assertRaises(ModuleNotFoundError):
            importlib.import_module(f"{PACKAGE}.sampler")


class Versions(Engine):
    def test_where_it_was_built_is_not_the_version(self):
        for version, known in (("1.2.3", True), ("1.2.3+cu129", True), ("1.2.3+cpu.avx", True), ("1.2.4", False),
                               ("1.2.3.post1", False), ("1.2.3rc1+cu129", False), ("1.2", False)):
            with self.subTest(version):
                self.forget()
                self.write("__init__", f'__version__ = "{version}"\n')
                if known:
                    self.patch.apply(self.targets)
                    self.assertEqual(self.sampled(), "ours")
                    self.patch.undo()
                else:
                    with self.assertRaisesRegex(InterfaceDiffers, "has not been read, 1.2.3 has"):
                        self.patch.apply(self.targets)

    def test_a_package_without_a_number(self):
        self.write("__init__", "\n# no number\n")
        with self.assertRaisesRegex(InterfaceDiffers, "version without a number has not been read"):
            self.patch.apply(self.targets)


if __name__ == "__main__":
    unittest.main()
