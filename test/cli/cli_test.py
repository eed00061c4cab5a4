# SPDX-License-Identifier: Apache-2.0
"""Runs `generate` as a user would: every bad flag, broken models, and what it prints and writes; with layouts
and routers of the programs that make them."""

import json
import os
import re
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

PROGRAM, RESIDENT, MAKE_LAYOUT, MAKE_RANKING, TRAIN_ROUTER, BEST_TREE, SUITE = sys.argv[1:8]
MODELS, WORK = Path(sys.argv[8]), Path(sys.argv[9]) / "cli"
ONE_TEXT = ["--prompts", "1", "--tokens", "4", "--epochs", "1", "--width", "4"]
TRAIN = [TRAIN_ROUTER, "--model", str(MODELS / "target"), "--eagle", str(MODELS / "eagle"),
         "--layout", str(MODELS / "layout.safetensors")]
CLUSTERED = ["--drafter", "model", "--selector", "clustered", "--layout", "x", "--router", "y"]

BAD_FLAGS = [
    (["--bogus"], "not expected: --bogus"),
    (["words"], "not expected: words"),
    (["--seed"], "--seed: 1 required N missing"),
    (["--seed", "x"], "--seed: 'x' is not a number"),
    (["--seed", "-1"], "--seed: '-1' is not a number"),
    (["--seed", "1", "--seed", "2"], "--seed: At Most 1 required but received 2"),
    (["--plain", "--plain"], "--plain: At Most 1 required but received 2"),
    (["--seed", "010x"], "--seed: '010x' is not a number"),
    (["--preset", "best"], "it takes dynaspec, fr-spec, "),
    (["--preset", ""], "--preset: '' is unknown"),
    (["--prompt-file", ""], "--prompt-file: cannot read ''"),
    (["--preset", "diffusion", "--tree", "chain"], "--tree has no meaning with --method diffusion"),
    (["--max-new-tokens", "0"], "--max-new-tokens: 0 is less than 1"),
    (["--max-new-tokens", "99999999999"], "not a number that fits"),
    (["--max-new-tokens", "12x"], "not a number that fits"),
    (["--batch", "0"], "--batch: 0 is less than 1"),
    (["--batch", "1000000000"], "--batch: 1000000000 is more than 128"),
    (["--temperature", "-1"], "--temperature: -1 is less than 0"),
    (["--temperature", "nan"], "--temperature: nan is less than 0"),
    (["--temperature", "inf"], "--temperature: inf is more than 10000"),
    (["--temperature", "1e-30"], "--temperature: is 0, which is greedy, or at least 0.0001"),
    (["--top-k", "-3"], "--top-k: -3 is less than 0"),
    (["--top-p", "0"], "--top-p is in (0, 1]"),
    (["--top-p", "1.5"], "--top-p: 1.5 is more than 1"),
    (["--min-p", "1.5"], "--min-p: 1.5 is more than 1"),
    (["--repetition-penalty", "0"], "--repetition-penalty: 0 is less than 0.0001"),
    (["--repetition-penalty", "1e38"], "--repetition-penalty: 1e38 is more than 10000"),
    (["--presence-penalty", "nan"], "--presence-penalty: nan is less than -10000"),
    (["--frequency-penalty", "inf"], "--frequency-penalty: inf is more than 10000"),
    (["--pattern", "a", "--ignore-end"], "--ignore-end has no meaning with --pattern"),
    (["--draft-length", "-1"], "--draft-length: -1 is less than 0"),
    (["--draft-length", "9"], "--draft-length: 9 is more than 8"),
    (["--draft-length", "some"], "not a number"),
    (["--draft-length", "1,2", "--method", "diffusion"], "--draft-length: with --method diffusion it is one number, or auto"),
    (["--draft-length", "1,2", "--preset", "canvas-head"], "--draft-length: with --method diffusion it is one number, or auto"),
    (["--draft-length", "1,2", "--device", "cuda"], "--draft-length: --device cuda keeps to one number"),
    (["--draft-length", "1,9"], "--draft-length: 9 is more than 8"),
    (["--draft-length", "1,,2"], "--draft-length: '' is not a number"),
    (["--draft-length", "1,"], "--draft-length: '' is not a number"),
    (["--draft-length", "1/"], "--draft-length: '' is not a number"),
    (["--device", "abacus"], "it takes host, cuda, teams"),
    (["--device", "cuda", "--threads", "2"], "--threads has no meaning with --device cuda"),
    (["--device", "cuda", "--pattern", "a"], "--pattern asks the host in every step"),
    (["--device", "teams", "--threads", "2"], "--threads has no meaning with --device teams"),
    (["--preset", "diffusion", "--device", "teams", "--threads", "2"], "--threads has no meaning with --device teams"),
    (["--precision", "fp8"], "it takes bf16, f32, int8, int4"),
    (["--device", "teams", "--precision", "int8"], "--precision has no meaning with --device teams"),
    (["--device", "teams", "--pattern", "a"], "which --device teams does not wait for"),
    (["--drafter", "medium"], "it takes model, eagle, medusa, streaming, early-exit, int4, lookup, ensemble, cascade, none"),
    (["--selector", "best"], "it takes full, frequency, trimmed, clustered"),
    (["--selector", "full:10"], "only frequency and trimmed take a number of rows"),
    (["--selector", "frequency:0"], "0 is less than 1"),
    (["--selector", "frequency:99999999"], "99999999 rows are asked for"),
    (["--selector", "trimmed:99999999"], "99999999 rows are asked for"),
    (["--selector", "clustered", "--layout", "x"], "--layout and --router of --selector clustered belong together"),
    (["--router", "x"], "--layout and --router of --selector clustered belong together"),
    (["--drafter", "eagle", "--router", "x"], "--router has a meaning with --selector clustered only"),
    (["--selector", "full", "--budget", "fixed:4"], "--budget has a meaning with --selector clustered only"),
    ([*CLUSTERED, "--budget", "some:4"], "'some:4' is unknown; it takes fixed:K, position-aware:K,"),
    ([*CLUSTERED, "--budget", "per-row:4"], "is unknown"),
    ([*CLUSTERED, "--budget", "position-aware:"], "is unknown"),
    ([*CLUSTERED, "--budget", "fixed"], "has not the numbers that fixed takes"),
    ([*CLUSTERED, "--budget", "fixed:4:5"], "has not the numbers that fixed takes"),
    ([*CLUSTERED, "--budget", "fixed:0"], "0 is less than 1"),
    ([*CLUSTERED, "--budget", "mass:1.5"], "--budget: 1.5 is more than 1"),
    ([*CLUSTERED, "--budget", "mass:nan"], "--budget: nan is less than 0"),
    ([*CLUSTERED, "--budget", "rows:3200:x"], "'x' is not a number"),
    (["--verifier", "hope"], "it takes rejection, block, coupled, point-mass, greedy"),
    (["--verifier", "greedy"], "keeps only greedy text exact"),
    (["--verifier", "greedy", "--temperature", "0", "--top-k", "4"], "--top-k has no meaning"),
    (["--verifier", "greedy", "--temperature", "0", "--pattern", "a"], "--pattern has no meaning"),
    (["--tree", "oak"], "it takes chain, sampled, dynamic, dynamic-60, fixed"),
    (["--prune", "-1"], "--prune: -1 is less than 0"),
    (["--prune", "4", "--tree", "dynamic"], "--prune has a meaning with --drafter streaming only"),
    (["--drafter", "streaming", "--prune", "4"], "use --tree dynamic or fixed"),
    (["--preset", "streaming-pruned", "--tree", "dynamic-60"], "use --tree dynamic or fixed"),
    (["--drafter", "streaming", "--tree", "dynamic", "--exit", "x"], "--exit has a meaning with --prune only"),
    (["--plain", "--prune", "4"], "--prune has no meaning with --plain"),
    (["--drafter", "lookup", "--exit", "x"], "--exit has no meaning with --drafter lookup"),
    (["--tree", "dynamic", "--verifier", "rejection"], "--verifier rejection needs the law"),
    (["--tree", "fixed", "--verifier", "block"], "--verifier block needs the law"),
    (["--tree", "sampled", "--verifier", "block"], "--verifier block judges chains"),
    (["--drafter", "lookup", "--verifier", "rejection"], "these are ranked"),
    (["--drafter", "lookup", "--tree", "dynamic"], "--tree has no meaning with --drafter lookup"),
    (["--drafter", "lookup", "--selector", "full"], "--selector has no meaning with --drafter lookup"),
    (["--drafter", "ensemble", "--verifier", "rejection"], "these are ranked"),
    (["--drafter", "ensemble", "--tree", "dynamic"], "--tree has no meaning with --drafter ensemble"),
    (["--drafter", "cascade", "--tree", "dynamic"], "--tree has no meaning with --drafter cascade"),
    (["--drafter", "cascade", "--draft", str(MODELS / "draft")], "--draft has no meaning with --drafter cascade"),
    (["--plain", "--tree", "chain"], "--tree has no meaning with --plain"),
    (["--device", "teams", "--tree", "sampled", "--verifier", "block"], "--verifier block judges chains"),
    (["--prompt", "a", "--prompt-file", "b"], "--prompt-file"),
    (["--prompt-file", "/no/such/file"], "--prompt-file: cannot read '/no/such/file'"),
    (["--prompt-file", "/"], "--prompt-file: '/' is a folder"),
    (["--prompt-file", "/dev/zero"], "--prompt-file: '/dev/zero' is longer than 1048576 bytes"),
    (["--prompt-file", "x" * 300], f"--prompt-file: cannot read '{'x' * 300}': File name too long"),
    (["--plain", "--draft-length", "3"], "--draft-length has no meaning with --plain"),
    (["--plain", "--selector", "full"], "--selector has no meaning with --plain"),
    (["--plain", "--drafter", "model"], "exclude each other"),
    (["--drafter", "none", "--draft", "x"], "--draft has no meaning with --drafter none"),
    (["--selector", "full", "--layout", "x"], "--layout has no meaning"),
    (["--model", str(MODELS / "target")], "--model without --draft"),
    (["--color", "blue"], "it takes auto, always, never"),
    (["--method", "magic"], "it takes speculative, diffusion, stepwise"),
    (["--block-length", "4"], "--block-length has no meaning with --method speculative"),
    (["--method", "diffusion", "--block-length", "0"], "--block-length: 0 is less than 1"),
    (["--method", "diffusion", "--block-cache", "some"], "it takes none, prefix, dual"),
    (["--block-cache", "dual"], "--block-cache has no meaning with --method speculative"),
    (["--preset", "canvas-head", "--block-cache", "dual"], "--block-cache: a head drafts from what the model reads anew"),
    (["--preset", "diffusion", "--block-cache", "dual", "--device", "teams"], "--block-cache is the host engine's"),
    (["--method", "stepwise", "--spread", "0"], "--spread has no meaning with --method stepwise"),
    (["--method", "diffusion", "--spread", "-1"], "--spread: -1 is less than 0"),
    (["--accept-top-k", "2"], "--accept-top-k has no meaning with --method speculative"),
    (["--method", "diffusion", "--accept-top-k", "2", "--spread", "1"], "use it without --spread"),
    (["--method", "diffusion", "--accept-top-k", "2", "--device", "cuda"], "--accept-top-k: --device cuda has exact loops"),
    (["--method", "diffusion", "--drafter", "eagle"], "--drafter has no meaning with --method diffusion"),
    (["--method", "stepwise", "--draft", "x"], "--draft has no meaning with --method stepwise"),
    (["--method", "diffusion", "--pattern", "a"], "--pattern has no meaning with --method diffusion"),
    (["--method", "stepwise", "--draft-length", "2"], "--draft-length has no meaning with --method stepwise"),
    (["--method", "stepwise", "--batch", "2"], "--batch has no meaning with --method stepwise"),
    (["--method", "diffusion", "--max-new-tokens", "100000"], "exceed the context of"),
    (["--threads", "0"], "--threads: 0 is less than 1"),
    (["--threads", "1000000"], "--threads: 1000000 is more than"),
    (["--rounds", "0"], "--rounds: 0 is less than 1"),
    (["--rounds", "1000000000"], "--rounds: 1000000000 is more than 1000"),
    (["--max-new-tokens", "100000"], "--max-new-tokens: the prompt's 10 tokens and 100000 new ones exceed the context of"),
    (["--prompt", "word " * 20000], "--prompt: its "),
]

BAD_TOOL_FLAGS = [
    ([BEST_TREE], "--acceptance is required"),
    ([BEST_TREE, "--acceptance", "x", "--nodes", "0"], "--nodes: 0 is less than 1"),
    ([BEST_TREE, "--acceptance", "x", "--nodes", "1000000000"], "--nodes: 1000000000 is more than"),
    ([BEST_TREE, "--acceptance", "x", "--temperature", "2"], "--temperature: 2 is more than 1"),
    ([BEST_TREE, "--acceptance", "/no/such/file"], "--acceptance: cannot read '/no/such/file': No such file"),
    ([BEST_TREE, "--acceptance", "/"], "--acceptance: '/' is a folder"),
    ([BEST_TREE, "--acceptance", "/dev/zero"], "--acceptance: '/dev/zero' is longer than"),
    ([*TRAIN, "--text", "x", "--out", "/dev/null", "--prompts", "1048576", "--tokens", "1048576"], "--prompts: 1048576 texts of"),
    ([*TRAIN, "--text", "x", "--out", "/dev/null", "--prompts", "4096", "--prompt", "1048576"], "--prompts: 4096 texts of"),
    ([*TRAIN, "--text", "/dev/zero", "--out", "/dev/null", *ONE_TEXT], "--text: '/dev/zero' is longer than"),
    ([*TRAIN, "--text", "x" * 300, "--out", "/dev/null", *ONE_TEXT], f"--text: cannot read '{'x' * 300}': File name too long"),
]

# With instructions that multiply bf16 numbers the engine on the host rounds states to such; a loop without
# the host does not, and where two tokens are as good as each other it may write the other one.
CPU = Path("/proc/cpuinfo")
HOST_ROUNDS_STATES = CPU.exists() and "avx512_bf16" in CPU.read_text()

SHORT = ["--max-new-tokens", "24", "--rounds", "1", "--prompt", "The name of the file"]


def short_without(*without):
    """SHORT, but for flags that a command line has already."""
    pairs = [SHORT[i:i + 2] for i in range(0, len(SHORT), 2)]
    return [word for pair in pairs if pair[0] not in without for word in pair]


def generate(*flags, program=PROGRAM, timeout=120, **environment):
    return subprocess.run([program, *flags], capture_output=True, text=True, errors="replace",
                          env={**os.environ, **environment}, timeout=timeout)


def by_the_clock(run, is_as_expected, turns=4):
    """What `run` returns: of what a program decides by measuring time, the first that is as expected.

    Where other programs take the processors away, a measurement says anything; one that is wrong in
    every turn is no accident.
    """
    for _ in range(turns - 1):
        result = run()
        if is_as_expected(result):
            return result
    return run()


def within_limits(*command, **streams):
    """Runs a program that may take neither gigabytes nor minutes."""
    if not streams:
        streams = {"stdout": subprocess.PIPE}
    return subprocess.run(["bash", "-c", 'ulimit -v 4000000; exec "$@"', "_", *map(str, command)],
                          stderr=subprocess.PIPE, text=True, errors="replace", timeout=20, **streams)


def report_of(*flags, program=PROGRAM, short=SHORT, timeout=120):
    file = WORK / "report.json"
    # Several tests run side by side, and threads that wait for each other crawl then.
    elsewhere = {"--threads", "cuda", "teams"} & set(flags)
    one_thread = [] if elsewhere else ["--threads", "1"]
    done = generate(*short, "--json", str(file), *one_thread, *flags, program=program, timeout=timeout)
    if done.returncode != 0:
        raise AssertionError(done.stderr)
    return json.loads(file.read_text()), done.stdout


def read_tensors(path):
    """{name: (dtype, shape, bytes)} of a safetensors file."""
    data = path.read_bytes()
    begin = 8 + struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8:begin])
    return {name: (t["dtype"], t["shape"], data[begin + t["data_offsets"][0]:begin + t["data_offsets"][1]])
            for name, t in header.items() if name != "__metadata__"}


def write_tensors(path, tensors, about=None):
    header, at = {"__metadata__": about} if about else {}, 0
    for name, (dtype, shape, data) in tensors.items():
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [at, at + len(data)]}
        at += len(data)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(struct.pack("<Q", len(text)) + text + b"".join(t[2] for t in tensors.values()))


def has_terminals():
    """Whether a program can be given a terminal: bare containers and changed roots may have none."""
    try:
        for end in os.openpty():
            os.close(end)
    except OSError:
        return False
    return shutil.which("script") is not None


class BadFlags(unittest.TestCase):
    def test_each_is_refused_with_a_sentence(self):
        for flags, message in BAD_FLAGS:
            with self.subTest(flags=flags):
                done = generate(*flags)
                self.assertEqual(done.returncode, 2, done.stderr)
                self.assertIn(message, done.stderr)
                self.assertEqual(done.stdout, "")
                self.assertEqual(done.stderr.count("\n"), 1)

    def test_those_of_other_programs(self):
        for command, message in BAD_TOOL_FLAGS:
            with self.subTest(command=command):
                done = within_limits(*command)
                self.assertEqual(done.returncode, 2, done.stderr)
                self.assertIn(message, done.stderr)
                self.assertEqual(done.stdout, "")
                self.assertEqual(done.stderr.count("\n"), 1)

    def test_numbers_that_nobody_means(self):
        """Every flag with a number takes an absurd one at once: it is refused by name, or changes what is done only."""
        help_text = generate("--help").stdout
        numbers = re.findall(r"^  (--[a-z-]+) [NX] ", help_text, re.MULTILINE)
        for flag in ("--batch", "--rounds", "--threads", "--top-k", "--temperature", "--seed", "--block-length"):
            self.assertIn(flag, numbers)
        for flag in numbers:
            for value in ("2147483647", "-2147483648", "1e308", "9" * 400):
                with self.subTest(flag=flag, value=value):
                    method = ["--method", "diffusion"] if flag == "--block-length" else []
                    done = within_limits(PROGRAM, *short_without(flag), *method, flag, value)
                    if done.returncode != 0:
                        self.assertEqual(done.returncode, 2, done.stderr)
                        self.assertIn(flag, done.stderr)

    def test_a_prompt_of_many_megabytes(self):
        file = WORK / "prompt.txt"
        file.write_text("a word " * 1500000)
        done = generate("--prompt-file", str(file))
        self.assertEqual(done.returncode, 2)
        self.assertIn("--prompt-file: ", done.stderr)

    def test_values_that_look_like_something_else(self):
        for prompt in ("{}", "[a,b]", "%%", "--plain", "-1", "a=b", ""):
            with self.subTest(prompt=prompt):
                report, printed = report_of("--plain", "--prompt", prompt, short=SHORT[:-2])
                self.assertIn("plain decoding\n\n" + prompt + report["text"][:10], printed)


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
        for flags in (["--plain", "--model"], ["--draft"], ["--drafter", "eagle", "--draft"]):
            self.refused([*flags, "x" * 300], f"generate: {'x' * 300}/", "cannot be opened")

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


class Output(unittest.TestCase):
    def report(self, *flags, program=PROGRAM):
        return report_of(*flags, program=program)

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

    def test_patterns_that_end_at_once(self):
        for pattern, flags in (("(yes|no)", []), ("a", ["--verifier", "block"]), ("(yes|no)", ["--preset", "medusa"]),
                               ("(yes|no)", ["--plain"]), ("(yes|no)", ["--batch", "3", "--temperature", "0"])):
            with self.subTest(pattern=pattern, flags=flags):
                report, _ = self.report("--pattern", pattern, *flags)
                self.assertRegex(report["text"], f"^{pattern}$")

    def test_what_auto_has_chosen_repeats_a_text(self):
        # What costs next to nothing to draft and is always right pays on any machine; in so many steps it is tried
        # again where the first tries were disturbed.
        repeats = ["--preset", "lookup", "--temperature", "0", "--ignore-end", "--prompt", "one two, " * 20,
                   "--max-new-tokens", "192"]
        few, on_device = ["--max-new-tokens", "1"], ["--device", "cuda", "--verifier", "coupled"]
        for flags, program, pattern in (
                ([], PROGRAM, "[0-8](,[0-8])+"), (repeats, PROGRAM, "[0-8,]*[1-8][0-8,]*"),
                (["--batch", "3"], PROGRAM, "[0-8](,[0-8])+(/[0-8](,[0-8])*){2}"),
                (["--tree", "dynamic"], PROGRAM, "[0-8](,[0-8])+"),
                (["--preset", "streaming"], PROGRAM, "[0-8](,[0-8])+"), (few, PROGRAM, "0"),
                ([*few, "--batch", "3"], PROGRAM, "0/0/0"), (on_device, RESIDENT, "[0-8]"),
                ([*on_device, *few], RESIDENT, "0")):
            with self.subTest(flags=flags):
                short = ["--rounds", "1", *([] if "--max-new-tokens" in flags else ["--max-new-tokens", "64"])]
                first, printed = by_the_clock(
                    lambda: report_of(*flags, short=short, program=program),
                    lambda result: re.fullmatch(pattern, result[0]["draft_length"]))
                self.assertRegex(first["draft_length"], f"^{pattern}$")
                self.assertIn(f"--draft-length {first['draft_length']}\n", printed)
                again, printed = report_of(*flags, "--draft-length", first["draft_length"], short=short, program=program)
                self.assertNotIn("--draft-length", printed)
                self.assertEqual(again["draft_length"], first["draft_length"])
                self.assertEqual(again["text"], first["text"])

    def test_levels_of_each_step(self):
        same, _ = self.report("--draft-length", "3")
        for levels in ("3,3", ",".join("3" * 30), "3/5"):
            report, _ = self.report("--draft-length", levels, "--batch", "2")
            self.assertEqual(report["text"], same["text"])
        none, _ = self.report("--draft-length", "0")
        self.assertEqual(none["text"], self.report("--draft-length", "0,0")[0]["text"])
        self.assertEqual(none["average_draft_length"], 0)
        mixed, _ = self.report("--draft-length", "0,4,2,1,3,0,5,2")
        self.assertEqual(mixed["text"], self.report("--draft-length", "0,4,2,1,3,0,5,2")[0]["text"])
        self.assertEqual(len({text["text"] for text in (same, none, mixed)}), 3)

    def test_a_number_of_levels_is_told_too(self):
        report, printed = self.report("--draft-length", "3")
        self.assertEqual(report["draft_length"], "3")
        self.assertNotIn("--draft-length", printed)

    def test_fields(self):
        report, _ = self.report("--draft-length", "2", "--selector", "frequency:4000")
        for field in ("text", "tokens", "ids", "speedup", "predicted_speedup", "mean_acceptance_length",
                      "draft_acceptance_rate", "acceptance_by_position", "average_shortlist_rows",
                      "target_passes", "repetition_4gram", "identical_to_plain"):
            self.assertIn(field, report)
        self.assertGreater(report["plain"]["tokens_per_second"], 0)
        self.assertGreater(report["speculative"]["tokens_per_second"], 0)
        self.assertEqual(report["average_shortlist_rows"], 4000)
        self.assertEqual(len(report["acceptance_by_position"]), 2)
        self.assertEqual(len(report["ids"]), report["tokens"])

    def test_a_trimmed_head_has_no_other_rows(self):
        for verifier in ("rejection", "block", "coupled", "greedy"):
            report, _ = self.report("--temperature", "0", "--selector", "trimmed:3000", "--verifier", verifier,
                                    "--draft-length", "3")
            self.assertIs(report["identical_to_plain"], True)
            self.assertEqual(report["average_shortlist_rows"], 3000)

    def test_loops_that_do_not_wait_for_the_host(self):
        for flags in (["--temperature", "0"], ["--temperature", "0.9", "--batch", "3"], ["--selector", "full"],
                      ["--selector", "trimmed:3000"]):
            report, _ = self.report("--device", "cuda", *flags, "--verifier", "coupled", "--draft-length", "4",
                                    program=RESIDENT)
            self.assertIs(report["identical_to_plain"], True)
            self.assertGreater(report["mean_acceptance_length"], 1.0)
            self.assertEqual(report["tokens"], 24)
        plain, _ = self.report("--plain", "--verifier", "coupled", program=RESIDENT)
        self.assertEqual(plain["text"], report["text"])

    def test_such_loops_draft_nothing_where_that_does_not_pay(self):
        # A shortlist of one token, which is hardly ever the next one.
        flags = ["--device", "cuda", "--selector", "frequency:1", "--verifier", "coupled"]
        report, _ = by_the_clock(lambda: self.report(*flags, program=RESIDENT),
                                 lambda result: result[0]["draft_length"] == "0")
        self.assertEqual(report["draft_length"], "0")
        self.assertEqual(report["average_draft_length"], 0)
        self.assertEqual(report["predicted_speedup"], 1)
        self.assertIs(report["identical_to_plain"], True)
        drafts, _ = self.report(*flags, "--draft-length", "2", program=RESIDENT)
        self.assertGreater(drafts["average_draft_length"], 1)
        self.assertEqual(drafts["text"], report["text"])

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


# Presets that fill canvases.
CANVASES = ("diffusion", "ssd-paper", "canvas-head")


class Presets(unittest.TestCase):
    """Each that `--help` lists is run: a preset without a test cannot exist."""

    @classmethod
    def setUpClass(cls):
        cls.help = generate("--help").stdout
        listed = re.search(r"--preset NAME.*?\n(( {26}\S.*\n)+)", cls.help).group(1)
        cls.lines = dict(re.match(r"([a-z0-9-]+): (.+)", line.strip()).groups() for line in listed.splitlines())
        refused = generate("--preset", "?").stderr
        cls.names = refused.split("it takes ")[1].strip().split(", ")

    def test_help_has_a_line_for_each(self):
        self.assertEqual(list(self.lines), self.names)
        self.assertGreaterEqual(set(self.names), {
            "dynaspec", "fr-spec", "eagle", "medusa", "streaming", "early-exit", "lookup", "plain", "diffusion"})

    def test_each_writes_its_text(self):
        said = {}
        for name in self.names:
            with self.subTest(preset=name):
                report, printed = report_of("--preset", name, "--ignore-end")
                self.assertEqual(report["preset"], name)
                self.assertEqual(report["tokens"], 24)
                self.assertIn(f"{name}: {report['composition']}\n", printed)
                said[report["composition"]] = name
                if name != "plain" and name not in CANVASES:
                    greedy, _ = report_of("--preset", name, "--ignore-end", "--temperature", "0")
                    self.assertIs(greedy["identical_to_plain"], True)
                    self.assertLessEqual({"speedup", "predicted_speedup", "mean_acceptance_length",
                                          "identical_to_plain", "repetition_4gram"}, set(report))
        self.assertEqual(sorted(said.values()), sorted(self.names))  # no two are the same

    def test_each_writes_the_text_of_plain_decoding_in_a_loop_without_the_host(self):
        for name in self.names:
            if name == "plain" or name in CANVASES:
                continue
            with self.subTest(preset=name):
                on_host, _ = report_of("--preset", name, "--temperature", "0", "--draft-length", "3")
                report, _ = report_of("--preset", name, "--temperature", "0", "--draft-length", "3",
                                      "--device", "cuda", program=RESIDENT)
                self.assertEqual(report["preset"], name)
                self.assertEqual(report["composition"].split(", verified")[0],
                                 on_host["composition"].split(", verified")[0])
                self.assertIs(report["identical_to_plain"], True)
                if name != "lookup":
                    self.assertGreater(report["mean_acceptance_length"], 1.0)

    def test_the_first_is_that_of_no_flags(self):
        report, printed = report_of()
        self.assertEqual(report["preset"], self.names[0])
        self.assertIn(f"default {self.names[0]}", self.help)
        for flags in (["--drafter", "model"], ["--verifier", "coupled"], ["--preset", "eagle", "--tree", "dynamic"]):
            report, printed = report_of(*flags)
            self.assertIsNone(report["preset"])
            self.assertTrue(printed.startswith(report["composition"]), printed)

    def test_flags_come_before_what_it_sets(self):
        for preset, flags, said in (
                ("dynaspec", ["--selector", "full"], "four bits draft chains from the whole vocabulary"),
                ("dynaspec", ["--drafter", "eagle"], "an EAGLE head drafts chains from clusters"),
                ("dynaspec", ["--selector", "frequency:2000"], "from the most frequent tokens"),
                ("medusa", ["--tree", "chain"], "Medusa heads draft chains"),
                ("streaming-pruned", ["--prune", "3", "--tree", "fixed"],
                 "streams draft a fixed tree, of which its first layers leave 3 nodes, from the most frequent tokens"),
                ("eagle-2", ["--drafter", "lookup"], "what followed the end of the text"),
                ("eagle-2", ["--drafter", "ensemble"], "an EAGLE head and what followed the end"),
                ("dynaspec", ["--drafter", "cascade"], "or the target's weights in four bits draft chains from clusters"),
                ("plain", ["--drafter", "early-exit"], "first layers draft chains"),
                ("eagle", ["--plain"], "plain decoding"),
                ("canvas-head", ["--method", "stepwise"], "one token a pass"),
                ("canvas-head", ["--method", "speculative"], "a smaller model drafts"),
                ("dynaspec", ["--method", "diffusion"], "which drafts for itself")):
            with self.subTest(preset=preset, flags=flags):
                self.assertIn(said, report_of("--preset", preset, *flags)[0]["composition"])


class Teams(unittest.TestCase):
    """By the program whose loops run on teams of threads, which wait for each other hundreds of thousands of
    times: few tokens, and patience."""

    FEW = ["--rounds", "1", "--temperature", "0", "--prompt", "The name of the file"]

    def test_of_each_kind_of_preset_one_writes_the_text_of_plain_decoding(self):
        few = [*self.FEW, "--max-new-tokens", "3"]
        for name in ("plain", "dynaspec", "eagle-2", "ensemble", "medusa", "streaming", "streaming-pruned", "early-exit",
                     "lookup", "cascade"):
            with self.subTest(preset=name):
                length = [] if name == "plain" else ["--draft-length", "2"]
                report, _ = report_of("--preset", name, *length, "--device", "teams", short=few, program=RESIDENT,
                                      timeout=600)
                self.assertEqual(report["preset"], name)
                self.assertEqual(report["tokens"], 3)
                if name != "plain":
                    self.assertIs(report["identical_to_plain"], True)

    def test_canvases_are_filled_as_on_the_host(self):
        few = [*self.FEW, "--max-new-tokens", "12"]
        for name in CANVASES:
            with self.subTest(preset=name):
                flags = ["--preset", name, "--draft-length", "2"]
                on_host, _ = report_of(*flags, short=few)
                report, _ = report_of(*flags, "--device", "teams", short=few, program=RESIDENT, timeout=600)
                self.assertEqual(report["preset"], name)
                self.assertEqual(report["text"], on_host["text"])
                self.assertIs(report["diffusion"]["identical_to_stepwise"], True)


class OutputThatCannotBeWritten(unittest.TestCase):
    """What can be seen before the run is: then nothing has been printed."""

    WRITERS = [([PROGRAM, *SHORT], "--json"), ([RESIDENT, "--device", "cuda", *SHORT], "--json"),
               ([PROGRAM, "--method", "diffusion", *SHORT], "--json"), ([SUITE], "--json"),
               ([MAKE_LAYOUT, "--model", str(MODELS / "draft"), "--clusters", "4", "--iterations", "1"], "--out"),
               ([MAKE_RANKING, "--model", str(MODELS / "target"), "--text", str(MODELS / "heldout")], "--out"),
               ([*TRAIN, "--text", str(MODELS / "heldout"), *ONE_TEXT], "--out")]

    @staticmethod
    def run_into(command, **streams):
        return subprocess.run(command, stderr=subprocess.PIPE, text=True, timeout=60, **streams)

    @classmethod
    def run_into_closed_pipe(cls, command, **how):
        reader, writer = os.pipe()
        os.close(reader)
        with os.fdopen(writer, "w") as closed:
            return cls.run_into(command, stdout=closed, **how)

    def test_a_place_where_no_file_can_be(self):
        for command, flag in self.WRITERS:
            for place, why in (("/no/such/folder/file", "No such file or directory"), (str(WORK), "Is a directory"),
                               ("x" * 300, "File name too long")):
                with self.subTest(command=command, place=place):
                    done = self.run_into([*command, flag, place], stdout=subprocess.PIPE)
                    self.assertEqual(done.returncode, 1)
                    self.assertIn(f"{flag}: cannot write '{place}': {why}", done.stderr)
                    self.assertEqual(done.stdout, "")

    def test_a_folder_that_may_not_be_entered(self):
        folder = WORK / "closed"
        folder.mkdir(exist_ok=True)
        folder.chmod(0)
        somebody = {"user": 65534} if os.geteuid() == 0 else {}  # root may enter any
        for command, flag, file in (([PROGRAM, *SHORT], "--json", folder / "x"), ([SUITE], "--json", folder / "x"),
                                    ([PROGRAM], "--prompt-file", folder / "x"),
                                    ([BEST_TREE], "--acceptance", folder / "x"),
                                    ([*TRAIN, "--out", "/dev/null"], "--text", folder)):
            with self.subTest(command=command, flag=flag):
                try:
                    done = self.run_into([*command, flag, str(file)], stdout=subprocess.PIPE, **somebody)
                except PermissionError:
                    self.skipTest("the programs are nobody's")
                self.assertIn(done.returncode, (1, 2))
                self.assertRegex(done.stderr, f"{flag}: cannot (read|write) '{file}': Permission denied")
                self.assertEqual(done.stdout, "")

    def test_a_full_disk(self):
        for command, flag in self.WRITERS:
            with self.subTest(command=command):
                done = self.run_into([*command, flag, "/dev/full"], stdout=subprocess.PIPE)
                self.assertEqual(done.returncode, 1)
                self.assertIn("/dev/full", done.stderr)

    def test_output_that_goes_nowhere(self):
        file = WORK / "acceptance.json"
        file.write_text(json.dumps({"T=0": [[0.6]]}))
        for command in ([PROGRAM, *SHORT], [PROGRAM, "--plain", *SHORT], [PROGRAM, "--preset", "diffusion", *SHORT],
                        [PROGRAM, "--help"], [BEST_TREE, "--acceptance", str(file), "--nodes", "1"], [SUITE],
                        *([*command, "--out", str(WORK / "written")]
                          for command, flag in self.WRITERS if flag == "--out")):
            with self.subTest(command=command):
                with open("/dev/full", "w") as full:
                    done = self.run_into(command, stdout=full)
                self.assertEqual(done.returncode, 1)
                self.assertIn("the output cannot be written", done.stderr)
                # A reader that has gone ends a program by a signal, or is an error where that is ignored.
                self.assertEqual(self.run_into_closed_pipe(command).returncode, -signal.SIGPIPE)
                done = self.run_into_closed_pipe(command, restore_signals=False)
                self.assertEqual(done.returncode, 1)
                self.assertIn("the output cannot be written", done.stderr)
                if "--prompt" in command:  # what is written as it comes, not at the end
                    self.assertIn("the output cannot be written: Broken pipe", done.stderr)

    def test_a_file_that_is_there_stays_until_it_is_written(self):
        file = WORK / "kept.json"
        file.write_text("kept")
        done = self.run_into([PROGRAM, "--plain", "--model", "/no/such/model", "--json", str(file)])
        self.assertEqual(done.returncode, 1)
        self.assertEqual(file.read_text(), "kept")
        file.unlink()
        self.run_into([PROGRAM, "--plain", "--model", "/no/such/model", "--json", str(file)])
        self.assertFalse(file.exists())

    def test_a_suite_writes_its_rows(self):
        file = WORK / "rows.json"
        done = self.run_into([SUITE, "--json", str(file)], stdout=subprocess.PIPE)
        self.assertEqual(done.returncode, 0, done.stderr)
        written = json.loads(file.read_text())
        self.assertEqual(written["rows"][:2],
                         [{"name": "a row", "value": 1, "unit": "x", "goal": 1, "met": True},
                          {"name": "another", "value": None, "unit": "", "goal": None, "met": None, "not_run": "why"}])
        self.assertEqual(self.run_into([SUITE, "--jsn", "x"]).returncode, 2)
        # The names of vLLM's `metrics.speculative_decoding`; there a step without a draft is none.
        once, nothing, twice = written["requests"]
        self.assertEqual(once, {
            "mean_acceptance_length": 1 + 4 / 3, "draft_acceptance_rate": 4 / 12, "acceptance_histogram": [1, 1, 0, 1],
            "acceptance_histogram_by_draft_length": {"2": [1, 0, 0], "3": [0, 1, 0, 1]}, "num_spec_steps": 3,
            "num_accepted_draft_tokens": 4, "num_draft_tokens": 12, "num_spec_tokens": 3})
        self.assertEqual(nothing, {
            "mean_acceptance_length": None, "draft_acceptance_rate": None, "acceptance_histogram": [0, 0, 0, 0],
            "acceptance_histogram_by_draft_length": {}, "num_spec_steps": 0, "num_accepted_draft_tokens": 0,
            "num_draft_tokens": 0, "num_spec_tokens": 3})
        self.assertEqual(twice["acceptance_histogram_by_draft_length"], {"2": [2, 0, 0], "3": [0, 2, 0, 2]})
        self.assertEqual((twice["num_spec_steps"], twice["mean_acceptance_length"]), (6, 1 + 4 / 3))
        # All steps; and of those that drafted a position after accepted ones, that accepted it.
        self.assertEqual([row["value"] for row in written["rows"][2:]], [2, 2 / 3, 1 / 2, 1])


class Clusters(unittest.TestCase):
    """Clusters of the shipped draft model, and routers for it and for an EAGLE head: a layer of the target,
    which learned nothing else, is one as good as any for what is tested here."""

    @classmethod
    def setUpClass(cls):
        cls.eagle = WORK / "eagle"
        cls.make_eagle()
        cls.layouts, cls.routers, cls.printed = {}, {}, {}
        for kind, folder, head in (("--draft", MODELS / "draft", "draft"), ("--eagle", cls.eagle, "target")):
            cls.layouts[kind] = WORK / f"layout{kind}.safetensors"
            cls.run_program(MAKE_LAYOUT, "--model", MODELS / head, "--out", cls.layouts[kind], "--clusters", "40",
                            "--iterations", "3", "--frequency", MODELS / "frequency.safetensors", "--core", "300")
            cls.routers[kind] = WORK / f"router{kind}.safetensors"
            cls.printed[kind] = cls.run_program(
                TRAIN_ROUTER, "--model", MODELS / "target", kind, folder, "--layout", cls.layouts[kind], "--text",
                MODELS / "heldout", "--leave-out", "man", "--out", cls.routers[kind], "--prompts", "7",
                "--tokens", "20", "--width", "8", "--epochs", "2")

    @staticmethod
    def run_program(*command):
        done = subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=300)
        if done.returncode != 0:
            raise AssertionError(done.stderr)
        return done.stdout

    @classmethod
    def make_eagle(cls):
        cls.eagle.mkdir(exist_ok=True)
        config = json.loads((MODELS / "target/config.json").read_text())
        width, last = config["hidden_size"], config["num_hidden_layers"] - 1
        config["num_hidden_layers"] = 1
        config |= {"target_head_fingerprint":
                   json.loads((MODELS / "eagle/config.json").read_text())["target_head_fingerprint"]}
        (cls.eagle / "config.json").write_text(json.dumps(config))
        taken = {name.replace(f"layers.{last}.", "layers.0."): tensor
                 for name, tensor in read_tensors(MODELS / "target/model.safetensors").items()
                 if f"layers.{last}." in name or name == "model.norm.weight"}
        # Half of the embedding and half of the feature before it.
        row = [[0.5 if k % width == i else 0.0 for k in range(2 * width)] for i in range(width)]
        taken["model.fc.weight"] = ("F32", [width, 2 * width],
                                    b"".join(struct.pack(f"<{2 * width}f", *r) for r in row))
        write_tensors(cls.eagle / "model.safetensors", taken)

    def test_an_oracle_covers_more_than_a_router(self):
        for printed in self.printed.values():
            laws = [float(x) for x in re.findall(r"^man, left out: .* hold ([0-9.]+)", printed, re.MULTILINE)]
            rows = [int(x) for x in re.findall(r"in ([0-9]+) rows$", printed, re.MULTILINE)]
            self.assertEqual(len(laws), 2)
            self.assertLess(0.2, laws[0])
            self.assertLess(laws[0], laws[1])
            self.assertLess(laws[1], 1.0)
            self.assertTrue(all(300 < r <= 32000 / 6 for r in rows), rows)

    def test_domains_are_left_out_of_training(self):
        flags = ["--model", "x", "--draft", "x", "--layout", "x", "--out", "x"]
        for text, domain in ((MODELS / "heldout", "poetry"), (MODELS / "heldout/man.txt", "man")):
            done = subprocess.run([TRAIN_ROUTER, *flags, "--text", str(text), "--leave-out", domain],
                                  capture_output=True, text=True, timeout=60)
            self.assertEqual(done.returncode, 2, done.stderr)

    def test_texts_that_fail_are_not_trained_on(self):
        target = WORK / "broken"
        shutil.copytree(MODELS / "target", target, dirs_exist_ok=True)
        tensors = read_tensors(target / "model.safetensors")
        dtype, shape, data = tensors["model.norm.weight"]
        write_tensors(target / "model.safetensors",
                      {**tensors, "model.norm.weight": (dtype, shape, b"\xff" * len(data))})
        out = WORK / "router_of_nothing"
        done = subprocess.run([TRAIN_ROUTER, "--model", target, "--draft", MODELS / "draft", "--layout",
                               self.layouts["--draft"], "--text", MODELS / "heldout", "--out", out, *ONE_TEXT],
                              capture_output=True, text=True, timeout=60)
        self.assertEqual(done.returncode, 1, done.stdout)
        self.assertIn(f"{target}: text 0 failed: ", done.stderr)
        self.assertFalse(out.exists())

    def flags(self, kind="--draft"):
        drafter = ["--drafter", "model"] if kind == "--draft" else []
        return [*drafter, "--selector", "clustered", "--layout", str(self.layouts[kind]),
                "--router", str(self.routers[kind])]

    def test_budgets(self):
        rows = {}
        for budget in ("fixed:4", "position-aware:12", "mass:0.9:8", "rows:4000", "per-row:rows:4000",
                       "position-aware:per-row:rows:4000:30"):
            report, _ = report_of(*self.flags(), "--budget", budget, "--verifier", "coupled", "--draft-length", "4")
            self.assertIs(report["identical_to_plain"], True)
            self.assertGreater(report["average_shortlist_rows"], 300)
            rows[budget] = report["average_shortlist_rows"]
        for budget in ("rows:4000", "per-row:rows:4000"):
            self.assertLessEqual(rows[budget], 4000)
        self.assertLess(rows["position-aware:per-row:rows:4000:30"], rows["per-row:rows:4000"])

    def test_verifiers(self):
        for verifier in ("rejection", "block", "coupled", "greedy"):
            report, _ = report_of(*self.flags(), "--temperature", "0", "--verifier", verifier, "--ignore-end")
            self.assertIs(report["identical_to_plain"], True)
            self.assertEqual(report["tokens"], 24)
            self.assertLessEqual(report["average_shortlist_rows"], 32000 / 6)

    def test_text_depends_on_the_seed_alone(self):
        flags = [*self.flags(), "--draft-length", "3", "--seed", "5"]
        self.assertEqual(report_of(*flags)[0]["text"], report_of(*flags, "--batch", "3", "--threads", "1")[0]["text"])

    def test_an_eagle_head_drafts(self):
        for selector in ([], ["--selector", "full"], self.flags("--eagle")):
            report, _ = report_of("--draft", str(self.eagle), "--temperature", "0", "--draft-length", "3", *selector)
            self.assertIs(report["identical_to_plain"], True)
        report, _ = report_of("--device", "cuda", "--draft", str(self.eagle), "--verifier", "coupled",
                              "--draft-length", "3", *self.flags("--eagle"), program=RESIDENT)
        self.assertIs(report["identical_to_plain"], True)
        self.assertIn("an EAGLE head drafts chains from clusters", report["composition"])

    def test_what_does_not_fit_is_refused(self):
        shipped = str(MODELS / "frequency.safetensors")
        layout, router = str(self.layouts["--draft"]), str(self.routers["--draft"])
        for flags, message in (
                (["--draft", str(self.eagle), *self.flags()], "was made for another head"),
                (["--drafter", "model", "--selector", "clustered", "--layout", shipped, "--router", router],
                 "was trained for another layout"),
                (["--drafter", "model", "--selector", "clustered", "--layout", layout, "--router", shipped],
                 "first"),
                (["--drafter", "model", "--layout", router], "is not a layout")):
            done = generate(*flags, *SHORT)
            self.assertEqual(done.returncode, 1, done.stderr)
            self.assertIn(message, done.stderr)


class Drafters(unittest.TestCase):
    SHIPPED = ["model", "eagle", "medusa", "early-exit", "int4", "streaming"]

    def test_text_is_that_of_plain_decoding(self):
        for drafter in self.SHIPPED:
            for tree in ("chain", "sampled", "dynamic", "fixed"):
                with self.subTest(drafter=drafter, tree=tree):
                    greedy, _ = report_of("--drafter", drafter, "--tree", tree, "--temperature", "0", "--ignore-end")
                    self.assertIs(greedy["identical_to_plain"], True)
                    self.assertEqual(greedy["tokens"], 24)
        for flags in (["--drafter", "lookup"], ["--drafter", "eagle", "--tree", "dynamic"],
                      ["--drafter", "streaming", "--tree", "fixed", "--prune", "4"],
                      ["--drafter", "medusa", "--tree", "sampled"], ["--drafter", "early-exit"],
                      ["--drafter", "ensemble"], ["--drafter", "cascade"]):
            with self.subTest(flags=flags):
                drawn, _ = report_of(*flags, "--verifier", "coupled", "--batch", "2", "--draft-length", "3")
                self.assertIs(drawn["identical_to_plain"], True)

    def test_text_is_that_of_plain_decoding_in_a_loop_without_the_host(self):
        for drafter in self.SHIPPED:
            for tree in ("chain", "sampled", "dynamic", "fixed"):
                with self.subTest(drafter=drafter, tree=tree):
                    report, _ = report_of("--device", "cuda", "--drafter", drafter, "--tree", tree, "--verifier",
                                          "coupled", "--draft-length", "3", "--max-new-tokens", "8", program=RESIDENT,
                                          short=["--rounds", "1", "--prompt", "The name of the file"])
                    self.assertIs(report["identical_to_plain"], True)
                    self.assertEqual(report["tokens"], 8)

    def test_text_is_that_of_plain_decoding_in_every_precision(self):
        texts = {}
        for precision in ("bf16", "f32", "int8", "int4"):
            for drafter in self.SHIPPED:
                with self.subTest(precision=precision, drafter=drafter):
                    report, _ = report_of("--precision", precision, "--drafter", drafter, "--temperature", "0")
                    self.assertIs(report["identical_to_plain"], True)
                    texts[precision] = report["ids"]
        self.assertEqual(texts["int8"][:8], texts["f32"][:8])
        self.assertNotEqual(texts["int4"], texts["f32"])
        report, _ = report_of("--preset", "diffusion", "--precision", "int8", "--temperature", "0")
        self.assertIs(report["diffusion"]["identical_to_stepwise"], True)

    def test_drafts_are_accepted(self):
        for drafter in self.SHIPPED:
            with self.subTest(drafter=drafter):
                report, _ = report_of("--drafter", drafter, "--draft-length", "3", "--ignore-end",
                                      short=["--max-new-tokens", "64", "--rounds", "1"])
                self.assertGreater(report["mean_acceptance_length"], 1.2)
        report, _ = report_of("--drafter", "lookup", "--draft-length", "4", "--temperature", "0", "--ignore-end",
                              short=["--rounds", "1", "--prompt", "one two three four, one two three four, one two"])
        self.assertGreater(report["mean_acceptance_length"], 1.5)

    def test_the_best_tree(self):
        file = WORK / "acceptance.json"
        file.write_text(json.dumps({"T=0": [[0.6, 0.2, 0.1], [0.5, 0.2]], "T=1": [[0.3, 0.25]]}))
        for flags, printed in ((["--nodes", "4"], "best{{0}, {1}, {0, 0}, {0, 1}};"),
                               (["--nodes", "2", "--temperature", "1"], "best{{0}, {1}};")):
            done = subprocess.run([BEST_TREE, "--acceptance", str(file), *flags], capture_output=True, text=True)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn(printed, done.stdout)
        for content in (None, "", "{", "[1]", '{"T=1": []}', '{"T=0": 3}', '{"T=0": [["a"]]}', "[" * 1000000):
            if content is not None:
                file.write_text(content)
            done = within_limits(BEST_TREE, "--acceptance", file, "--nodes", "100")
            self.assertEqual(done.returncode, 1, done.stderr)
            self.assertIn(f"best_tree: {file}: ", done.stderr)

    def test_by_every_rule(self):
        for flags in (["--drafter", "model", "--tree", "sampled", "--verifier", "rejection"],
                      ["--drafter", "int4", "--tree", "sampled", "--verifier", "point-mass"],
                      ["--drafter", "eagle", "--tree", "dynamic", "--verifier", "point-mass"],
                      ["--drafter", "eagle", "--tree", "chain", "--verifier", "block"],
                      ["--drafter", "medusa", "--tree", "fixed", "--verifier", "greedy", "--temperature", "0"]):
            with self.subTest(flags=flags):
                report, _ = report_of(*flags, "--ignore-end")
                self.assertEqual(report["tokens"], 24)


class Diffusion(unittest.TestCase):
    def test_text_is_that_of_one_token_a_pass(self):
        for flags in (["--temperature", "0"], ["--temperature", "0.8"], ["--top-k", "20"], ["--block-length", "5"]):
            plain, _ = report_of("--method", "stepwise", "--ignore-end", *flags)
            self.assertEqual(plain["stepwise"]["passes"], 24)
            passes = {}
            for drafts in ("0", "1", "4", None):
                with self.subTest(flags=flags, drafts=drafts):
                    length = ["--draft-length", drafts] if drafts else []
                    report, printed = report_of("--method", "diffusion", "--ignore-end", *length, *flags)
                    self.assertIs(report["diffusion"]["identical_to_stepwise"], True)
                    self.assertEqual(report["text"], plain["text"])
                    self.assertEqual(report["tokens"], 24)
                    self.assertIn(report["text"].strip()[:20], printed)
                    if drafts is None:  # what is the fastest is chosen, and said
                        drafts = report["draft_length"]
                        self.assertIn(drafts, "01248")
                        self.assertIn(f"--draft-length {drafts}\n", printed)
                    else:
                        self.assertEqual(report["draft_length"], drafts)
                        self.assertNotIn("--draft-length", printed)
                    counted = report["diffusion"]["passes"]
                    self.assertEqual(passes.setdefault(drafts, counted), counted)
            self.assertEqual(passes["0"], 24)
            self.assertLess(passes["1"], 24)
            self.assertLess(passes["4"], 24)

    def test_drafts_by_a_head(self):
        for flags in (["--temperature", "0"], ["--temperature", "0.8"], ["--block-length", "5"]):
            plain, _ = report_of("--method", "stepwise", "--ignore-end", *flags)
            with self.subTest(flags=flags):
                report, _ = report_of("--method", "diffusion", "--draft", str(MODELS / "canvas_head"), "--ignore-end",
                                      "--draft-length", "4", *flags)
                self.assertIs(report["diffusion"]["identical_to_stepwise"], True)
                self.assertEqual(report["text"], plain["text"])
                self.assertLess(report["diffusion"]["passes"], 24)
        done = generate("--method", "diffusion", "--draft", str(MODELS / "medusa"), *SHORT)
        self.assertEqual(done.returncode, 1)
        self.assertIn("medusa", done.stderr)

    def test_text_is_the_same_in_a_loop_without_the_host(self):
        for flags in (["--preset", "diffusion"], ["--preset", "canvas-head"],
                      ["--preset", "diffusion", "--block-length", "5"]):
            with self.subTest(flags=flags):
                flags += ["--temperature", "0", "--draft-length", "4", "--ignore-end"]
                on_host, _ = report_of(*flags)
                report, printed = report_of(*flags, "--device", "cuda", program=RESIDENT)
                self.assertEqual(report["composition"], on_host["composition"])
                if not HOST_ROUNDS_STATES:
                    self.assertEqual(report["text"], on_host["text"])
                self.assertIn(report["text"].strip()[:20], printed)
                self.assertIs(report["diffusion"]["identical_to_stepwise"], True)
                self.assertEqual(set(report["diffusion"]), set(on_host["diffusion"]))
                self.assertLess(report["diffusion"]["passes"], report["stepwise"]["passes"])
        # Above that temperature texts are those of the model's own arithmetic.
        report, _ = report_of("--method", "diffusion", "--temperature", "0.8", "--device", "cuda", program=RESIDENT)
        self.assertIs(report["diffusion"]["identical_to_stepwise"], True)
        self.assertIn(report["draft_length"], "01248")
        plain, _ = report_of("--method", "stepwise", "--temperature", "0.8", "--device", "cuda", program=RESIDENT)
        self.assertEqual(plain["text"], report["text"])

    def test_drafts_change_nothing_under_a_block_cache(self):
        with tempfile.TemporaryDirectory() as folder:
            # The shipped model, its attention widened to the whole canvas: another one, of random quality.
            config = json.loads((MODELS / "masked" / "config.json").read_text())
            (Path(folder) / "config.json").write_text(json.dumps({**config, "attention": "full"}))
            (Path(folder) / "model.safetensors").symlink_to(MODELS / "masked" / "model.safetensors")
            texts = {}
            for cache in ("none", "prefix", "dual"):
                with self.subTest(cache=cache):
                    report, _ = report_of("--preset", "ssd-paper", "--model", folder, "--block-cache", cache,
                                          "--draft-length", "4", "--ignore-end")
                    self.assertIs(report["diffusion"]["identical_to_stepwise"], True)
                    self.assertIs(report["diffusion"]["lossless"], True)
                    self.assertEqual("with a block cache" in report["composition"], cache != "none")
                    texts[cache] = report["text"]
            self.assertGreater(len(set(texts.values())), 1)  # what is kept makes another model
        done = generate("--method", "diffusion", "--block-cache", "prefix", *SHORT)
        self.assertEqual(done.returncode, 1)
        self.assertIn("reads known text causally", done.stderr)

    def test_a_lossy_rule_says_so(self):
        report, printed = report_of("--method", "diffusion", "--accept-top-k", "1000", "--draft-length", "4", "--ignore-end")
        self.assertIs(report["diffusion"]["lossless"], False)
        self.assertIs(report["diffusion"]["identical_to_stepwise"], False)
        self.assertIn("no, as asked", printed)
        self.assertIn("(lossy)", report["composition"])
        exact, _ = report_of("--preset", "ssd-paper", "--draft-length", "4", "--ignore-end")
        self.assertLess(report["diffusion"]["passes"], exact["diffusion"]["passes"])

    def test_text_depends_on_the_seed(self):
        texts = {report_of("--method", "diffusion", "--seed", seed)[0]["text"] for seed in "1212"}
        self.assertEqual(len(texts), 2)

    def test_models(self):
        done = generate("--method", "diffusion", "--model", str(MODELS / "target"), *SHORT)
        self.assertEqual(done.returncode, 1)
        self.assertIn("architectures", done.stderr)

    @unittest.skipUnless(has_terminals(), "a terminal is needed")
    def test_the_canvas_fills_in_on_a_terminal(self):
        report, piped = report_of("--method", "diffusion", "--color", "never")
        command = " ".join([PROGRAM, "--method", "diffusion", "--color", "never",
                            *(f"'{word}'" if " " in word else word for word in SHORT)])
        done = subprocess.run(["script", "-qec", command, "/dev/null"], capture_output=True, text=True,
                              errors="replace", env={**os.environ, "TERM": "xterm"}, timeout=120)
        shown = done.stdout.replace("\r\n", "\n")
        self.assertIn("\u2591", shown)
        drafts = re.compile("\033D\033D\033\\[2A\0337.*?\0338\033\\[J", re.DOTALL)
        self.assertGreater(len(drafts.findall(shown)), 3)
        self.assertEqual(drafts.sub("", shown).split("\n\n")[:2], piped.split("\n\n")[:2])


if __name__ == "__main__":
    WORK.mkdir(parents=True, exist_ok=True)
    chosen = sys.argv[10:]
    if chosen[:1] == ["--all-but"]:
        chosen = [name for name, of in list(globals().items())
                  if isinstance(of, type) and issubclass(of, unittest.TestCase) and name not in chosen]
    unittest.main(argv=[sys.argv[0], *chosen])
