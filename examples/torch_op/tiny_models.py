# SPDX-License-Identifier: Apache-2.0
"""Random models of transformers that are small enough to enumerate their texts."""
import torch
from transformers import (GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM, MistralConfig,
                          MistralForCausalLM, Qwen2Config, Qwen2ForCausalLM)

V = 8  # of the tiny models, so that laws of texts can be enumerated


def tiny(kind, seed, vocabulary=V, **options):
    """A random model with laws that are far from uniform and depend on all of the text."""
    shape = dict(vocab_size=vocabulary, hidden_size=32, intermediate_size=48, num_hidden_layers=2,
                 num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=64, initializer_range=0.25,
                 bos_token_id=None, eos_token_id=None, pad_token_id=None)
    if kind is GPT2LMHeadModel:
        config = GPT2Config(vocab_size=vocabulary, n_positions=64, n_embd=32, n_layer=2, n_head=4,
                            initializer_range=0.25, bos_token_id=None, eos_token_id=None)
    else:
        configs = {LlamaForCausalLM: LlamaConfig, Qwen2ForCausalLM: Qwen2Config, MistralForCausalLM: MistralConfig}
        config = configs[kind](**(shape | options))
    torch.manual_seed(seed)
    model = kind._from_config(config, attn_implementation="sdpa").eval().requires_grad_(False)
    model.generation_config.pad_token_id = 0
    return model


def nearby(model, seed, noise):
    """The same with noise on its weights: drafts that are often accepted."""
    other = type(model)._from_config(model.config, attn_implementation="sdpa").eval().requires_grad_(False)
    torch.manual_seed(seed)
    for to, of in zip(other.parameters(), model.parameters()):
        to.copy_(of + noise * of.std() * torch.randn_like(of))
    return other
