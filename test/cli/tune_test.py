# SPDX-License-Identifier: Apache-2.0
"""tune.py on a pair that it has never seen: what it makes runs, is found again, and what cannot be tuned is named."""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import cli_test
import published_test
from cli_test import MODELS, PROGRAM, generate
from published_test import HEADS, with_tokenizer

WORK = cli_test.WORK = published_test.WORK = cli_test.WORK.parent / "tune"
TUNE = MODELS.parent / "tune" / "tune.py"
sys.path.insert(0, str(TUNE.parent))
from texts import files_of, prompts, shares, split  # noqa: E402
from work import Failed, Work  # noqa: E402


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
        (WORK / "no_text").mkdir(exist_ok=True)
        for flags, words in ((["--text", short], "too few to learn from"), (["--text", WORK / "no_text"], "has no .txt file"),
                             (["--text", WORK / "nothing"], "does not exist"), (["--model", WORK / "nothing"], "does not exist")):
            given = {"--model": self.target, "--text": self.text, "--out": WORK / "other"} | dict(zip(flags[::2], flags[1::2]))
            done = tune(*(word for pair in given.items() for word in pair))
            self.assertNotEqual(done.returncode, 0)
            self.assertIn(words, done.stderr)
            self.assertNotIn("Traceback", done.stderr)

    def test_a_draft_that_does_not_fit_ends_it(self):
        other = WORK / "other_head"
        shutil.rmtree(other, ignore_errors=True)
        shutil.copytree(HEADS / "eagle", other)
        config = json.loads((other / "config.json").read_text())
        (other / "config.json").write_text(json.dumps({**config, "target_head_fingerprint": "0x0000000000000001"}))
        empty, pickled, broken = (WORK / name for name in ("empty", "pickled", "broken"))
        for folder in (empty, pickled, broken):
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir()
        (pickled / "medusa_lm_head.pt").write_bytes(b"PK")
        (pickled / "config.json").write_text("{}")
        shutil.copy(other / "config.json", broken)
        (broken / "model.safetensors").write_bytes(b"\xff" * 64)
        for draft, words in ((other, "it was trained for another target"), (empty, "empty"), (pickled, "convert.py"),
                             (broken, "model.safetensors")):
            with self.subTest(draft=draft):
                done = tune("--model", self.target, "--draft", draft, "--text", self.text, "--out", WORK / "left",
                            "--threads", 1, "--quick")
                self.assertEqual(done.returncode, 1, done.stdout)
                self.assertIn(words, done.stderr)
                self.assertNotIn("Traceback", done.stderr)

    def test_a_target_that_does_not_run_ends_it(self):
        bare = WORK / "bare"
        shutil.rmtree(bare, ignore_errors=True)
        shutil.copytree(self.target, bare)
        (bare / "config.json").write_text("{")
        done = tune("--model", bare, "--text", self.text, "--out", WORK / "bare_out")
        self.assertEqual(done.returncode, 1, done.stdout)
        self.assertIn("config.json", done.stderr)
        self.assertNotIn("Traceback", done.stderr)
        for flags, words in ((["--threads", 0], "--threads: must be from 1 to"), (["--threads", 1 << 20], "must be from 1 to"),
                             (["--out", self.target / "config.json"], "is no directory")):
            given = ["--model", self.target, "--text", self.text, "--out", WORK / "other", *flags]
            done = tune(*given)
            self.assertEqual(done.returncode, 2, done.stdout)
            self.assertIn(words, done.stderr)

    def test_only_what_is_learnt_from_lies_beside_the_text(self):
        self.assertEqual(sorted(file.name for file in (self.out / "text").iterdir()), ["heldout.txt", "train.txt"])
        self.assertEqual(list(self.out.glob("making-*")), [])

    def test_its_folder_may_be_moved(self):
        moved = WORK / "moved out"
        shutil.rmtree(moved, ignore_errors=True)
        shutil.copytree(self.out, moved)
        flags = json.loads((moved / "preset.json").read_text())["flags"]
        self.assertNotIn(str(self.out), " ".join(flags.values()))
        self.assertEqual(flags["--threads"], "1")
        done = generate("--preset", moved / "preset.json", "--prompt", "The name", "--max-new-tokens", "4", "--rounds", "1")
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_all_say_the_same_of_what_is_fastest(self):
        said = self.done.stdout.strip().splitlines()[-3]
        self.assertRegex(said, r"[0-9.]+ \u00b1 [0-9.]+ (times plain decoding|of its speed)$")
        self.assertIn(said[1:], (self.out / "report.md").read_text())
        self.assertTrue(said.startswith(json.loads((self.out / "preset.json").read_text())["line"]))

    def test_a_head_with_a_vocabulary_of_its_own(self):
        done = tune("--model", self.target, "--draft", HEADS / "eagle3", "--text", self.text, "--out", WORK / "eagle3", "--threads",
                    1, "--quick")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stdout, r"try: the EAGLE head, dynamic, its own vocabulary \.\.\. \d+ s")
        self.assertNotIn("the EAGLE head: clusters", done.stdout)
        self.assertNotIn("refused", done.stdout)
        self.assertIn("clusters: it drafts from a vocabulary of its own", (WORK / "eagle3" / "report.md").read_text())


class Texts(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(dir=WORK)
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def test_a_large_file_gets_what_small_ones_leave(self):
        self.assertEqual(shares([10, 1000, 20], 100), [10, 70, 20])
        self.assertEqual(shares([500, 10, 500], 100), [45, 10, 45])
        self.assertEqual(shares([3, 4], 100), [3, 4])

    def test_files_of_a_folder(self):
        (self.folder / "sub").mkdir()
        (self.folder / "out").mkdir()
        for name in ("a.txt", "sub/b.TXT", "out/train.txt", "c.md"):
            (self.folder / name).write_text("x")
        (self.folder / "d.txt").mkdir()
        (self.folder / "e.txt").symlink_to("nowhere")
        found = files_of(self.folder, self.folder / "out")
        self.assertEqual([str(file.relative_to(self.folder)) for file in found], ["a.txt", "sub/b.TXT"])

    def test_what_is_no_text_is_named(self):
        for name, content in (("utf16", "a text".encode("utf-16") * 9999), ("random", os.urandom(99999))):
            file = self.folder / name
            file.write_bytes(content)
            with self.assertRaisesRegex(Failed, f"{name} is not UTF-8 text"):
                split([file], self.folder)

    def test_parts(self):
        whole = "\ufeffd\u00e9j\u00e0 vu\r\n" * 4000
        file = self.folder / "a.txt"
        file.write_bytes(whole.encode())
        found = split([file], self.folder)
        train, held_out = ((self.folder / f"{name}.txt").read_bytes().decode() for name in ("train", "heldout"))
        self.assertEqual(train + held_out, whole[1:])
        self.assertEqual([found["train"], found["heldout"], found["left_out"]], [len(train), len(held_out), 0])

    def test_prompts_of_a_text_without_spaces_are_different(self):
        file = self.folder / "heldout.txt"
        for text in ("".join(chr(0x4e00 + i % 5000) for i in range(5000)), "one two\r\n" * 1000, "short"):
            file.write_bytes(text.encode())
            made = [prompt.read_bytes().decode() for prompt in prompts(file, self.folder / "prompts", 4, 200)]
            self.assertTrue(all(prompt and prompt in text for prompt in made))
            if len(text) > 4000 and " " not in text:
                self.assertEqual(len(set(made)), 4)


class Steps(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(dir=WORK)
        self.addCleanup(folder.cleanup)
        self.folder, self.made = Path(folder.name), 0
        self.output = self.folder / "output"

    def step(self, about, fails=False):
        work = Work(self.folder, about)
        work.plan([("a step", 1)])

        def make(into):
            self.made += 1
            (into / "output").write_text(about)
            if fails:
                raise KeyboardInterrupt
            return about
        return work.step([], make, [self.output])

    def test_files_of_another_run_are_not_its_own(self):
        self.assertEqual(self.step("first"), "first")
        self.assertEqual(self.step("first"), "first")
        self.assertEqual(self.made, 1)
        # One that is stopped leaves nothing, and what was there before it is not taken for finished.
        with self.assertRaises(KeyboardInterrupt):
            self.step("second", fails=True)
        self.assertEqual(self.output.read_text(), "first")
        self.assertEqual(list(self.folder.glob("making-*")), [])
        self.step("first")
        self.assertEqual(self.made, 3)
        # Nor is a file that was changed.
        self.output.write_text("changed")
        self.step("first")
        self.assertEqual((self.made, self.output.read_text()), (4, "first"))


if __name__ == "__main__":
    WORK.mkdir(parents=True, exist_ok=True)
    unittest.main(argv=cli_test.sys.argv[:1])
