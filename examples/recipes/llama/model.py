# SPDX-License-Identifier: Apache-2.0
"""The Llama architecture in a page of PyTorch: what `transformers.LlamaForCausalLM` computes, and its names.

Parameter names are those of a Hugging Face checkpoint, so that a state dict is the file.
"""
import dataclasses

import torch
import torch.nn.functional as F
from torch import nn

from shipped import VOCABULARY


@dataclasses.dataclass(frozen=True)
class Config:
    hidden_size: int
    num_hidden_layers: int
    intermediate_size: int
    num_attention_heads: int
    num_key_value_heads: int
    head_dim: int = 32
    vocab_size: int = VOCABULARY
    max_position_embeddings: int = 1024
    rope_theta: float = 10000.0
    rms_norm_eps: float = 1e-5


TARGET = Config(hidden_size=256, num_hidden_layers=6, intermediate_size=704,
                num_attention_heads=8, num_key_value_heads=4)

DRAFT = Config(hidden_size=128, num_hidden_layers=2, intermediate_size=384,
               num_attention_heads=4, num_key_value_heads=2)

SMALL_DRAFT = Config(hidden_size=64, num_hidden_layers=2, intermediate_size=192,
                     num_attention_heads=2, num_key_value_heads=1)

LARGE_DRAFT = dataclasses.replace(TARGET, num_hidden_layers=2)

DRAFTS = {"small": SMALL_DRAFT, "shipped": DRAFT, "large": LARGE_DRAFT}

TINY = Config(hidden_size=64, num_hidden_layers=2, intermediate_size=128, vocab_size=256,
              num_attention_heads=2, num_key_value_heads=1, max_position_embeddings=128)


def rope_tables(config, length, device):
    """Cosines and sines [length, head_dim / 2]; the two halves of a head form the pairs."""
    exponents = torch.arange(0, config.head_dim, 2, device=device).float() / config.head_dim
    angles = torch.arange(length, device=device).float()[:, None] * config.rope_theta ** -exponents
    return angles.cos(), angles.sin()


def rotate(x, cos, sin):
    a, b = x.chunk(2, dim=-1)
    return torch.cat((a * cos - b * sin, b * cos + a * sin), dim=-1)


def heads(x, size):
    return x.unflatten(-1, (-1, size)).transpose(1, 2)


def keys_and_values(attention, normed, cos, sin):
    """[batch, heads, length, size] of a layer, once for every head."""
    k = rotate(heads(attention.k_proj(normed), attention.head_dim), cos, sin)
    v = heads(attention.v_proj(normed), attention.head_dim)
    return (y.repeat_interleave(attention.groups, dim=1) for y in (k, v))


class Attention(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.head_dim, self.groups = c.head_dim, c.num_attention_heads // c.num_key_value_heads
        self.q_proj = nn.Linear(c.hidden_size, c.num_attention_heads * c.head_dim, bias=False)
        self.k_proj = nn.Linear(c.hidden_size, c.num_key_value_heads * c.head_dim, bias=False)
        self.v_proj = nn.Linear(c.hidden_size, c.num_key_value_heads * c.head_dim, bias=False)
        self.o_proj = nn.Linear(c.num_attention_heads * c.head_dim, c.hidden_size, bias=False)

    def forward(self, x, cos, sin, seen=None):
        b, t, _ = x.shape
        q, k, v = (p(x).view(b, t, -1, self.head_dim).transpose(1, 2)
                   for p in (self.q_proj, self.k_proj, self.v_proj))
        q, k = rotate(q, cos, sin).to(v.dtype), rotate(k, cos, sin).to(v.dtype)
        k, v = (y.repeat_interleave(self.groups, dim=1) for y in (k, v))
        out = F.scaled_dot_product_attention(q, k, v, seen, is_causal=seen is None)
        return self.o_proj(out.transpose(1, 2).reshape(b, t, -1))


class Mlp(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.gate_proj = nn.Linear(c.hidden_size, c.intermediate_size, bias=False)
        self.up_proj = nn.Linear(c.hidden_size, c.intermediate_size, bias=False)
        self.down_proj = nn.Linear(c.intermediate_size, c.hidden_size, bias=False)

    def forward(self, x):
        return self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))


class Layer(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.input_layernorm = nn.RMSNorm(c.hidden_size, c.rms_norm_eps)
        self.self_attn = Attention(c)
        self.post_attention_layernorm = nn.RMSNorm(c.hidden_size, c.rms_norm_eps)
        self.mlp = Mlp(c)

    def forward(self, x, cos, sin):
        x = x + self.self_attn(self.input_layernorm(x), cos, sin)
        return x + self.mlp(self.post_attention_layernorm(x))


class Trunk(nn.Module):
    """Everything but the head: token ids [batch, length] to normalised hidden states."""

    def __init__(self, c):
        super().__init__()
        self.config = c
        self.embed_tokens = nn.Embedding(c.vocab_size, c.hidden_size)
        self.layers = nn.ModuleList(Layer(c) for _ in range(c.num_hidden_layers))
        self.norm = nn.RMSNorm(c.hidden_size, c.rms_norm_eps)

    def forward(self, ids):
        cos, sin = rope_tables(self.config, ids.shape[1], ids.device)
        x = self.embed_tokens(ids)
        for layer in self.layers:
            x = layer(x, cos, sin)
        return self.norm(x)


class Llama(nn.Module):
    """A trunk and a head that is the embedding."""

    def __init__(self, config):
        super().__init__()
        self.config, self.model = config, Trunk(config)
        for name, p in self.named_parameters():
            if p.ndim == 2:
                # Residual branches start at zero: the first steps then train the embedding undisturbed.
                std = 0.0 if name.endswith(("o_proj.weight", "down_proj.weight")) else \
                    0.02 if "embed" in name else p.shape[1] ** -0.5
                nn.init.normal_(p, std=std)

    def forward(self, ids):
        return F.linear(self.model(ids), self.model.embed_tokens.weight)


def residual(trunk, ids, layers):
    """What the target's stream holds after its first layers, without a norm."""
    cos, sin = rope_tables(trunk.config, ids.shape[1], ids.device)
    x = trunk.embed_tokens(ids)
    for layer in trunk.layers[:layers]:
        x = layer(x, cos, sin)
    return x
