# SPDX-License-Identifier: Apache-2.0
"""Writes a Llama model of this project as a GGUF file.

    python make_gguf.py --model ../models/target --type F32 --out target-f32.gguf
    python make_gguf.py --model ../models/draft --tokenizer ../models/target/tokenizer.model --type BF16 --out draft-bf16.gguf

Reads config.json and model.safetensors in I8 (integers with a scale per row) or F32. Norms stay F32. Q4_0 leaves the
embedding, which is the head, in BF16: as a draft model, such a copy reads only parts of its head.
"""
import argparse
import json
from pathlib import Path

import gguf
import numpy
import sentencepiece
from gguf import GGMLQuantizationType as Type
from safetensors.numpy import load_file

FILE_TYPES = {"F32": gguf.LlamaFileType.ALL_F32, "BF16": gguf.LlamaFileType.MOSTLY_BF16,
              "Q8_0": gguf.LlamaFileType.MOSTLY_Q8_0, "Q4_0": gguf.LlamaFileType.MOSTLY_Q4_0}
OF_LAYER = {"input_layernorm": "attn_norm", "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k",
            "self_attn.v_proj": "attn_v", "self_attn.o_proj": "attn_output", "post_attention_layernorm": "ffn_norm",
            "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up", "mlp.down_proj": "ffn_down"}
OF_MODEL = {"model.embed_tokens": "token_embd", "model.norm": "output_norm", "lm_head": "output"}


def tensors(folder):
    """Name and float32 values of each."""
    stored = load_file(folder / "model.safetensors")
    for name, value in stored.items():
        if name.endswith("_scale"):
            continue
        value = value.astype(numpy.float32)
        if f"{name}_scale" in stored:
            value = value * stored[f"{name}_scale"][:, None]
        yield name.removesuffix(".weight"), value


def gguf_name(name):
    if name in OF_MODEL:
        return f"{OF_MODEL[name]}.weight"
    _, _, layer, part = name.split(".", 3)  # model.layers.<n>.<part>
    return f"blk.{layer}.{OF_LAYER[part]}.weight"


def paired(weight, heads):
    """Rows of queries or keys as llama.cpp rotates them: the two halves of a head interleaved."""
    rows, columns = weight.shape
    return weight.reshape(heads, 2, rows // heads // 2, columns).swapaxes(1, 2).reshape(rows, columns)


def add_shape(writer, config):
    writer.add_context_length(config["max_position_embeddings"])
    writer.add_embedding_length(config["hidden_size"])
    writer.add_block_count(config["num_hidden_layers"])
    writer.add_feed_forward_length(config["intermediate_size"])
    writer.add_head_count(config["num_attention_heads"])
    writer.add_head_count_kv(config["num_key_value_heads"])
    writer.add_rope_dimension_count(config["head_dim"])
    writer.add_key_length(config["head_dim"])
    writer.add_value_length(config["head_dim"])
    writer.add_rope_freq_base(config["rope_theta"])
    writer.add_layer_norm_rms_eps(config["rms_norm_eps"])
    writer.add_vocab_size(config["vocab_size"])


def token_type(text, t):
    if text.is_unknown(t):
        return gguf.TokenType.UNKNOWN
    if text.is_control(t):
        return gguf.TokenType.CONTROL
    if text.is_byte(t):
        return gguf.TokenType.BYTE
    return gguf.TokenType.NORMAL


def vocabulary(path):
    """Piece, score and type of each token, and whether a space goes before a text."""
    text = sentencepiece.SentencePieceProcessor(model_file=str(path))
    pieces = [(text.id_to_piece(t), text.get_score(t), token_type(text, t)) for t in range(len(text))]
    return pieces, text.id_to_piece(text.encode("a")[0]).startswith("\u2581")


def add_vocabulary(writer, pieces, adds_space, config):
    texts, scores, types = zip(*pieces)
    writer.add_tokenizer_model("llama")
    writer.add_token_list(texts)
    writer.add_token_scores(scores)
    writer.add_token_types(types)
    writer.add_bos_token_id(config["bos_token_id"])
    writer.add_eos_token_id(config["eos_token_id"])
    writer.add_unk_token_id(types.index(gguf.TokenType.UNKNOWN))
    writer.add_add_bos_token(True)
    writer.add_add_eos_token(False)
    writer.add_add_space_prefix(adds_space)


def finish(writer, partial, out):
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    partial.replace(out)


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    arguments.add_argument("--model", type=Path, required=True)
    arguments.add_argument("--tokenizer", type=Path, help="a sentencepiece file; by default the one in the model's folder")
    arguments.add_argument("--type", choices=FILE_TYPES, default="F32")
    arguments.add_argument("--out", type=Path, required=True)
    options = arguments.parse_args()

    config = json.loads((options.model / "config.json").read_text())
    if config["architectures"] != ["LlamaForCausalLM"]:
        raise SystemExit(f"{options.model} is not a Llama model: {config['architectures']}")
    partial = options.out.with_suffix(".partial")
    writer = gguf.GGUFWriter(partial, "llama")
    writer.add_name(options.out.stem)
    writer.add_file_type(FILE_TYPES[options.type])
    add_shape(writer, config)
    tokenizer = options.tokenizer or options.model / "tokenizer.model"
    pieces, adds_space = vocabulary(tokenizer)
    if len(pieces) != config["vocab_size"]:
        raise SystemExit(f"{tokenizer} has {len(pieces)} tokens, and {options.model} reads {config['vocab_size']}")
    add_vocabulary(writer, pieces, adds_space, config)
    for name, value in tensors(options.model):
        if name.endswith("q_proj"):
            value = paired(value, config["num_attention_heads"])
        elif name.endswith("k_proj"):
            value = paired(value, config["num_key_value_heads"])
        kind = Type.F32 if value.ndim == 1 else Type[options.type]
        if kind == Type.Q4_0 and name in OF_MODEL:
            kind = Type.BF16
        writer.add_tensor(gguf_name(name), gguf.quants.quantize(value, kind), raw_dtype=kind)
    finish(writer, partial, options.out)


if __name__ == "__main__":
    main()
