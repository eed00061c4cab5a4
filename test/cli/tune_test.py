# SPDX-License-Identifier: Apache-2.0
"""tune.py on a pair that it has never seen: what it makes runs, is found again, and what cannot be tuned is named."""

import json
import re
import shutil
import subprocess
import sys
import unittest
from pathlib import Path

import cli_test
import published_test
from cli_test import MODELS, PROGRAM, generate
from published_test import HEADS, with_tokenizer

WORK = cli_test.WORK = published_test.WORK = cli_test.WORK.parent / "tune"
TUNE = MODELS.parent / "tune" / "tune.py"


def tune(*flags):
    return subprocess.run([sys.executable, "-B", str(TUNE), "--programs", str(Path(PROGRAM).parent), *map(str, flags)],
                          capture_output=True, text=True, timeout=900)


class Tune(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.target = with_tokenizer(HEADS / "target", "target")
        cls.head = WORK / "head"
        shutil.rmtree(cls.head, ignore_errors=True)
        shutil.copytree(HEADS / "eagle", cls.head)
        cls.text = WORK / "texts"
        shutil.rmtree(cls.text, ignore_errors=True)
        cls.text.mkdir()
        for name in ("docs", "python"):
            shutil.copy(MODELS / "heldout" / f"{name}.txt", cls.text)
        cls.out = WORK / "out"
        shutil.rmtree(cls.out, ignore_errors=True)
        cls.flags = ["--model", cls.target, "--draft", cls.head, "--text", cls.text, "--out", cls.out, "--threads", 1, "--quick"]
        cls.done = tune(*cls.flags)

    def test_it_goes_to_the_end(self):
        self.assertEqual(self.done.returncode, 0, self.done.stdout + self.done.stderr)
        steps = re.findall(r"^\[ *(\d+)/(\d+)\] (.*)$", self.done.stdout, re.MULTILINE)
        self.assertEqual([int(at) for at, _, _ in steps], list(range(1, len(steps) + 1)))
        self.assertEqual(steps[-1][0], steps[-1][1])
        self.assertIn("left", self.done.stdout)
        for words in ("the EAGLE head", "the target in four bits", "routed rows", "most frequent tokens"):
            self.assertIn(words, self.done.stdout)

    def test_the_preset_runs(self):
        preset = self.out / "preset.json"
        done = generate("--preset", preset, "--prompt", "The name", "--temperature", "0", "--max-new-tokens", "12", "--rounds",
                        "1", "--threads", "1", "--json", WORK / "report.json")
        self.assertEqual(done.returncode, 0, done.stderr)
        report = json.loads((WORK / "report.json").read_text())
        self.assertEqual(report["preset"], str(preset))
        if "speculative" in report:
            self.assertIs(report["identical_to_plain"], True)

    def test_the_page_has_what_was_measured(self):
        page = (self.out / "report.md").read_text()
        for picture in re.findall(r"\]\((\w+\.svg)\)", page):
            self.assertIn("<svg", (self.out / picture).read_text())
        self.assertEqual(len(re.findall(r"\.svg", page)), 3)
        for of in self.coverage().values():
            for name in ("static", "routed", "oracle"):
                self.assertEqual(len(of[name]["law"]), len(of[name]["rows"]))
                self.assertTrue(all(0 < law <= 1 + 1e-6 for law in of[name]["law"]))
                self.assertEqual(sorted(of[name]["law"]), of[name]["law"])
            # Who knows the law keeps more of it than who does not.
            self.assertTrue(all(o >= r - 1e-6 for o, r in zip(of["oracle"]["law"], of["routed"]["law"])))

    def coverage(self):
        return {file.stem: json.loads(file.read_text()) for file in self.out.glob("coverage-*.json")}

    def test_what_is_finished_is_kept(self):
        again = tune(*self.flags)
        self.assertEqual(again.returncode, 0, again.stderr)
        steps = re.findall(r"^\[.*$", again.stdout, re.MULTILINE)
        self.assertTrue(steps and all(step.endswith("done before") for step in steps), again.stdout)
        # What was lost is made again, and nothing else.
        (self.out / "ranking.safetensors").unlink()
        again = tune(*self.flags)
        self.assertEqual([step for step in re.findall(r"^\[.*\] (.*)$", again.stdout, re.MULTILINE)
                          if "done before" not in step][0][:7], "ranking")

    def test_what_cannot_be_tuned_is_named(self):
        short = WORK / "short.txt"
        short.write_text("too short")
        for flags, words in ((["--text", short], "too few to learn from"), (["--text", self.target], "has no .txt file"),
                             (["--text", WORK / "nothing"], "does not exist"), (["--model", WORK / "nothing"], "does not exist")):
            given = {"--model": self.target, "--text": self.text, "--out": WORK / "other"} | dict(zip(flags[::2], flags[1::2]))
            done = tune(*(word for pair in given.items() for word in pair))
            self.assertNotEqual(done.returncode, 0)
            self.assertIn(words, done.stderr)
            self.assertNotIn("Traceback", done.stderr)

    def test_what_does_not_fit_is_left_out(self):
        other = WORK / "other_head"
        shutil.rmtree(other, ignore_errors=True)
        shutil.copytree(HEADS / "eagle", other)
        config = json.loads((other / "config.json").read_text())
        (other / "config.json").write_text(json.dumps({**config, "target_head_fingerprint": "0x0000000000000001"}))
        shutil.rmtree(WORK / "left", ignore_errors=True)
        done = tune("--model", self.target, "--draft", other, "--text", self.text, "--out", WORK / "left", "--threads", 1,
                    "--quick")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("it was trained for another target", done.stdout)
        self.assertIn("it was trained for another target", (WORK / "left" / "report.md").read_text())


if __name__ == "__main__":
    WORK.mkdir(parents=True, exist_ok=True)
    unittest.main(argv=cli_test.sys.argv[:1])
