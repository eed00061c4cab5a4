# SPDX-License-Identifier: Apache-2.0
"""Trains the tokenizer: SentencePiece BPE with byte fallback.

    python -m text.tokenizer --work DIR

Options are Llama's where they do not lose text: normalisation is the identity and white space is kept,
so that decode(encode(text)) == text, line ends and indentation included. No dummy prefix is added: a text
that starts with a letter and one that starts with a space differ. Line ends may be part of a piece, which
saves about a tenth of the tokens in program text.
"""
import argparse
from pathlib import Path

import sentencepiece

from shipped import VOCABULARY
from text.corpus import SEPARATOR

SAMPLE_BYTES = 3 << 20  # of each domain: more adds minutes and hardly changes the merges
SENTENCE_BYTES = 2048   # long enough to hold line ends and indentation, short enough for the trainer's limit


def sentences(folder):
    """Training sentences: runs of whole lines, the same number of bytes from every domain."""
    for path in sorted(folder.glob("*.txt")):
        left = SAMPLE_BYTES
        for document in path.read_text("utf-8").split(SEPARATOR):
            run = ""
            for line in document.splitlines(keepends=True):
                run += line[:SENTENCE_BYTES]
                if len(run) >= SENTENCE_BYTES:
                    yield run
                    left -= len(run.encode())
                    run = ""
            if run:
                yield run
                left -= len(run.encode())
            if left <= 0:
                break


def train(work):
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=sentences(work / "corpus" / "train"), model_prefix=str(work / "tokenizer"),
        model_type="bpe", vocab_size=VOCABULARY, byte_fallback=True, character_coverage=0.9999,
        normalization_rule_name="identity", add_dummy_prefix=False, remove_extra_whitespaces=False,
        allow_whitespace_only_pieces=True, split_digits=True, max_sentence_length=4 * SENTENCE_BYTES,
        unk_id=0, bos_id=1, eos_id=2, pad_id=-1, num_threads=16, shuffle_input_sentence=False,
        minloglevel=1)


def check(work):
    """Round trip of every held-out byte, and the bytes per token of each domain."""
    tokenizer = sentencepiece.SentencePieceProcessor(model_file=str(work / "tokenizer.model"))
    assert tokenizer.get_piece_size() == VOCABULARY
    for path in sorted((work / "corpus" / "validation").glob("*.txt")):
        text = path.read_text("utf-8").replace(SEPARATOR, "")
        ids = tokenizer.encode(text)
        assert tokenizer.decode(ids) == text, path
        print(f"{path.stem:12} {len(text.encode()) / len(ids):.2f} bytes per token")


if __name__ == "__main__":
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    arguments.add_argument("--work", type=Path, required=True)
    options = arguments.parse_args()
    train(options.work)
    check(options.work)
