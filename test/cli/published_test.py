# SPDX-License-Identifier: Apache-2.0
"""Models, draft heads and lists of tokens in the files that others publish them in: `generate` drafts with them, and
`make_ranking` ranks their tokens."""

import json
import shutil
import struct
import unittest

import cli_test
from cli_test import MAKE_RANKING, MODELS, generate, read_tensors, report_of, within_limits, write_tensors

WORK = cli_test.WORK = cli_test.WORK.parent / "published"
HEADS = MODELS / "tiny" / "heads"
SHORT = ["--max-new-tokens", "20", "--rounds", "1", "--prompt", "The name of the file", "--ignore-end", "--color", "never"]
# Printable characters, each of which is a token, and what ends a text.
LETTERS = [chr(256 + 32), *map(chr, range(33, 127))]
END = len(LETTERS)


def tokenizer():
    return json.dumps({
        "version": "1.0", "truncation": None, "padding": None, "normalizer": None, "post_processor": None,
        "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True},
        "decoder": {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True},
        "added_tokens": [{"id": END, "content": "<end>", "single_word": False, "lstrip": False, "rstrip": False,
                          "normalized": False, "special": True}],
        "model": {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None,
                  "end_of_word_suffix": None, "fuse_unk": False, "byte_fallback": False, "merges": [],
                  "vocab": {letter: i for i, letter in enumerate(LETTERS)} | {"<end>": END}}})


def with_tokenizer(source, name):
    folder = WORK / name
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(source, folder)
    (folder / "tokenizer.json").write_text(tokenizer())
    (folder / "tokenizer_config.json").write_text(json.dumps({"eos_token": "<end>"}))
    return folder


class Published(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.target = with_tokenizer(HEADS / "target", "target")

    def test_every_architecture(self):
        for folder in sorted((MODELS / "tiny" / "targets").iterdir()):
            if folder.is_dir():
                for precision in ("bf16", "f32", "int8", "int4"):
                    with self.subTest(folder=folder.name, precision=precision):
                        model = with_tokenizer(folder, folder.name)
                        report, _ = report_of("--model", model, "--drafter", "int4", "--temperature", "0", "--precision",
                                              precision, short=["--max-new-tokens", "12", *SHORT[2:]])
                        self.assertIs(report["identical_to_plain"], True)

    def test_every_head(self):
        drafted = {"eagle": "an EAGLE head", "eagle3": "an EAGLE head", "eagle3_speculators": "an EAGLE head",
                   "eagle3_norm": "an EAGLE head", "eagle3_norms": "an EAGLE head", "mtp": "an EAGLE head", "medusa": "Medusa heads"}
        for name, words in drafted.items():
            for trees in ("chain", "dynamic"):
                for temperature in ("0", "1"):
                    with self.subTest(name=name, trees=trees, temperature=temperature):
                        report, _ = report_of("--model", self.target, "--draft", HEADS / name, "--tree", trees, "--verifier",
                                              "coupled", "--temperature", temperature, "--draft-length", "3", short=SHORT)
                        self.assertIs(report["identical_to_plain"], True)
                        self.assertIn(words, report["composition"])
                        self.assertGreater(report["average_draft_length"], 0)
        for name in ("eagle3", "eagle3_speculators"):
            report, _ = report_of("--model", self.target, "--draft", HEADS / name, "--draft-length", "2", short=SHORT)
            self.assertEqual(report["average_shortlist_rows"], 40)

    def test_an_own_vocabulary_has_no_other_selector(self):
        for flags in (["--selector", "clustered", "--layout", "x", "--router", "y"], ["--selector", "frequency:10"]):
            done = generate("--model", self.target, "--draft", HEADS / "eagle3", *flags, *SHORT)
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertIn("has a head of its own over 40 tokens", done.stderr)

    def test_what_is_not_where_it_belongs(self):
        for drafter, name, words in (("medusa", "eagle", "looks like an EAGLE head"),
                                     ("eagle", "medusa", "looks like Medusa heads"),
                                     ("eagle", "target", "looks like a whole model")):
            with self.subTest(drafter=drafter, name=name):
                done = generate("--model", self.target, "--drafter", drafter, "--draft", HEADS / name, *SHORT)
                self.assertEqual(done.returncode, 1, done.stderr)
                self.assertIn(words, done.stderr)
                self.assertIn(str(HEADS / name), done.stderr)

    def test_a_draft_of_no_known_format(self):
        folder = WORK / "unknown"
        folder.mkdir(exist_ok=True)
        write_tensors(folder / "model.safetensors", {"some.weight": ("F32", [1], struct.pack("<f", 1))})
        (folder / "config.json").write_text(json.dumps({"architectures": ["SomeSpeculator"]}))
        done = generate("--model", self.target, "--draft", folder, *SHORT)
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn(f'{folder}: looks like no draft head and no model that is known here: it has 1 tensors, "some.weight" '
                      'is the first, and its config.json says "architectures": ["SomeSpeculator"]', done.stderr)

    def test_a_draft_model_of_another_vocabulary(self):
        # The shipped draft model reads 32,000 pieces of a SentencePiece file, the target 95 characters and what ends a
        # text; and the other way round.
        own = WORK / "draft"
        shutil.rmtree(own, ignore_errors=True)
        shutil.copytree(MODELS / "draft", own)
        shutil.copy(MODELS / "target" / "tokenizer.model", own)
        for model, draft, shared in ((self.target, own, 96), (MODELS / "target", self.target, 96)):
            for flags in (["--temperature", "0"], ["--verifier", "coupled"], ["--tree", "dynamic", "--verifier", "greedy",
                                                                             "--temperature", "0"]):
                with self.subTest(model=model, flags=flags):
                    done = generate("--model", model, "--draft", draft, "--draft-length", "2", "--selector", "full", "--json",
                                    WORK / "report.json", "--threads", "1", *flags, *SHORT)
                    self.assertEqual(done.returncode, 0, done.stderr)
                    self.assertIn(f"has not the target's vocabulary: drafts are of the {shared} tokens", done.stderr)
                    report = json.loads((WORK / "report.json").read_text())
                    self.assertIs(report["identical_to_plain"], True)
                    self.assertEqual(report["average_shortlist_rows"], shared)
        # What is drafted is accepted now and then, though this model never learnt these tokens: it knows the text.
        report, _ = report_of("--model", self.target, "--draft", own, "--draft-length", "1", short=SHORT)
        self.assertLess(0, report["draft_acceptance_rate"])
        done = generate("--model", self.target, "--draft", own, "--selector", "clustered", "--layout", "x", "--router", "y",
                        *SHORT)
        self.assertIn("has not the target's vocabulary: use frequency", done.stderr)

    def test_a_text_ends_with_the_tokens_of_the_generation_config(self):
        whole, _ = report_of("--model", self.target, "--plain", "--temperature", "0", short=SHORT)
        last = whole["ids"][5]
        first = whole["ids"].index(last)
        model = with_tokenizer(HEADS / "target", "ending")
        (model / "generation_config.json").write_text(json.dumps({"eos_token_id": [END, last]}))
        flags = [flag for flag in SHORT if flag != "--ignore-end"]
        report, _ = report_of("--model", model, "--plain", "--temperature", "0", short=flags)
        self.assertEqual(report["ids"], whole["ids"][:first + 1])

    def ranking(self, *flags, model=None):
        out = WORK / "ranking.safetensors"
        out.unlink(missing_ok=True)
        done = within_limits(MAKE_RANKING, "--model", model or self.target, "--out", out, *flags)
        if done.returncode != 0:
            self.assertFalse(out.exists())
            return done.stderr
        rows = read_tensors(out)["row_token"][2]
        return list(struct.unpack(f"<{len(rows) // 4}i", rows))

    def test_a_ranking_of_texts(self):
        texts = WORK / "texts"
        texts.mkdir(exist_ok=True)
        (texts / "c.md").write_text("print " * 100)
        rankings = []
        for often, rare in (("the", "file"), ("file", "the")):
            (texts / "a.txt").write_text(" ".join([often] * 3))
            (texts / "b.txt").write_text(" ".join([often, often, rare, rare]))
            rankings.append(self.ranking("--text", texts, model=MODELS / "target"))
        # What ends a text and single bytes come first, the same in both; then the two words, each before the other.
        a, b = rankings
        first = next(i for i in range(32000) if a[i] != b[i])
        self.assertGreaterEqual(first, 257)
        self.assertTrue(first < a.index(b[first]) < first + 8)
        self.assertTrue(first < b.index(a[first]) < first + 8)
        self.assertEqual(sorted(a), list(range(32000)))
        report, _ = report_of("--drafter", "int4", "--layout", WORK / "ranking.safetensors", "--selector", "frequency:300",
                              "--temperature", "0", short=["--max-new-tokens", "8", "--rounds", "1"])
        self.assertIs(report["identical_to_plain"], True)
        self.assertIn("no .txt file", self.ranking("--text", WORK / "target"))
        self.assertIn("give one", self.ranking())
        self.assertIn("cannot be read", self.ranking("--text", WORK / "nothing.txt"))

    def test_a_published_list(self):
        file = WORK / "list.safetensors"
        # With a token twice, as those of Llama have what begins a text; what ends one comes first.
        ids = [7, 3, 7, 95, 20]
        write_tensors(file, {"token_map": ("I64", [5], struct.pack("<5q", *ids))})
        self.assertEqual(self.ranking("--tokens", file), [95, 7, 3, 20])
        report, _ = report_of("--model", self.target, "--drafter", "int4", "--layout", WORK / "ranking.safetensors",
                              "--selector", "trimmed", "--draft-length", "2", "--temperature", "0", short=SHORT)
        self.assertIs(report["identical_to_plain"], True)
        self.assertEqual(report["average_shortlist_rows"], 4)
        for broken, words in (([96, 1], "token 96, outside"), ([-1, 1], "token -1, outside")):
            write_tensors(file, {"token_map": ("I64", [2], struct.pack("<2q", *broken))})
            self.assertIn(words, self.ranking("--tokens", file))
        write_tensors(file, {"a": ("F32", [1], struct.pack("<f", 1)), "b": ("F32", [1], struct.pack("<f", 1))})
        self.assertIn("expected one list", self.ranking("--tokens", file))


class PresetFiles(unittest.TestCase):
    """Compositions of one's own in a file."""

    @classmethod
    def setUpClass(cls):
        cls.folder = WORK / "preset"
        shutil.rmtree(cls.folder, ignore_errors=True)
        cls.folder.mkdir()
        with_tokenizer(HEADS / "target", "preset/target")
        shutil.copytree(HEADS / "eagle", cls.folder / "head")

    def preset(self, content):
        file = self.folder / "preset.json"
        file.write_text(content if isinstance(content, str) else json.dumps(content))
        return file

    def test_paths_are_relative_to_it(self):
        file = self.preset({"line": "an EAGLE head", "measured": {"speedup": 1.5},
                            "flags": {"--model": "target", "--draft": "head", "--tree": "dynamic", "--draft-length": "2"}})
        report, printed = report_of("--preset", file, "--temperature", "0", short=SHORT)
        self.assertEqual(report["preset"], str(file))
        self.assertIn("an EAGLE head drafts dynamic trees", report["composition"])
        self.assertIs(report["identical_to_plain"], True)
        # Flags beside it come first.
        report, _ = report_of("--preset", file, "--tree", "chain", "--temperature", "0", short=SHORT)
        self.assertIsNone(report["preset"])
        self.assertIn("an EAGLE head drafts chains", report["composition"])

    def test_flags_beside_it_make_others_void(self):
        (self.folder / "text.txt").write_text("The name")
        file = self.preset({"flags": {"--model": "target", "--draft": "head", "--tree": "dynamic", "--selector": "frequency:12",
                                      "--draft-length": "2", "--prompt-file": "text.txt", "--ignore-end": True}})
        few = ["--max-new-tokens", "12", "--rounds", "1"]
        for flags, words in ((["--plain"], "plain"), (["--drafter", "none"], "plain"), (["--drafter", "lookup"], "followed"),
                             (["--drafter", "int4"], "four bits"), (["--selector", "full"], "an EAGLE head"),
                             (["--prompt", "A text"], "an EAGLE head")):
            with self.subTest(flags=flags):
                report, _ = report_of("--preset", file, *flags, "--temperature", "0", short=few)
                self.assertIn(words, report["composition"])

    def test_what_is_none(self):
        for content, words in (("", "is no JSON object"), ("[1]", "is no JSON object"), ("{}", 'has no "flags"'),
                               ({"flags": ["--tree"]}, 'has no "flags"'),
                               ({"flags": {}}, '"flags" is empty'),
                               ({"flags": {"model": "target"}}, '"model" is no flag: these begin with --'),
                               ({"line": 3, "flags": {"--plain": True}}, '"line" is no text'),
                               ({"flags": {"--draft-length": 2}}, 'the value of "--draft-length" is neither text nor true'),
                               ({"flags": {"--plain": False}}, 'the value of "--plain" is neither text nor true'),
                               ({"flags": {"--preset": "medusa"}}, "names another preset"),
                               ({"flags": {"--bogus": "x"}}, "--bogus"),
                               ({"flags": {"--tree": "oak"}}, "--tree: 'oak' is unknown")):
            with self.subTest(content=content):
                done = generate("--preset", self.preset(content), *SHORT)
                self.assertEqual(done.returncode, 2, done.stderr)
                self.assertIn(words, done.stderr)
                self.assertIn("preset.json", done.stderr)
        done = generate("--preset", self.folder / "nothing.json", *SHORT)
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertIn("nothing.json", done.stderr)


if __name__ == "__main__":
    WORK.mkdir(parents=True, exist_ok=True)
    unittest.main(argv=cli_test.sys.argv[:1])
