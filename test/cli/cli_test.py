# SPDX-License-Identifier: Apache-2.0
"""Runs `generate` as a user would: every bad flag, broken models, and what it prints and writes."""

import json
import os
import re
import shutil
import subprocess
import sys
import unittest
from pathlib import Path

PROGRAM, RESIDENT = sys.argv[1:3]
MODELS, WORK = Path(sys.argv[3]), Path(sys.argv[4]) / "cli"

BAD_FLAGS = [
    (["--bogus"], "unknown flag '--bogus'"),
    (["words"], "unknown flag 'words'"),
    (["--seed"], "--seed needs a value"),
    (["--seed", "x"], "--seed: 'x' is not a number"),
    (["--seed", "-1"], "--seed: '-1' is not a number"),
    (["--seed", "1", "--seed", "2"], "--seed is given twice"),
    (["--max-new-tokens", "0"], "--max-new-tokens: 0 is less than 1"),
    (["--max-new-tokens", "99999999999"], "not a number that fits"),
    (["--max-new-tokens", "12x"], "not a number that fits"),
    (["--batch", "0"], "--batch: 0 is less than 1"),
    (["--temperature", "-1"], "--temperature: -1 is less than 0"),
    (["--temperature", "nan"], "--temperature: nan is less than 0"),
    (["--temperature", "inf"], "--temperature must be finite"),
    (["--top-k", "-3"], "--top-k: -3 is less than 0"),
    (["--top-p", "0"], "--top-p is in (0, 1]"),
    (["--top-p", "1.5"], "--top-p is in (0, 1]"),
    (["--min-p", "1.5"], "--min-p is in [0, 1]"),
    (["--repetition-penalty", "0"], "--repetition-penalty must be above 0"),
    (["--presence-penalty", "nan"], "--presence-penalty must be finite"),
    (["--frequency-penalty", "inf"], "--frequency-penalty must be finite"),
    (["--pattern", "a", "--ignore-end"], "--ignore-end has no meaning with --pattern"),
    (["--draft-length", "0"], "--draft-length: 0 is less than 1"),
    (["--draft-length", "9"], "--draft-length: at most 8"),
    (["--draft-length", "some"], "not a number"),
    (["--device", "abacus"], "it takes host, cuda"),
    (["--device", "cuda", "--threads", "2"], "--threads has no meaning with --device cuda"),
    (["--device", "cuda", "--pattern", "a"], "--pattern asks the host in every step"),
    (["--drafter", "medium"], "it takes model, none"),
    (["--selector", "best"], "it takes full, frequency"),
    (["--selector", "full:10"], "only frequency takes a number of rows"),
    (["--selector", "frequency:0"], "0 is less than 1"),
    (["--selector", "frequency:99999999"], "the vocabulary has"),
    (["--verifier", "hope"], "it takes rejection, block, coupled, greedy"),
    (["--verifier", "greedy"], "keeps only greedy text exact"),
    (["--verifier", "greedy", "--temperature", "0", "--top-k", "4"], "--top-k has no meaning"),
    (["--verifier", "greedy", "--temperature", "0", "--pattern", "a"], "--pattern has no meaning"),
    (["--prompt", "a", "--prompt-file", "b"], "--prompt-file"),
    (["--prompt-file", "/no/such/file"], "cannot read '/no/such/file'"),
    (["--plain", "--draft-length", "3"], "--draft-length has no meaning with --plain"),
    (["--plain", "--selector", "full"], "--selector has no meaning with --plain"),
    (["--plain", "--drafter", "model"], "exclude each other"),
    (["--drafter", "none", "--draft", "x"], "--draft has no meaning with --drafter none"),
    (["--selector", "full", "--frequency", "x"], "--frequency has no meaning"),
    (["--model", str(MODELS / "target")], "--model without --draft"),
    (["--color", "blue"], "it takes auto, always, never"),
    (["--threads", "0"], "--threads: 0 is less than 1"),
    (["--rounds", "0"], "--rounds: 0 is less than 1"),
    (["--max-new-tokens", "100000"], "exceed the context of"),
]

SHORT = ["--max-new-tokens", "24", "--rounds", "1", "--prompt", "The name of the file"]


def generate(*flags, program=PROGRAM, **environment):
    return subprocess.run([program, *flags], capture_output=True, text=True, errors="replace",
                          env={**os.environ, **environment}, timeout=120)


class BadFlags(unittest.TestCase):
    def test_each_is_refused_with_a_sentence(self):
        for flags, message in BAD_FLAGS:
            with self.subTest(flags=flags):
                done = generate(*flags)
                self.assertEqual(done.returncode, 2, done.stderr)
                self.assertIn(message, done.stderr)
                self.assertEqual(done.stdout, "")
                self.assertEqual(done.stderr.count("\n"), 1)


class BrokenModels(unittest.TestCase):
    def copy(self, name):
        folder = WORK / name
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(MODELS / "draft", folder)
        return folder

    def refused(self, flags, *fragments):
        done = generate(*flags)
        self.assertEqual(done.returncode, 1, done.stderr)
        for fragment in fragments:
            self.assertIn(str(fragment), done.stderr)

    def test_missing_directory(self):
        self.refused(["--plain", "--model", "/no/such/model"], "/no/such/model")

    def test_truncated_weights(self):
        folder = self.copy("truncated")
        weights = sorted(folder.glob("*.safetensors"))[-1]
        weights.write_bytes(weights.read_bytes()[:-1000])
        self.refused(["--draft", str(folder), *SHORT], weights, "tensor")

    def test_wrong_shape(self):
        folder = self.copy("shape")
        config = json.loads((folder / "config.json").read_text())
        config["hidden_size"] *= 2
        (folder / "config.json").write_text(json.dumps(config))
        self.refused(["--draft", str(folder), *SHORT], "tensor", "shape")

    def test_draft_of_another_vocabulary(self):
        folder = self.copy("vocabulary")
        config = json.loads((folder / "config.json").read_text())
        config["vocab_size"] -= 1
        (folder / "config.json").write_text(json.dumps(config))
        self.refused(["--draft", str(folder), *SHORT], "31999")

    def test_pattern_that_is_wrong(self):
        self.refused(["--pattern", "(a", *SHORT], "regular expression", "')' is missing")

    def test_json_that_cannot_be_written(self):
        self.refused([*SHORT, "--plain", "--json", "/no/such/folder/x.json"], "/no/such/folder")


class Output(unittest.TestCase):
    def report(self, *flags, program=PROGRAM):
        file = WORK / "report.json"
        done = generate(*SHORT, "--json", str(file), *flags, program=program)
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(file.read_text()), done.stdout

    def test_help_lists_every_flag(self):
        text = generate("--help").stdout
        for flags, _ in BAD_FLAGS:
            for flag in flags:
                if flag.startswith("--") and flag != "--bogus":
                    self.assertIn(flag, text)

    def test_greedy_text_is_identical(self):
        for verifier in ("rejection", "block", "coupled", "greedy"):
            for length in ("1", "5", "auto"):
                report, _ = self.report("--temperature", "0", "--verifier", verifier,
                                        "--draft-length", length, "--ignore-end")
                self.assertIs(report["identical_to_plain"], True)
                self.assertEqual(report["tokens"], 24)

    def test_batches_do_not_change_greedy_text(self):
        alone, _ = self.report("--temperature", "0", "--draft-length", "3")
        among, _ = self.report("--temperature", "0", "--draft-length", "3", "--batch", "5")
        self.assertEqual(alone["text"], among["text"])

    def test_sampled_text_depends_on_the_seed_alone(self):
        flags = ("--draft-length", "3", "--seed", "7")
        first, _ = self.report(*flags)
        again, _ = self.report(*flags)
        batch, _ = self.report(*flags, "--batch", "3", "--threads", "1")
        other, _ = self.report("--draft-length", "3", "--seed", "8")
        self.assertEqual(first["text"], again["text"])
        self.assertEqual(first["text"], batch["text"])
        self.assertNotEqual(first["text"], other["text"])
        self.assertIsNone(first["identical_to_plain"])

    def test_coupled_text_is_that_of_plain_decoding(self):
        flags = ("--verifier", "coupled", "--temperature", "0.9", "--top-p", "0.95")
        texts = {self.report(*flags, "--draft-length", length)[0]["text"] for length in "16"}
        report, _ = self.report(*flags, "--selector", "full")
        plain, _ = self.report(*flags, "--plain")
        self.assertIs(report["identical_to_plain"], True)
        self.assertEqual(texts | {report["text"]}, {plain["text"]})

    def test_text_follows_the_pattern(self):
        pattern = " ?(in|on) [a-z]{2,12}( [a-z]+){3}\\.( [0-9]+,)+ end"
        for verifier in ("rejection", "block", "coupled"):
            report, _ = self.report("--pattern", pattern, "--verifier", verifier,
                                    "--draft-length", "4", "--presence-penalty", "1")
            whole = re.fullmatch(pattern, report["text"])
            self.assertTrue(whole or report["tokens"] == 24, report["text"])
            self.assertRegex(report["text"], "^ ?(in|on) ")

    def test_fields(self):
        report, _ = self.report("--draft-length", "2", "--selector", "frequency:4000")
        for field in ("text", "tokens", "speedup", "predicted_speedup", "mean_acceptance_length",
                      "draft_acceptance_rate", "acceptance_by_position", "average_shortlist_rows",
                      "target_passes", "repetition_4gram", "identical_to_plain"):
            self.assertIn(field, report)
        self.assertGreater(report["plain"]["tokens_per_second"], 0)
        self.assertGreater(report["speculative"]["tokens_per_second"], 0)
        self.assertEqual(report["average_shortlist_rows"], 4000)
        self.assertEqual(len(report["acceptance_by_position"]), 2)

    def test_loops_that_do_not_wait_for_the_host(self):
        for flags in (["--temperature", "0"], ["--temperature", "0.9", "--batch", "3"],
                      ["--selector", "full", "--draft-length", "2"]):
            report, _ = self.report(*flags, "--verifier", "coupled", program=RESIDENT)
            self.assertIs(report["identical_to_plain"], True)
            self.assertGreater(report["mean_acceptance_length"], 1.0)
            self.assertEqual(report["tokens"], 24)
        plain, _ = self.report("--plain", "--verifier", "coupled", program=RESIDENT)
        self.assertEqual(plain["text"], report["text"])

    def test_device(self):
        done = generate("--device", "cuda", "--verifier", "coupled", *SHORT)
        if done.returncode == 0:
            self.assertIn("speed-up, measured", done.stdout)
            return
        self.assertEqual(done.stdout, "")
        self.assertEqual(done.stderr.count("\n"), 1)
        self.assertIn("CUDA driver" if done.returncode == 1 else "CUDACXX", done.stderr)

    def test_colors(self):
        self.assertIn("\033[", self.report("--color", "always")[1])
        self.assertNotIn("\033[", self.report("--color", "never")[1])
        self.assertNotIn("\033[", self.report()[1])  # not a terminal


if __name__ == "__main__":
    WORK.mkdir(parents=True, exist_ok=True)
    unittest.main(argv=sys.argv[:1])
