# SPDX-License-Identifier: Apache-2.0
"""convert.py makes safetensors of what PyTorch pickled, and runs nothing of it.

    convert_test.py RECIPES        with a Python that has torch and safetensors
"""
import json
import os
import pathlib
import pickle
import subprocess
import sys
import tempfile
import unittest

import torch
from safetensors.torch import load_file

CONVERT = pathlib.Path(sys.argv.pop(1)) / "convert.py"
WEIGHTS = {"a.weight": torch.arange(6.0).reshape(2, 3).bfloat16(), "b": torch.tensor([1.5], dtype=torch.float64)}


class Runs:
    """What a pickle runs when it is read."""

    def __init__(self, file):
        self.file = file

    def __reduce__(self):
        return os.mkdir, (str(self.file),)


class Convert(unittest.TestCase):
    def setUp(self):
        where = tempfile.TemporaryDirectory()
        self.addCleanup(where.cleanup)
        self.model, self.out = pathlib.Path(where.name) / "model", pathlib.Path(where.name) / "out"
        self.model.mkdir()

    def convert(self, source=None):
        return subprocess.run([sys.executable, CONVERT, "--model", source or self.model, "--out", self.out],
                              capture_output=True, text=True)

    def same(self):
        found = load_file(self.out / "model.safetensors")
        self.assertEqual(set(found), set(WEIGHTS))
        for name, tensor in WEIGHTS.items():
            self.assertTrue(torch.equal(found[name].double(), tensor.double()))
        self.assertEqual(found["a.weight"].dtype, torch.bfloat16)

    def test_one_file(self):
        (self.model / "config.json").write_text("{}")
        torch.save(WEIGHTS, self.model / "pytorch_model.bin")
        done = self.convert()
        self.assertEqual(done.returncode, 0, done.stderr)
        self.same()
        self.assertTrue((self.out / "config.json").exists())

    def test_shards(self):
        names = {}
        for i, (name, tensor) in enumerate(WEIGHTS.items()):
            names[name] = f"pytorch_model-{i}.bin"
            torch.save({name: tensor}, self.model / names[name])
        index = self.model / "pytorch_model.bin.index.json"
        index.write_text(json.dumps({"weight_map": names}))
        self.assertEqual(self.convert().returncode, 0)
        self.same()
        self.assertFalse((self.out / index.name).exists())
        index.write_text(json.dumps({"weight_map": {"a": "../x.bin"}}))
        self.assertIn("../x.bin", self.convert().stderr)

    def test_weights_in_a_table_and_of_tensors_that_share_memory(self):
        shared = {"a.weight": WEIGHTS["a.weight"], "b": WEIGHTS["b"]}
        torch.save({"state_dict": shared, "epoch": 3}, self.model / "head.pt")
        self.assertEqual(self.convert(self.model / "head.pt").returncode, 0)
        self.same()
        torch.save({"x": WEIGHTS["b"], "y": WEIGHTS["b"]}, self.model / "head.pt")
        self.assertEqual(self.convert(self.model / "head.pt").returncode, 0)
        self.assertEqual(set(load_file(self.out / "model.safetensors")), {"x", "y"})

    def test_lists_of_tokens(self):
        for ids in ([5, 3, 4], torch.tensor([5, 3, 4]), torch.tensor([5, 3, 4], dtype=torch.int32)):
            torch.save(ids, self.model / "freq_3.pt")
            self.assertEqual(self.convert(self.model / "freq_3.pt").returncode, 0)
            self.assertEqual(load_file(self.out / "model.safetensors")["token_map"].tolist(), [5, 3, 4])

    def test_nothing_is_run(self):
        ran = self.model / "ran"
        torch.save({"a": torch.zeros(1), "b": Runs(ran)}, self.model / "a.bin")
        with open(self.model / "b.pt", "wb") as file:
            pickle.dump({"b": Runs(ran)}, file, protocol=2)
        for name in ("a.bin", "b.pt"):
            done = self.convert(self.model / name)
            self.assertEqual(done.returncode, 1)
            self.assertIn("mkdir", done.stderr)
            self.assertFalse(ran.exists())
        # They would run elsewhere.
        with open(self.model / "b.pt", "rb") as file:
            pickle.load(file)
        self.assertTrue(ran.exists())

    def test_what_is_no_table_of_tensors(self):
        torch.save({"a": 3}, self.model / "a.pt")
        (self.model / "b.pt").write_text("x")
        (self.model / "c.pt").write_text("")
        for name in ("a.pt", "b.pt", "c.pt"):
            done = self.convert(self.model / name)
            self.assertEqual(done.returncode, 1)
            self.assertIn(str(self.model / name), done.stderr)
            self.assertNotIn("Traceback", done.stderr)
        self.assertIn("pytorch_model.bin", self.convert().stderr)


if __name__ == "__main__":
    unittest.main()
