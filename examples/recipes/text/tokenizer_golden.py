# SPDX-License-Identifier: Apache-2.0
"""Writes what the library `tokenizers` makes of strings, for parity tests of an engine that reads its files.

    python -m text.tokenizer_golden                                             # test/engine/tokenizers.json
    python -m text.tokenizer_golden --strings 10000 --vocabulary 4000 --all --out FILE

Small tokenizers with the normalisers, the pre-tokenisers and the decoders of published ones, over four models trained
here: on bytes, as GPT-2; on characters with bytes for others, as Llama-2; on characters only; and Unigram. The models
are trained on lines that are not cut, so that their tokens reach across words, and every cut shows in the tokens.
"""
import argparse
import json
import random
import unicodedata
from pathlib import Path

from shipped import MODELS
from text.published import ADDED, OF_PIECES, STRIPPING, assembled, tokenizer_kinds, trained

OUT = Path(__file__).parents[3] / "test" / "engine" / "tokenizers.json"
EDGES = 6  # strings that every tokenizer reads

SCRIPTS = {  # a part of each where all is assigned
    "Latin": (0x41, 0x24F), "Greek": (0x391, 0x3FF), "Cyrillic": (0x400, 0x481), "Armenian": (0x531, 0x556),
    "Hebrew": (0x5D0, 0x5EA), "Arabic": (0x621, 0x64A), "Syriac": (0x710, 0x72F), "Devanagari": (0x904, 0x94D),
    "Bengali": (0x985, 0x9B9), "Tamil": (0xB85, 0xBB9), "Telugu": (0xC05, 0xC39), "Thai": (0xE01, 0xE3A),
    "Tibetan": (0xF40, 0xF6C), "Georgian": (0x10D0, 0x10FF), "Hangul": (0xAC00, 0xD7A3), "Jamo": (0x1100, 0x11FF),
    "Ethiopic": (0x1200, 0x1248), "Cherokee": (0x13A0, 0x13F4), "Khmer": (0x1780, 0x17B3), "Hiragana": (0x3041, 0x3096),
    "Katakana": (0x30A1, 0x30FA), "Han": (0x4E00, 0x9FEF), "Gothic": (0x10330, 0x1034A),
    "Mathematical": (0x1D400, 0x1D7CB), "Deseret": (0x10400, 0x1044F)}
DIGITS = "0123456789\u0660\u0665\u096a\u0e55\u2167\u00bd\u00b2\u2460\uff13\U0001d7d9"
SPACES = [" ", "  ", "\t", "\n", "\r\n", "\r", "\n\n", " \n", "\u00a0", "\u0085", "\u180e", "\u200b", "\u2003",
          "\u2028", "\u3000", "\u000b", "\u000c", "\u001c", "\ufeff"]
MARKS = ["\u0301", "\u0308", "\u0323", "\u0327", "\u05b4", "\u064b", "\u093c", "\u3099", "\u20dd"]
EMOJI = ["\U0001f600", "\U0001f44d\U0001f3fd", "\U0001f468\u200d\U0001f469\u200d\U0001f467",
         "\U0001f1e9\U0001f1ea", "\u2764\ufe0f", "1\ufe0f\u20e3", "\u2603"]
SIGNS = "!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~\u2026\u2014\u00ab\u20ac\u2211\u3002\u2581\u00ad\ufffd"
CODE = ["for (int i = 0; i < n; ++i) {\n\tsum += a[i];\n}", "def f(x):\n    return x**2  # square",
        "SELECT * FROM t WHERE id=3;", "std::vector<std::pair<int, double>>", "if [ -n \"$1\" ]; then echo '$1'; fi",
        "<a href=\"x\">it's</a>", "0x1F+1e-9", "\\d+\\.\\d{2}"]
ENDINGS = ["'s", "'S", "'t", "'re", "'VE", "'m", "'ll", "'Ll", "'d", "'\u017f", "\u2019s", "''s"]
# What the published expressions cut in different ways.
CASES = ["HelloWorld", "JSONParser", "iPhone15Pro", "1234567", "20240131", "3.14159", "I'LL", "dog'S", "x's'll", "\u4e2d\u6587abc",
         "abc\n\n\ndef", "...\r\n", "!!\n//x", " \n \n  x", "#include", "e\u0301\u00e9", "\u0915\u093f\u0928", "\u01c5ab",
         "a\u02b0B"]
CONTROLS = [chr(code) for code in (*range(0, 32), 127, 0x80, 0x9f)]


def word(rng):
    first, last = SCRIPTS[rng.choice(list(SCRIPTS))]
    letters = [chr(rng.randint(first, last)) for _ in range(rng.randint(1, 7))]
    return "".join(c for c in letters if unicodedata.category(c) != "Cn")


def latin(rng, lines):
    words = rng.choice(lines).split(" ")
    at = rng.randrange(len(words))
    return " ".join(words[at:at + rng.randint(1, 6)])


def some(rng, of, most):
    return "".join(rng.choice(of) for _ in range(rng.randint(1, most)))


def part(rng, lines):
    """Text of one kind; words of any script are the most frequent one."""
    kinds = [lambda: word(rng)] * 2 + [lambda: latin(rng, lines)] * 2 + [
        lambda: word(rng) + rng.choice(MARKS),
        lambda: some(rng, DIGITS, 8),
        lambda: some(rng, SIGNS, 4),
        lambda: rng.choice(EMOJI),
        lambda: rng.choice(CODE),
        lambda: rng.choice(CASES),
        lambda: rng.choice(CASES),
        lambda: rng.choice((*ADDED, *STRIPPING, *OF_PIECES)).content,
        lambda: latin(rng, lines).split(" ")[0] + rng.choice(ENDINGS),
        lambda: " " * rng.randint(2, 40),
        lambda: rng.choice(CONTROLS)]
    return rng.choice(kinds)()


def string(rng, lines):
    """A text of some of everything."""
    return "".join(part(rng, lines) + rng.choice(["", " ", " ", rng.choice(SPACES)]) for _ in range(rng.randint(1, 4)))


def broken(rng, lines):
    """Bytes that are no UTF-8: cut off, or with others among them."""
    data = bytearray(string(rng, lines).encode())
    for _ in range(rng.randint(1, 4)):
        at = rng.randrange(len(data) + 1)
        if rng.random() < 0.4:
            del data[at:at + 1]
        else:
            data[at:at] = bytes(rng.choice([0x80, 0xBF, 0xC0, 0xC3, 0xE2, 0xED, 0xA0, 0xF0, 0x9F, 0xF5, 0xFF])
                                for _ in range(rng.randint(1, 3)))
    return bytes(data)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--strings", type=int, default=500)
    parser.add_argument("--vocabulary", type=int, default=600, help="tokens of a model")
    parser.add_argument("--all", action="store_true", help="every string by every tokenizer, not by one")
    parser.add_argument("--out", type=Path, default=OUT)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    rng = random.Random(options.seed)
    lines = [line for file in sorted((MODELS / "heldout").glob("*.txt"))
             for line in file.read_text(errors="replace").split("\n")[:200] if line.strip()]
    all_models = trained(options.vocabulary, [string(rng, lines) for _ in range(3000)])
    texts = ["", " ", "\n", "a", "\u2581", "\0"]
    texts += [string(rng, lines) for _ in range(options.strings * 9 // 10 - EDGES)]
    wrong = [broken(rng, lines) for _ in range(options.strings - len(texts))]
    out = {"models": all_models, "tokenizers": {}, "strings": texts, "broken": [data.hex() for data in wrong],
           "results": {}}
    inputs = texts + [data.decode(errors="replace") for data in wrong]
    kinds = tokenizer_kinds()
    for number, (name, kind) in enumerate(kinds.items()):
        made = assembled(kind, all_models)
        out["tokenizers"][name] = {**json.loads(made.to_str()), "model": kind[0]}
        chosen = [i for i in range(len(inputs)) if options.all or i < EDGES or i % len(kinds) == number]
        results = []
        for i in chosen:
            ids = made.encode(inputs[i]).ids
            text = made.decode(ids)
            results.append([i, " ".join(map(str, ids)), *([] if text == inputs[i] else [text])])
        out["results"][name] = results
    options.out.write_text(json.dumps(out, ensure_ascii=False, separators=(",", ":")) + "\n")
    print(f"{options.out}: {options.out.stat().st_size} bytes, {len(inputs)} strings, {len(kinds)} tokenizers")


if __name__ == "__main__":
    main()
