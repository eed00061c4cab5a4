#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Several processes that share a vocabulary write the text of one, by every preset.

    ranks_test.py GENERATE GENERATE_RANKS
"""

import json
import os
import re
import subprocess
import sys
import tempfile
import unittest

GENERATE, RANKS = sys.argv[1:3]
PROMPT = "The history of"

environment = dict(os.environ, OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")


def presets():
    text = subprocess.run([GENERATE, "--help"], capture_output=True, text=True, check=True).stdout
    listed = re.search(r"--preset\b.*?(?=\n\s+--[a-z])", text, re.DOTALL)[0]
    return re.findall(r"^\s+([a-z0-9-]+):", listed, re.MULTILINE)


def run(command):
    return subprocess.run(command, capture_output=True, text=True, env=environment, timeout=600)


def text_of(program, *flags):
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "report.json")
        done = run([*program, "--prompt", PROMPT, "--rounds", "1", "--json", path, *flags])
        if done.returncode != 0:
            raise AssertionError(f"{program} {flags}: {done.stderr}")
        with open(path, encoding="utf-8") as file:
            return json.load(file)["ids"]


def by_ranks(count):
    return ["mpirun", "--oversubscribe", "-n", str(count), RANKS]


class Ranks(unittest.TestCase):
    def test_every_preset(self):
        found = presets()
        self.assertGreaterEqual(len(found), 12, found)
        for name in found:
            for temperature in ("0", "1"):
                flags = ["--preset", name, "--temperature", temperature, "--max-new-tokens", "40",
                         "--threads", "1"]
                flags += ["--draft-length", "4"] if name != "plain" else []
                alone = text_of([GENERATE], *flags)
                self.assertEqual(len(alone), 40, name)
                for count in (2, 3):
                    with self.subTest(preset=name, temperature=temperature, ranks=count):
                        self.assertEqual(text_of(by_ranks(count), *flags), alone)

    def test_flag(self):
        flags = ["--preset", "fr-spec", "--temperature", "1", "--max-new-tokens", "30",
                 "--draft-length", "3", "--top-p", "0.9", "--repetition-penalty", "1.2",
                 "--batch", "3", "--threads", "1"]
        self.assertEqual(text_of([GENERATE], *flags, "--ranks", "2"), text_of([GENERATE], *flags))

    def test_measured_lengths(self):
        """Drafts as long as pays: all ranks must agree on what was measured."""
        flags = ["--preset", "dynaspec", "--temperature", "0", "--max-new-tokens", "60",
                 "--threads", "1"]
        self.assertEqual(text_of(by_ranks(2), *flags), text_of([GENERATE], *flags))

    def test_refused(self):
        done = run([*by_ranks(2), "--preset", "dynaspec", "--ranks", "3"])
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("--ranks: mpirun has started 2", done.stderr)
        self.assertEqual(done.stderr.count("mpirun has started"), 1)
        done = run([GENERATE, "--preset", "dynaspec", "--ranks", "2", "--device", "teams"])
        self.assertEqual(done.returncode, 2)
        self.assertIn("--ranks", done.stderr)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
