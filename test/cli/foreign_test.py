# SPDX-License-Identifier: Apache-2.0
"""Files of one model beside another one of the same sizes: `generate`, `make_layout` and `train_router` name both and
what differs, and draft for a model that they have never seen by what is its own."""

import json
import shutil
import struct
import subprocess
import unittest

import cli_test
from cli_test import (MAKE_LAYOUT, MODELS, RESIDENT, TRAIN_ROUTER, generate, read_tensors, report_of, within_limits,
                      write_tensors)

WORK = cli_test.WORK = cli_test.WORK.parent / "foreign"
PROMPT = "The name of"
OF_TINY = ["--max-new-tokens", "24", "--rounds", "1", "--prompt", PROMPT, "--ignore-end", "--color", "never"]
SHORT = ["--max-new-tokens", "8", "--rounds", "1", "--prompt", "The name of the file"]
BY_MODEL = ["--drafter", "model", "--selector", "frequency"]
FREQUENCY, LAYOUT, ROUTER = (MODELS / f"{name}.safetensors" for name in ("frequency", "layout", "router"))


def other_tokenizer(data):
    """The same SentencePiece model, but that two tokens stand for each other's text."""
    pieces, at = [], 0
    while data[at] == 0x0A:  # a piece: its length, of one byte or two, and what it is
        end = at + 2 + data[at + 1] if data[at + 1] < 128 else at + 3 + (data[at + 1] & 127) + 128 * data[at + 2]
        pieces.append(data[at:end])
        at = end
    assert len(pieces) == 32000
    pieces[1000], pieces[2000] = pieces[2000], pieces[1000]
    return b"".join(pieces) + data[at:]


def other_weights(tensors):
    """Another head, and another model: rows of the embedding are mirrored."""
    dtype, shape, data = tensors["model.embed_tokens.weight"]
    return {**tensors, "model.embed_tokens.weight": (dtype, shape, data[::-1])}


def text_of(folder, ids):
    """What tokens on bytes say, special ones left out."""
    about = json.loads((folder / "tokenizer_config.json").read_text())
    if (folder / "tokenizer.json").exists():
        values = json.loads((folder / "tokenizer.json").read_text())
        vocabulary, added = values["model"]["vocab"], {token["id"] for token in values["added_tokens"]}
    else:
        vocabulary = json.loads((folder / "vocab.json").read_text())
        added = {int(number) for number in about["added_tokens_decoder"]}
    themselves = [byte for byte in range(256) if 32 < byte < 127 or 160 < byte and byte != 173]
    letters = {chr(byte): byte for byte in themselves}
    letters |= {chr(256 + i): byte for i, byte in enumerate(sorted(set(range(256)) - set(themselves)))}
    spelled = {number: bytes(letters[letter] for letter in token) for token, number in vocabulary.items()}
    return b"".join(b"" if i in added else spelled.get(i, b"") for i in ids).decode(errors="replace")


def copy_of(name, to, tokenizer=None, weights=None, **fields):
    """A model's directory, with another tokenizer, other weights and other fields of its config; None: without."""
    folder = WORK / to
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(MODELS / name, folder)
    config = {**json.loads((folder / "config.json").read_text()), **fields}
    (folder / "config.json").write_text(json.dumps({k: v for k, v in config.items() if v is not None}))
    if tokenizer is not None:
        (folder / "tokenizer.model").write_bytes(tokenizer)
    if weights is not None:
        write_tensors(folder / "model.safetensors", weights(read_tensors(folder / "model.safetensors")))
    return folder


class Foreign(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.own = (MODELS / "target/tokenizer.model").read_bytes()
        cls.other = other_tokenizer(cls.own)
        cls.target = copy_of("target", "target", cls.other, other_weights, vocabulary_fingerprint=None)
        cls.draft = copy_of("draft", "draft", cls.other, other_weights, vocabulary_fingerprint=None)

    def refused(self, flags, *fragments, program=None, code=1):
        done = generate(*SHORT, *map(str, flags), **({"program": program} if program else {}))
        self.assertEqual(done.returncode, code, done.stderr)
        for fragment in fragments:
            self.assertIn(str(fragment), done.stderr)
        self.assertEqual(done.stdout, "")

    def tool_refused(self, command, *fragments):
        done = subprocess.run([*map(str, command)], capture_output=True, text=True, timeout=120)
        self.assertEqual(done.returncode, 1, done.stderr)
        for fragment in fragments:
            self.assertIn(str(fragment), done.stderr)

    def pair(self, *flags):
        return [*BY_MODEL, "--model", self.target, "--draft", self.draft, *flags]

    def test_a_foreign_pair_has_a_ranking_of_its_own(self):
        flags = [str(word) for word in self.pair("--temperature", "0", "--draft-length", "2")]
        for program in (cli_test.PROGRAM, RESIDENT):
            done = generate(*SHORT, *flags, "--verifier", "coupled", program=program)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn("the shipped ranking is for another vocabulary", done.stderr)
            self.assertIn(str(self.target), done.stderr)
        report, _ = report_of(*flags, short=SHORT)
        self.assertIs(report["identical_to_plain"], True)
        self.assertEqual(report["average_shortlist_rows"], 32000 // 6)
        full = ["full" if word == "frequency" else word for word in flags]
        for quiet in (full, [*BY_MODEL, "--temperature", "0"]):
            self.assertEqual(generate(*SHORT, *quiet).stderr, "")

    def test_layouts_of_another_vocabulary_or_head(self):
        for program in (None, RESIDENT):
            self.refused(self.pair("--layout", FREQUENCY), FREQUENCY, self.draft, "another vocabulary", program=program)
            self.refused([*BY_MODEL, "--layout", LAYOUT], LAYOUT, MODELS / "draft", "another head", program=program)
        clustered = ["--selector", "clustered", "--layout", LAYOUT, "--router", ROUTER]
        self.refused(["--drafter", "model", *clustered], LAYOUT, MODELS / "draft", "another head")
        self.refused(["--model", self.target, "--drafter", "int4", *clustered], LAYOUT, self.target, "another")
        # The same head, read in four bits.
        report, _ = report_of("--drafter", "int4", *map(str, clustered), "--draft-length", "3", short=SHORT)
        self.assertGreater(report["mean_acceptance_length"], 1.0)

    def test_clusters_are_those_of_the_head_that_drafts(self):
        greedy = ["--temperature", "0", "--draft-length", "3"]
        foreign = ["--preset", "dynaspec", "--model", self.target, *greedy]
        own = ["--drafter", "model", "--selector", "clustered", *greedy]
        for flags, head, ranking in ((foreign, self.target, True), (own, MODELS / "draft", False)):
            flags = [str(word) for word in flags]
            done = generate(*SHORT, *flags)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertEqual(done.stderr.count("\n"), 1)
            self.assertIn(f"{head}: the shipped clusters are for another head", done.stderr)
            self.assertEqual("a ranking that is made of the shipped texts" in done.stderr, ranking)
            report, printed = report_of(*flags, short=SHORT)
            self.assertIn("from the most frequent tokens (FR-Spec)", report["composition"])
            self.assertTrue(printed.startswith(report["composition"]), printed)
            self.assertIsNone(report["preset"])
            self.assertIs(report["identical_to_plain"], True)
            self.assertEqual(report["average_shortlist_rows"], 32000 // 6)
        quiet = generate(*SHORT, "--preset", "dynaspec", *greedy)
        self.assertEqual(quiet.stderr, "")
        self.assertIn("clusters that a router chooses", quiet.stdout)

    def test_routers_of_another_layout(self):
        left_out = MODELS / "left_out/layout.safetensors"
        self.refused(["--drafter", "eagle", "--selector", "clustered", "--layout", left_out, "--router", ROUTER],
                     ROUTER, left_out, "another layout")

    def test_routers_that_read_something_else(self):
        wide, wider = self.wider_router(2), self.wider_router(3)
        clustered = ["--selector", "clustered", "--layout", LAYOUT, "--router"]
        for program in (None, RESIDENT):
            self.refused(["--drafter", "eagle", *clustered, wider], wider, "contexts of 768 numbers",
                         f"{MODELS / 'eagle'} have 256, or 512 before its pass", program=program)
            for drafter in ("early-exit", "int4", "medusa"):
                self.refused(["--drafter", drafter, *clustered, wide], wide, "contexts of 512 numbers",
                             f"{MODELS / 'target'} have 256\n", program=program)

    def test_routers_that_read_what_is_known_before_the_pass(self):
        flags = ["--drafter", "eagle", "--selector", "clustered", "--layout", str(LAYOUT), "--verifier", "coupled",
                 "--draft-length", "3", "--router"]
        for program in (cli_test.PROGRAM, RESIDENT):
            for tree in ("chain", "dynamic"):
                rows = {}
                for router in (ROUTER, self.wider_router(2)):
                    report, _ = report_of(*flags, str(router), "--tree", tree, short=SHORT, program=program)
                    self.assertIs(report["identical_to_plain"], True)
                    self.assertIn("from clusters that a router chooses", report["composition"])
                    rows[router] = report["average_shortlist_rows"]
                self.assertEqual(len(set(rows.values())), 2, rows)

    @staticmethod
    def wider_router(times):
        """The file of the shipped router, but that it reads so many states one after the other."""
        inputs, out = 256, WORK / f"router{times}.safetensors"
        data = ROUTER.read_bytes()
        begin = 8 + struct.unpack("<Q", data[:8])[0]
        tensors = read_tensors(ROUTER)
        first = tensors["first"][2]
        rows = [first[i:i + 4 * inputs] * times for i in range(0, len(first), 4 * inputs)]
        write_tensors(out, {**tensors, "first": ("F32", [len(rows), times * inputs], b"".join(rows))},
                      json.loads(data[8:begin])["__metadata__"])
        return out

    def test_files_that_do_not_say(self):
        for source in (FREQUENCY, LAYOUT, ROUTER):
            write_tensors(WORK / source.name, read_tensors(source))  # without what they say of themselves
        frequency, layout, router = (WORK / source.name for source in (FREQUENCY, LAYOUT, ROUTER))
        self.refused([*BY_MODEL, "--layout", frequency], frequency, "does not say", "make it anew")
        clustered = ["--drafter", "eagle", "--selector", "clustered"]
        self.refused([*clustered, "--layout", layout, "--router", ROUTER], layout, "does not say")
        self.refused([*clustered, "--layout", LAYOUT, "--router", router], router, "does not say")

    def test_heads_of_another_target(self):
        for drafter, folder in (("eagle", "eagle"), ("medusa", "medusa"), ("early-exit", "exit"),
                                ("streaming", "streams")):
            with self.subTest(drafter=drafter):
                for program in (None, RESIDENT):
                    self.refused(["--model", self.target, "--drafter", drafter, "--draft", MODELS / folder],
                                 MODELS / folder / "config.json", "target_head_fingerprint", self.target,
                                 program=program)
                silent = copy_of(folder, "silent", target_head_fingerprint=None)
                self.refused(["--drafter", drafter, "--draft", silent], silent, "is missing", MODELS / "target")
        other = copy_of("exit", "exit", target_head_fingerprint="0x0000000000000001")
        for program in (None, RESIDENT):
            self.refused(["--preset", "streaming-pruned", "--exit", other], other / "config.json",
                         "target_head_fingerprint", program=program)
        deep = copy_of("exit", "deep", exit_layer=5)
        for program in (None, RESIDENT):
            self.refused(["--preset", "streaming-pruned", "--exit", deep], deep, "after layer 5",
                         MODELS / "streams", "begin after layer 4", program=program)
        masked = copy_of("masked", "masked", weights=other_weights)
        self.refused(["--method", "diffusion", "--model", masked, "--draft", MODELS / "canvas_head"],
                     MODELS / "canvas_head", "target_head_fingerprint", masked)

    def test_an_eagle_head_that_lacks_a_tensor(self):
        missing = "model.layers.0.input_layernorm.weight"  # which the target has, too
        eagle = copy_of("eagle", "lacking", weights=lambda tensors: {k: v for k, v in tensors.items() if k != missing})
        self.refused(["--drafter", "eagle", "--draft", eagle], eagle, missing, "is missing")

    def test_tokenizers_of_another_model(self):
        folder = copy_of("target", "swapped", self.other)
        for program in (None, RESIDENT):
            self.refused([*BY_MODEL, "--model", folder, "--draft", MODELS / "draft"], folder, "tokenizer.model",
                         program=program)

    def test_a_preset_drafts_with_its_own_files(self):
        mirrored = copy_of("target", "mirrored", self.own, other_weights)
        for name, folder in (("streaming-paper", "paper/streams"), ("streaming", "streams"), ("medusa", "medusa")):
            self.refused(["--preset", name, "--model", mirrored], MODELS / folder / "config.json", mirrored)
        # Another drafter has other files.
        self.refused(["--preset", "streaming-paper", "--drafter", "medusa", "--tree", "fixed", "--prune", "0", "--model",
                      mirrored], MODELS / "medusa" / "config.json", mirrored)

    def test_drafts_of_another_vocabulary(self):
        silent = copy_of("draft", "silent", vocabulary_fingerprint=None)
        for program in (None, RESIDENT):
            self.refused([*BY_MODEL, "--draft", silent], silent, MODELS / "target", "tokenizer.model",
                         "vocabulary_fingerprint", program=program)
        self.refused([*BY_MODEL, "--draft", self.draft], self.draft, MODELS / "target", "vocabulary", program=RESIDENT)
        # The host drafts what both have: two tokens have changed places, and are found there. Bytes and the characters
        # that they are count once, and what adds nothing to a text not at all.
        report, _ = report_of(*BY_MODEL, "--draft", self.draft, "--temperature", "0", "--draft-length", "2", short=SHORT)
        self.assertIs(report["identical_to_plain"], True)
        done = generate(*SHORT, *BY_MODEL, "--draft", str(self.draft))
        self.assertIn(f"{self.draft} has not the target's vocabulary: drafts are of the 31903 tokens", done.stderr)
        (silent / "tokenizer.model").write_bytes(self.own)
        self.assertEqual(generate(*SHORT, *BY_MODEL, "--draft", str(silent)).returncode, 0)

    def test_masked_models_without_their_tokenizer(self):
        silent = copy_of("masked", "silent_masked", vocabulary_fingerprint=None)
        for method in ("diffusion", "stepwise"):
            self.refused(["--method", method, "--model", silent], silent, "tokenizer.model")
        other = copy_of("masked", "other_masked", vocabulary_fingerprint="0x0123456789abcdef")
        self.refused(["--method", "diffusion", "--model", other], other, "0x0123456789abcdef", "tokenizer.model")
        (silent / "tokenizer.model").write_bytes(self.other)
        done = generate(*SHORT, "--method", "diffusion", "--model", str(silent))
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_llada_and_dream_write_text_by_their_own_tokenizers(self):
        for name in ("llada", "dream"):
            folder = MODELS / "tiny" / name
            for flags in (["--preset", "diffusion"], ["--preset", "ssd-paper", "--draft-length", "2"],
                          ["--method", "stepwise", "--temperature", "0"],
                          ["--preset", "ssd-paper", "--block-cache", "dual", "--temperature", "0"]):
                with self.subTest(name=name, flags=flags):
                    flags = [*flags, "--model", str(folder), "--block-length", "8"]
                    report, _ = report_of(*flags, short=OF_TINY)
                    self.assertEqual(report["text"], text_of(folder, report["ids"]))
                    self.assertEqual(report["tokens"], len(report["ids"]))
                    self.assertGreater(len(set(report["ids"])), 4)
                    if "diffusion" in report:
                        self.assertIs(report["diffusion"]["identical_to_stepwise"], True)
                    shown = subprocess.run([cli_test.PROGRAM, *OF_TINY, *flags], capture_output=True, timeout=120)
                    self.assertIn(PROMPT + report["text"], shown.stdout.decode())  # never half a character

    def test_prompts_are_read_by_the_own_tokenizer(self):
        # LLaDA's takes each of these apart into bytes, and the special one for what it is.
        for name, special in (("llada", "<|endoftext|>"), ("dream", "<|im_end|>")):
            flags = ["--method", "stepwise", "--model", str(MODELS / "tiny" / name), "--max-new-tokens", "64"]
            for prompt, tokens in (("\u4e2d\u6587", 6), (special * 3, 3), ("\u4e2d" + special, 4), ("e\u0301", 2)):
                done = generate(*flags, "--prompt", prompt)
                self.assertEqual(done.returncode, 2, done.stderr)
                self.assertIn(f"the prompt's {tokens} tokens and 64 new ones exceed the context of 64", done.stderr)
            done = generate(*flags, "--prompt", "")
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertIn("--prompt: makes no token", done.stderr)
        done = generate("--method", "stepwise", "--model", str(MODELS / "tiny/llada"), "--prompt", "a<|mdm_mask|>",
                        "--max-new-tokens", "4")
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertIn("--prompt: has the mask", done.stderr)

    def test_tokenizers_that_another_program_reads(self):
        flags = ["--method", "stepwise", "--model"]
        dream = copy_of("tiny/dream", "dream", mask_token_id=270)
        self.refused([*flags, dream], dream / "vocab.json", "is 280", "is 270")
        llada = copy_of("tiny/llada", "llada", vocabulary_fingerprint="0x0123456789abcdef")
        self.refused([*flags, llada], llada / "tokenizer.json", "0x0123456789abcdef")
        llada = copy_of("tiny/llada", "llada")
        values = json.loads((llada / "tokenizer.json").read_text())
        (llada / "tokenizer.json").write_text(json.dumps({**values, "normalizer": {"type": "BertNormalizer"}}))
        self.refused([*flags, llada], llada / "tokenizer.json", "normalizer", "BertNormalizer")

    def test_tools(self):
        make = [MAKE_LAYOUT, "--out", WORK / "out.safetensors", "--clusters", "4", "--iterations", "1"]
        self.tool_refused([*make, "--model", self.draft, "--frequency", FREQUENCY, "--core", "10"],
                          FREQUENCY, self.draft, "another vocabulary")
        silent = copy_of("draft", "silent_draft", vocabulary_fingerprint=None)
        self.tool_refused([*make, "--model", silent, "--frequency", FREQUENCY, "--core", "10"],
                          FREQUENCY, silent, "nothing to tell")
        train = [TRAIN_ROUTER, "--text", MODELS / "heldout", "--out", WORK / "out.safetensors", "--prompts", "1",
                 "--tokens", "4"]
        self.tool_refused([*train, "--model", MODELS / "target", "--draft", MODELS / "draft", "--layout", LAYOUT],
                          LAYOUT, MODELS / "draft", "another head")
        self.tool_refused([*train, "--model", MODELS / "target", "--draft", self.draft, "--layout", LAYOUT],
                          self.draft, MODELS / "target", "vocabulary")
        self.assertFalse((WORK / "out.safetensors").exists())

    def test_sizes_that_no_model_has(self):
        llama = ["vocab_size", "hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads",
                 "num_key_value_heads", "head_dim", "max_position_embeddings", "eos_token_id"]
        llada = ["vocab_size", "embedding_size", "d_model", "mlp_hidden_size", "n_layers", "n_heads", "n_kv_heads",
                 "max_sequence_length", "mask_token_id", "eos_token_id"]
        canvases = ["--method", "diffusion"]
        for name, flags, keys in (
                ("draft", [*BY_MODEL, "--draft"], llama),
                ("eagle", ["--drafter", "eagle", "--draft"], llama),
                ("medusa", ["--drafter", "medusa", "--draft"], ["medusa_num_heads", "hidden_size", "vocab_size"]),
                ("exit", ["--drafter", "early-exit", "--draft"], ["exit_layer"]),
                ("streams", ["--drafter", "streaming", "--draft"],
                 ["speculative_streams", "stream_layers", "hidden_size", "vocab_size"]),
                ("canvas_head", [*canvases, "--draft"], [*llama, "target_layer", "cached_layers"]),
                ("masked", [*canvases, "--model"], [*llama, "mask_token_id", "block_length"]),
                ("tiny/dream", [*canvases, "--model"], [*llama, "mask_token_id"]),
                ("tiny/llada", [*canvases, "--model"], llada)):
            for key in keys:
                with self.subTest(name=name, key=key):
                    folder = copy_of(name, "large", **{key: [2147483647] if key == "cached_layers" else 2147483647})
                    self.refused([*flags, folder], folder / "config.json", key, "2147483647")
        key = "original_max_position_embeddings"
        folder = copy_of("draft", "large", rope_scaling={"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0,
                                                         "high_freq_factor": 4.0, key: 2147483647})
        self.refused([*BY_MODEL, "--draft", folder], folder / "config.json", key, "2147483647")

    def test_damaged_files(self):
        for source, flags in ((FREQUENCY, [*BY_MODEL, "--layout"]),
                              (ROUTER, ["--drafter", "eagle", "--selector", "clustered", "--layout", LAYOUT,
                                        "--router"])):
            data, broken = source.read_bytes(), WORK / "broken.safetensors"
            for bytes_ in (b"", data[:7], data[:300], data[:-1], struct.pack("<Q", 1 << 62) + data[8:],
                           data.replace(b'"shape":[', b'"shape":[9999999999,', 1)):
                broken.write_bytes(bytes_)
                self.refused([*flags, broken], broken)

    def test_patterns_that_are_too_large(self):
        signs = [f"\\{chr(i)}" if chr(i) in "\\()[]{}.*+?|^-" else chr(i) for i in range(33, 127)]
        for pattern, why in (("(" * 100000, "100 groups"), ("(a{1000}){1000}", "16384 parts"),
                             ("(" * 40000 + "a" + ")*" * 40000, "100 groups"),
                             (f"[{'a' * 100000}]" + "{1000}", None),
                             (f"([{'a' * 100000}]" + "{1000}){8}", "too many states"),
                             # Sets of thousands of parts, from which each of many bytes leads elsewhere.
                             ("(.?){1000}" + "".join(f"{s}?" for s in signs), "too many states"),
                             (f"(.*({'|'.join(signs)}).*)" + "{20}", "too many states")):
            done = within_limits(cli_test.PROGRAM, *SHORT, "--plain", "--pattern", pattern)
            self.assertEqual(done.returncode, 1 if why else 0, done.stderr)
            if why:
                self.assertIn("regular expression: ", done.stderr)
                self.assertIn(why, done.stderr)


if __name__ == "__main__":
    WORK.mkdir(parents=True, exist_ok=True)
    unittest.main(argv=cli_test.sys.argv[:1])
