# SPDX-License-Identifier: Apache-2.0
"""Writes tiny/targets/: small random models of the architectures that an engine reads, as `transformers` saves them, and
what it says of a text, for parity tests.

    python -m llama.golden

Each has something of its own: scaled rotations, a window, biases, norms of heads, a tied head, shards. The layout of
tiny/targets/golden.safetensors is in README.md.
"""
import shutil

import torch
from safetensors.torch import save_file
from transformers import AutoModelForCausalLM, LlamaConfig, MistralConfig, Qwen2Config, Qwen3Config

from masked.golden import randomise
from shipped import MODELS

TARGETS = MODELS / "tiny" / "targets"
VOCABULARY, LENGTH = 96, 40
STORED = 4  # one in so many logits
SIZES = {"vocab_size": VOCABULARY, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2,
         "num_attention_heads": 4, "max_position_embeddings": 128, "tie_word_embeddings": False}
LLAMA3 = {"rope_type": "llama3", "rope_theta": 500.0, "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
          "original_max_position_embeddings": 32}
CONFIGS = {
    "llama2": LlamaConfig(**SIZES, num_key_value_heads=4),
    "llama2_linear": LlamaConfig(**SIZES, rope_parameters={"rope_type": "linear", "rope_theta": 1e4, "factor": 4.0}),
    "llama3": LlamaConfig(**SIZES | {"tie_word_embeddings": True}, num_key_value_heads=2, rope_parameters=LLAMA3,
                          eos_token_id=[90, 91]),
    "mistral": MistralConfig(**SIZES, num_key_value_heads=2, head_dim=16, sliding_window=LENGTH),
    "qwen2": Qwen2Config(**SIZES | {"tie_word_embeddings": True}, num_key_value_heads=2,
                         rope_parameters={"rope_type": "default", "rope_theta": 1e6}),
    "qwen3": Qwen3Config(**SIZES, num_key_value_heads=2, head_dim=12, sliding_window=LENGTH // 2),
}


def main():
    torch.manual_seed(0)
    shutil.rmtree(TARGETS, ignore_errors=True)
    ids = torch.randint(0, VOCABULARY, (LENGTH,))
    tensors = {"ids": ids.int()}
    for name, config in CONFIGS.items():
        model = randomise(AutoModelForCausalLM.from_config(config, attn_implementation="eager"))
        tensors[f"{name}.logits"] = model(ids[None]).logits[0, :, ::STORED].contiguous()
        # Weights as they are published: some in shards, some in half precision.
        model.to(torch.float16 if name == "mistral" else torch.bfloat16).save_pretrained(
            TARGETS / name, max_shard_size="8KB" if name == "llama2" else "1GB")
        (TARGETS / name / "generation_config.json").unlink(missing_ok=True)
    save_file(tensors, TARGETS / "golden.safetensors")


if __name__ == "__main__":
    with torch.inference_mode():
        main()
