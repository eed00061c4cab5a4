# SPDX-License-Identifier: Apache-2.0
"""Whether the page of the suite `evaluate` says what is in the file that it is made from."""

import importlib.util
import json
import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, sys.argv.pop(1))
import plot

CATEGORIES = [("prose", 1.25, "low"), ("code", 2.5, "medium"), ("verse", 3.75, "high")]
# Of both temperatures: a number for each category.
TEXT = {"eagle": [2.5, 2.25, 1.5], "lookup": [1.75, 1.25, 1.125]}
CANVAS = {"diffusion": [0.5, 0.625, 0.75]}


def rows_of(preset, numbers, what, worst):
    rows = {}
    for t in plot.TEMPERATURES:
        row = f"{preset}, T = {t}, "
        for (name, _, of_class), value in zip(CATEGORIES, numbers):
            rows |= {f"{row}{name}: {what}": value - 0.125 * t, f"{row}{name}: speed-up": value + 0.25,
                     f"{row}{of_class} entropy: {what}": value + 0.5, f"{row}{of_class} entropy: speed-up": value}
        rows |= {f"{row}mean: {what}": sum(numbers) / 3, f"{row}worst category: {what}": worst(numbers),
                 f"{row}mean: speed-up": 1.75, f"{row}mean: speed-up, standard error": 0.05,
                 f"{row}worst category: speed-up": 0.98, f"{row}mean: repeated 4-grams": 0.25,
                 f"{row}worst category: repeated 4-grams": 0.5, f"{row}mean: acceptance at position 1": 0.75,
                 f"{row}mean: texts that are those of plain decoding": 1}
    if preset != "lookup":  # which finds less
        rows |= {f"{preset}, T = 0, mean: acceptance at position 2": 0.5}
    return rows


def written():
    values = {}
    for preset, numbers in TEXT.items():
        values |= rows_of(preset, numbers, "tokens per step", min)
    for preset, numbers in CANVAS.items():
        values |= rows_of(preset, numbers, "passes per token", max)
    for t in plot.TEMPERATURES:
        values |= {f"plain, T = {t}, {of}: repeated 4-grams": 0.125 for of in ("mean", "worst category")}
    extent = {"prompts": 1, "new_tokens": 32, "rounds": 2}
    return {"rows": [{"name": name, "value": value} for name, value in values.items()],
            "setting": [{"threads": 1, "processor": "Engine No. 2", "instructions": "AVX2", "text": extent,
                         "canvas": extent}],
            "categories": [{"name": n, "entropy": e, "entropy_class": c} for n, e, c in CATEGORIES],
            "requests": [{"preset": preset} for preset in [*TEXT, *CANVAS] for _ in range(2)]}


class Page(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.file = Path(self.folder.name) / "evaluation.json"

    def results(self, content):
        self.file.write_text(json.dumps(content), encoding="utf-8")
        return plot.Results(self.file)

    def test_numbers_are_where_they_belong(self):
        results = self.results(written())
        self.assertEqual((results.texts, results.canvases), ([*TEXT], [*CANVAS]))
        page = plot.page(results)
        for line in ("| code | 2.50 | medium |",
                     "| preset | prose | code | verse | low | medium | high | mean | worst |",
                     "| `eagle` | 2.50 | 2.25 | 1.50 | 3.00 | 2.75 | 2.00 | **2.08** | 1.50 |",  # T = 0
                     "| `eagle` | 2.38 | 2.12 | 1.38 | 3.00 | 2.75 | 2.00 | **2.08** | 1.50 |",
                     "| `lookup` | 2.00 | 1.50 | 1.38 | 1.75 | 1.25 | 1.12 | **1.75** ± 0.05 | 0.98 |",
                     "| `diffusion` | 0.50 | 0.62 | 0.75 | 1.00 | 1.12 | 1.25 | **0.62** | 0.75 |",
                     "| preset | T | 1 | 2 |", "| `eagle` | 0 | 75 % | 50 % |", "| `eagle` | 1 | 75 % |  |",
                     "| `plain` | 12 % | 12 % | 12 % | 12 % |",
                     "| `diffusion` | 25 % | 50 % | 25 % | 50 % |"):
            self.assertIn(line + "\n", page)
        self.assertIn("Texts: 1 prompt of every category, 32 tokens each, 2 rounds; ", page)
        self.assertIn("models on 1 thread of an Engine No. 2, compiled for AVX2. All presets", page)
        self.assertIn("at T = 0 100 % of the texts", page)

    def test_presets_with_the_same_numbers_have_one_row(self):
        content = written()
        content["rows"] += [row | {"name": row["name"].replace("eagle", "hawk")} for row in content["rows"]
                            if row["name"].startswith("eagle")]
        content["requests"].append({"preset": "hawk"})
        page = plot.page(self.results(content))
        self.assertIn("| `eagle`, `hawk` | 2.50 | 2.25 |", page)
        self.assertIn("| `hawk` | 0 | 75 % | 50 % |", page)

    def test_texts_that_differ(self):
        content = written()
        for row in content["rows"]:
            if row["name"] == "lookup, T = 0, mean: texts that are those of plain decoding":
                row["value"] = 0.75
        self.assertIn("at T = 0 75 % of the texts", plot.page(self.results(content)))

    def test_a_file_of_another_suite(self):
        for content in ({"rows": []}, written() | {"setting": []}):
            with self.assertRaisesRegex(SystemExit, "evaluation.json: not what `bench/run.sh evaluate` writes"):
                self.results(content)

    def test_a_number_that_is_not_there(self):
        content = written()
        content["rows"] = [row for row in content["rows"] if row["name"] != "eagle, T = 1, verse: tokens per step"]
        with self.assertRaises(KeyError):
            plot.page(self.results(content))

    @unittest.skipUnless(importlib.util.find_spec("matplotlib"), "the pictures need matplotlib")
    def test_pictures(self):
        self.results(written())
        made = []
        for name in ("once", "again"):
            docs = Path(self.folder.name) / name
            self.assertEqual(plot.main([str(self.file), str(docs)]), 0)
            made.append({file.name: file.read_bytes() for file in docs.glob("*/*")})
        self.assertEqual(sorted(made[0]), ["evaluation-entropy.svg", "evaluation-lengths.svg",
                                           "evaluation-positions.svg", "evaluation.md"])
        self.assertEqual(made[0], made[1])
        for preset in TEXT:
            self.assertIn(preset.encode(), made[0]["evaluation-lengths.svg"])


if __name__ == "__main__":
    unittest.main()
