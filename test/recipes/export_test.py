# SPDX-License-Identifier: Apache-2.0
"""export.py --from writes what a directory holds in another format, and loses nothing else.

    export_test.py RECIPES        with a Python that has torch and safetensors
"""
import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

import torch
from safetensors.torch import load_file

RECIPES = pathlib.Path(sys.argv.pop(1)).resolve()


def tensors_of(folder):
    found = {}
    for path in folder.glob("model*.safetensors"):
        found |= load_file(path)
    return found


class Export(unittest.TestCase):
    def setUp(self):
        where = tempfile.TemporaryDirectory()
        self.addCleanup(where.cleanup)
        self.at = pathlib.Path(where.name)
        self.assertEqual(self.export("--model", "tiny", "--out", self.at / "tiny", "--dtype", "F32").returncode, 0)
        (self.at / "tiny" / "tokenizer.json").write_text("{}")

    def export(self, *words):
        return subprocess.run([sys.executable, "export.py", *map(str, words)], cwd=RECIPES, capture_output=True, text=True)

    def convert(self, source, out, dtype):
        done = self.export("--from", self.at / source, "--out", self.at / out, "--dtype", dtype)
        self.assertEqual(done.returncode, 0, done.stderr)
        return tensors_of(self.at / out)

    def test_formats(self):
        exact = tensors_of(self.at / "tiny")
        for dtype, type_, error in (("BF16", torch.bfloat16, 1 / 256), ("F16", torch.float16, 1 / 2048)):
            for name, tensor in self.convert("tiny", dtype, dtype).items():
                self.assertEqual(tensor.dtype, type_)
                self.assertLessEqual(((tensor.float() - exact[name]).abs() - error * exact[name].abs()).max(), 1e-7)

    def test_int8_and_back(self):
        small = self.convert("tiny", "int8", "I8")
        back = self.convert("int8", "back", "F32")
        for name, tensor in back.items():
            expected = small[name].float()
            if small[name].dtype == torch.int8:
                expected = expected * small[f"{name}_scale"][:, None]
            self.assertTrue(torch.equal(tensor, expected), name)
        self.assertTrue(any(tensor.dtype == torch.int8 for tensor in small.values()))

    def test_what_lies_beside(self):
        self.convert("tiny", "int8", "I8")
        before, after = (json.loads((self.at / name / "config.json").read_text()) for name in ("tiny", "int8"))
        self.assertEqual(after, before | {"weight_format": "I8"})
        self.assertTrue((self.at / "int8" / "tokenizer.json").exists())

    def test_refused(self):
        same = self.export("--from", self.at / "tiny", "--out", self.at / "tiny")
        self.assertIn("would be written over", same.stderr)
        self.assertTrue(tensors_of(self.at / "tiny"))
        self.assertIn("one of --model and --from", self.export("--out", self.at / "x").stderr)


if __name__ == "__main__":
    unittest.main()
