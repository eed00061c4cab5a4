# SPDX-License-Identifier: Apache-2.0
"""Writes two models that compute nothing, whose vocabularies are nearly the shipped one.

    python other_vocabularies.py ../../models/target/tokenizer.model FOLDER
"""
import sys
from pathlib import Path

import gguf
import numpy

sys.path.insert(0, str(Path(__file__).parent.parent))
import make_gguf  # noqa: E402

WIDTH = 32


def write(out, pieces, adds_space):
    config = {"vocab_size": len(pieces), "hidden_size": WIDTH, "num_hidden_layers": 1, "intermediate_size": WIDTH,
              "num_attention_heads": 1, "num_key_value_heads": 1, "head_dim": WIDTH, "max_position_embeddings": 64,
              "rope_theta": 10000.0, "rms_norm_eps": 1e-5, "bos_token_id": 1, "eos_token_id": 2}
    partial = out.with_suffix(".partial")
    writer = gguf.GGUFWriter(partial, "llama")
    make_gguf.add_shape(writer, config)
    make_gguf.add_vocabulary(writer, pieces, adds_space, config)
    names = ["model.embed_tokens", "model.norm", *(f"model.layers.0.{part}" for part in make_gguf.OF_LAYER)]
    for name in names:
        rows = [len(pieces)] if name == "model.embed_tokens" else [] if name.endswith("norm") else [WIDTH]
        writer.add_tensor(make_gguf.gguf_name(name), numpy.zeros([*rows, WIDTH], dtype=numpy.float32))
    make_gguf.finish(writer, partial, out)


def main():
    tokenizer, folder = map(Path, sys.argv[1:])
    pieces, adds_space = make_gguf.vocabulary(tokenizer)
    _, score, kind = pieces[-1]
    write(folder / "other-vocabulary.gguf", [*pieces[:-1], ("not in the vocabulary", score, kind)], adds_space)
    write(folder / "fewer-tokens.gguf", pieces[:-1], adds_space)


if __name__ == "__main__":
    main()
