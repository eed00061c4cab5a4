# SPDX-License-Identifier: Apache-2.0
"""Writes small models that have what the shipped ones have not: other vocabularies, other graphs.

    python small_models.py ../../models/target/tokenizer.model FOLDER
"""
import sys
from pathlib import Path

import gguf
import numpy

sys.path.insert(0, str(Path(__file__).parent.parent))
import make_gguf  # noqa: E402

WIDTH = 32
SQUARE = (WIDTH, WIDTH)

LLAMA = {"output_norm.weight": (WIDTH,), "blk.0.attn_norm.weight": (WIDTH,), "blk.0.ffn_norm.weight": (WIDTH,),
         **{f"blk.0.{name}.weight": SQUARE for name in ("attn_q", "attn_k", "attn_v", "attn_output")},
         **{f"blk.0.{name}.weight": SQUARE for name in ("ffn_gate", "ffn_down", "ffn_up")}}
# CogVLM: its graph computes the last states of all rows, those without an output, too.
ALL_ROWS = {"output_norm.weight": (WIDTH,), "blk.0.attn_norm.weight": (WIDTH,), "blk.0.ffn_norm.weight": (WIDTH,),
            **{f"blk.0.{name}.weight": (3 * WIDTH, WIDTH) for name in ("attn_qkv", "vis_attn_qkv")},
            **{f"blk.0.{name}.weight": SQUARE for name in ("attn_output", "vis_attn_output")},
            **{f"blk.0.{name}.weight": SQUARE for name in ("ffn_gate", "ffn_down", "ffn_up")},
            **{f"blk.0.{name}.weight": SQUARE for name in ("vis_gate", "vis_down", "vis_up")}}
# PLaMo-3: its graph has no node "result_norm".
NO_STATES = {"output_norm.weight": (WIDTH,),
             **{f"blk.0.{name}.weight": (WIDTH,) for name in ("attn_norm", "attn_q_norm", "attn_k_norm", "ffn_norm")},
             **{f"blk.0.{name}": (WIDTH,) for name in ("post_attention_norm", "post_ffw_norm")},
             "blk.0.attn_qkv.weight": (3 * WIDTH, WIDTH), "blk.0.attn_output.weight": SQUARE,
             "blk.0.ffn_up.weight": (2 * WIDTH, WIDTH), "blk.0.ffn_down.weight": SQUARE}
# The encoder of T5.
ENCODER = {"enc.output_norm.weight": (WIDTH,),
           **{f"enc.blk.0.{name}.weight": (WIDTH,) for name in ("attn_norm", "ffn_norm")},
           **{f"enc.blk.0.{name}.weight": SQUARE for name in ("attn_q", "attn_k", "attn_v", "attn_o")},
           **{f"enc.blk.0.{name}.weight": SQUARE for name in ("ffn_gate", "ffn_down", "ffn_up")}}


def write(out, vocabulary, architecture="llama", shapes=LLAMA, begin=1, end=2):
    pieces, adds_space = vocabulary
    config = {"vocab_size": len(pieces), "hidden_size": WIDTH, "num_hidden_layers": 1, "intermediate_size": WIDTH,
              "num_attention_heads": 1, "num_key_value_heads": 1, "head_dim": WIDTH, "max_position_embeddings": 64,
              "rope_theta": 10000.0, "rms_norm_eps": 1e-5, "bos_token_id": begin, "eos_token_id": end}
    partial = out.with_suffix(".partial")
    writer = gguf.GGUFWriter(partial, architecture)
    make_gguf.add_shape(writer, config)
    if shapes is ENCODER:
        writer.add_relative_attn_buckets_count(32)
    make_gguf.add_vocabulary(writer, pieces, adds_space, config)
    chance = numpy.random.default_rng(0)
    # Bytes with a factor: a head of our own rounds nothing of it.
    embedding = chance.integers(-127, 128, (len(pieces), WIDTH))
    embedding[:, 0] = 127
    tensors = {"token_embd.weight": embedding / 127}
    for name, shape in shapes.items():
        tensors[name] = numpy.ones(shape) if len(shape) == 1 else chance.standard_normal(shape) / WIDTH**0.5
    for name, value in tensors.items():
        writer.add_tensor(name, value.astype(numpy.float32))
    make_gguf.finish(writer, partial, out)


def main():
    tokenizer, folder = map(Path, sys.argv[1:])
    pieces, adds_space = make_gguf.vocabulary(tokenizer)
    _, score, kind = pieces[-1]
    write(folder / "other-token.gguf", ([*pieces[:-1], ("not in the vocabulary", score, kind)], adds_space))
    write(folder / "fewer-tokens.gguf", (pieces[:-1], adds_space))
    write(folder / "other-ends.gguf", (pieces, adds_space), begin=4, end=3)
    few = pieces[:400], adds_space
    write(folder / "all-rows.gguf", few, "cogvlm", ALL_ROWS)
    write(folder / "no-states.gguf", few, "plamo3", NO_STATES)
    write(folder / "encoder.gguf", few, "t5encoder", ENCODER)
    (folder / "small-models.made").touch()


if __name__ == "__main__":
    main()
