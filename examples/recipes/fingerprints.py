# SPDX-License-Identifier: Apache-2.0
"""Values that tell vocabularies, heads and layouts apart: files say by them what they were made for, and loaders
compare. The same as `hunch::vocabulary_fingerprint`, `hunch::head_fingerprint` and `vocab_layout::fingerprint`.

What is needed to compare them needs nothing but Python: what else is imported is imported where it is used.
"""
from pathlib import Path

MODULUS = 1 << 64
ROWS = 4096  # of a head at once


def text(value):
    return f"{value:#018x}"


UNKNOWN = text(0)


def check(path, said, known, name):
    """Compares what a file says that it was made for with what is known of what it is about to be used with, `name`:
    what both know must be the same, and there must be a fingerprint that both know. As `hunch::made_for::check`."""
    compared = False
    for key, own in known.items():
        if key not in said:
            raise ValueError(f"{path}: does not say for which {key} it was made; that of {name} is {own}: make it anew")
        if UNKNOWN in (said[key], own):
            continue
        if said[key] != own:
            raise ValueError(f"{path}: was made for another {key}, {said[key]}; that of {name} is {own}: "
                             "use the file that was made for it, or make one")
        compared = compared or key != "vocab_size"
    if not compared:
        raise ValueError(f"{path}: there is nothing to tell whether it was made for {name}")


def fnv(values):
    """FNV-1a over whole numbers."""
    hash_ = 14695981039346656037
    for value in values:
        hash_ = (hash_ ^ value) * 1099511628211 % MODULUS
    return hash_


def vocabulary(tokenizer):
    """Of a SentencePiece processor, or of the file of one: its pieces in order, 256 after each."""
    if isinstance(tokenizer, (str, Path)):
        import sentencepiece
        tokenizer = sentencepiece.SentencePieceProcessor(model_file=str(tokenizer))
    pieces = (tokenizer.id_to_piece(i).encode() for i in range(tokenizer.get_piece_size()))
    return fnv(value for piece in pieces for value in (*piece, 256)) or 1


def head(weights):
    """Of float32 [tokens, width]: the mixed bits of every weight as bfloat16, with its token and place, added up."""
    import numpy as np
    total = 0
    for first in range(0, len(weights), ROWS):
        part = np.ascontiguousarray(weights[first:first + ROWS], dtype=np.float32).view(np.uint32)
        bits = (part + 0x7fff + (part >> 16 & 1) >> 16).astype(np.uint64)
        token = np.arange(first, first + len(part), dtype=np.uint64)[:, None]
        x = token << np.uint64(40) | np.arange(part.shape[1], dtype=np.uint64) << np.uint64(16) | bits
        x *= np.uint64(0x9E3779B97F4A7C15)
        x = (x ^ x >> np.uint64(32)) * np.uint64(0xD6E8FEB86659FD93)
        x ^= x >> np.uint64(32)
        total += int(x[bits & np.uint64(0x7fff) != 0].sum(dtype=np.uint64))
    return total % MODULUS or 1


def layout(row_token, cluster_begin, vocabulary_size):
    """Of the tensors of a vocabulary layout with clusters."""
    rows, begin = [int(t) for t in row_token], [int(row) for row in cluster_begin]
    return fnv([vocabulary_size, len(rows), *rows, len(begin) - 1, *begin])


def of_layout(tensors, vocabulary_size):
    """What a router says of the layout, a file of these tensors, that it was trained for."""
    return text(layout(tensors["row_token"], tensors["cluster_begin"], vocabulary_size))
