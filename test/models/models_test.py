# SPDX-License-Identifier: Apache-2.0
"""Whether the recipes notice files that were not made for each other, by the files that are shipped."""

import array
import ast
import json
import re
import struct
import sys
import unittest
from pathlib import Path

MODELS = Path(sys.argv.pop(1))
RECIPES = Path(sys.argv.pop(1))
sys.path.insert(0, str(RECIPES))
import fingerprints

OTHER = "0x0123456789abcdef"


def config(name):
    return json.loads((MODELS / name / "config.json").read_text())


def about(path):
    """What a file of tensors says of itself."""
    with path.open("rb") as file:
        size, = struct.unpack("<Q", file.read(8))
        return json.loads(file.read(size))["__metadata__"]


def integers(path, name):
    data = path.read_bytes()
    size, = struct.unpack_from("<Q", data)
    begin, end = json.loads(data[8:8 + size])[name]["data_offsets"]
    return array.array("i", data[8 + size + begin:8 + size + end])


def of_layout(path):
    return fingerprints.of_layout({name: integers(path, name) for name in ("row_token", "cluster_begin")}, 32000)


class Files(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.target = {"vocab_size": "32000", "vocabulary": config("target")["vocabulary_fingerprint"],
                      "head": config("eagle")["target_head_fingerprint"]}
        cls.layouts = {folder: MODELS / folder / "layout.safetensors" for folder in (".", "left_out")}

    def refused(self, message, path, said, known):
        with self.assertRaisesRegex(ValueError, message) as refusal:
            fingerprints.check(path, said, known, "target")
        self.assertIn(str(path), str(refusal.exception))

    def test_what_belongs_together_is_taken(self):
        for folder, layout in self.layouts.items():
            fingerprints.check(layout, about(layout), self.target, "target")
            ranking = MODELS / folder / "frequency.safetensors"
            fingerprints.check(ranking, about(ranking), self.target, "target")
            router = MODELS / folder / "router.safetensors"
            fingerprints.check(router, about(router), {**self.target, "layout": of_layout(layout)}, "target")

    def test_a_layout_of_another_head_or_vocabulary_is_refused(self):
        path = self.layouts["."]
        # The draft model's own head has the same vocabulary.
        self.refused(f"was made for another head, {self.target['head']}; that of target is {OTHER}", path,
                     about(path), {**self.target, "head": OTHER})
        self.refused("another vocabulary", path, about(path), {**self.target, "vocabulary": OTHER})
        self.refused("another vocab_size, 32000", path, about(path), {**self.target, "vocab_size": "32001"})
        for key in self.target:
            said = about(path)
            del said[key]
            self.refused(f"does not say for which {key}", path, said, self.target)

    def test_a_router_of_another_layout_is_refused(self):
        router = MODELS / "router.safetensors"
        known = {**self.target, "layout": of_layout(self.layouts["left_out"])}
        self.refused("another layout", router, about(router), known)

    def test_something_has_to_be_known(self):
        path = MODELS / "frequency.safetensors"  # of any head
        known = {**self.target, "vocabulary": fingerprints.UNKNOWN}
        self.refused("nothing to tell", path, about(path), known)

    def test_a_head_of_another_target_and_a_draft_of_another_text_are_refused(self):
        for name in ("eagle", "medusa", "exit", "streams"):
            known = {"target_head_fingerprint": self.target["head"]}
            fingerprints.check(name, config(name), known, "target")
            self.refused("another target_head", name, config(name), {"target_head_fingerprint": OTHER})
        known = {"vocabulary_fingerprint": self.target["vocabulary"]}
        fingerprints.check("draft", config("draft"), known, "target")
        self.refused("another vocabulary", "draft", config("draft"), {"vocabulary_fingerprint": OTHER})
        self.refused("does not say", "draft", {}, known)


class Recipes(unittest.TestCase):
    def test_files_are_read_where_they_are_compared(self):
        readers = {"load_file", "safe_open"}
        recipes = sorted(RECIPES.rglob("*.py"))
        self.assertGreater(len(recipes), 20)
        for path in recipes:
            names = {node.id for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Name)}
            self.assertEqual(bool(readers & names), path.name == "checkpoint.py", path)

    def test_every_recipe_says_what_its_models_are_used_with(self):
        # The random model of masked/golden.py reads random tokens.
        calls = [(path, call) for path in sorted(RECIPES.rglob("*.py")) if path != RECIPES / "masked" / "golden.py"
                 for call in ast.walk(ast.parse(path.read_text()))
                 if isinstance(call, ast.Call) and re.fullmatch(r"checkpoint\.load\w*|load", ast.unparse(call.func))]
        self.assertGreater(len(calls), 15)
        for name, call in calls:
            self.assertGreaterEqual(len(call.args), 2, f"{name}: {ast.unparse(call)}")


if __name__ == "__main__":
    unittest.main()
