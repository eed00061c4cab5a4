# SPDX-License-Identifier: Apache-2.0
"""Writes the tokens in order of their frequency in the training text, for a FR-Spec shortlist.

    python -m text.frequency --work DIR

frequency.safetensors is a vocabulary layout, see `hunch::save_layout`: `row_token`, I32 [vocabulary], has
the most frequent token first. Every domain has the same weight, as in training. End of text and the byte
pieces come first: a shortlist without them could never draft the end of a text, or a character that the
tokenizer has no piece for.
"""
import argparse
from pathlib import Path

import numpy as np
from safetensors.numpy import save_file

import fingerprints
from shipped import MODELS, VOCABULARY
from training import BOS, EOS

BYTE_PIECES = range(3, 259)  # after <unk>, <s> and </s>
NEVER = (0, BOS)             # never the next token


def ranking(folder, leave_out=""):
    share = np.zeros(VOCABULARY)
    for path in sorted(p for p in folder.glob("*.int32") if p.stem != leave_out):
        counts = np.bincount(np.fromfile(path, np.int32), minlength=VOCABULARY)
        share += counts / counts.sum()
    share[[EOS, *BYTE_PIECES]] = np.inf
    share[list(NEVER)] = -1.0
    return np.argsort(-share, kind="stable").astype(np.int32)


if __name__ == "__main__":
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    arguments.add_argument("--work", type=Path, required=True)
    arguments.add_argument("--out", type=Path, default=MODELS / "frequency.safetensors")
    arguments.add_argument("--leave-out", default="", help="a domain that is not counted")
    options = arguments.parse_args()
    save_file({"row_token": ranking(options.work / "tokens" / "train", options.leave_out)}, options.out,
              metadata={"format": "hunch.vocab_layout", "vocab_size": str(VOCABULARY),
                        "vocabulary": fingerprints.text(fingerprints.vocabulary(options.work / "tokenizer.model")),
                        "head": fingerprints.text(0)})  # for any head of the vocabulary
