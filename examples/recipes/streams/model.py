# SPDX-License-Identifier: Apache-2.0
"""Speculative Streaming (Bhendawade et al. 2024, arXiv:2402.11131)."""
import copy
import dataclasses

import torch
import torch.nn.functional as F
from torch import nn

from llama.model import TARGET, heads, keys_and_values, rope_tables, rotate
from shipped import VOCABULARY


@dataclasses.dataclass(frozen=True)
class StreamConfig:
    hidden_size: int = 256
    vocab_size: int = VOCABULARY
    speculative_streams: int = 4
    stream_layers: int = 2      # of the target, its last ones
    map_rank: int = 48          # of what streams begin with
    adapter_rank: int = 12      # of what is added to a product
    root_rank: int = 48         # of what streams are given of the token that was emitted; 0: nothing
    map_activation: str = "silu"  # "none": streams begin with a linear map
    one_map: bool = False       # the same for all streams


class Adapter(nn.Module):
    """b a x: what a product has more for streams. At first nothing."""

    def __init__(self, inputs, outputs, rank):
        super().__init__()
        if inputs:
            self.a = nn.Linear(inputs, rank, bias=False)
            nn.init.normal_(self.a.weight, std=inputs ** -0.5)
        self.b = nn.Linear(rank, outputs, bias=False)
        nn.init.zeros_(self.b.weight)

    def forward(self, x):
        return self.b(self.a(x))


class StreamLayer(nn.Module):
    """What streams have of their own in a layer of the target."""

    def __init__(self, c, target):
        super().__init__()
        d, query = target.hidden_size, target.num_attention_heads * target.head_dim
        key_value = target.num_key_value_heads * target.head_dim
        self.query_key_value = Adapter(d, query + 2 * key_value, c.adapter_rank)
        self.output = Adapter(query, d, c.adapter_rank)
        self.gate = Adapter(d, target.intermediate_size, c.adapter_rank)
        self.up = Adapter(0, target.intermediate_size, c.adapter_rank)  # its a is that of the gate
        self.down = Adapter(target.intermediate_size, d, c.adapter_rank)


class Streams(nn.Module):
    """Speculative streams in the last layers of a target, which stay as they are (Bhendawade et al. 2024,
    arXiv:2402.11131). Stream j, counted from 0, of position t makes what yields the law of the token j + 2 after
    it; it reads what t reads, t, and the streams before it."""

    def __init__(self, c, target=TARGET):
        super().__init__()
        self.config = c
        self.down = nn.Linear(c.hidden_size, c.map_rank, bias=False)
        self.up = nn.Linear(c.map_rank, (1 if c.one_map else c.speculative_streams) * c.hidden_size, bias=False)
        self.embedding = nn.Embedding(c.speculative_streams, c.hidden_size)
        self.layers = nn.ModuleList(StreamLayer(c, target) for _ in range(c.stream_layers))
        if c.root_rank:
            self.root = nn.ModuleDict({"down": nn.Linear(2 * c.hidden_size, c.root_rank, bias=False),
                                       "up": nn.Linear(c.root_rank, c.speculative_streams * c.hidden_size, bias=False)})
            nn.init.normal_(self.root.down.weight, std=(2 * c.hidden_size) ** -0.5)
            nn.init.zeros_(self.root.up.weight)
        nn.init.normal_(self.down.weight, std=c.hidden_size ** -0.5)
        nn.init.zeros_(self.up.weight)
        nn.init.normal_(self.embedding.weight, std=0.02)

    @torch.no_grad()
    def begin_as(self, other):
        """With the embedding of trained streams, and what they add in the layers; the map is another one."""
        self.embedding.weight.copy_(other.embedding.weight)
        for mine, theirs in zip(self.layers, other.layers, strict=True):
            for name, adapter in mine.named_children():
                of = getattr(theirs, name)
                rank = of.b.in_features
                adapter.b.weight[:, :rank] = of.b.weight
                if hasattr(adapter, "a"):
                    adapter.a.weight[:rank] = of.a.weight

    def conditioned(self, states, roots):
        """What is drafted from, [..., streams, hidden]: states, and the embedding [..., hidden] of the token that was
        emitted after their position, which the pass that made them did not know. (As Hydra's heads are given what was
        drafted: Ankner et al. 2024, arXiv:2402.05109.)"""
        if not self.config.root_rank:
            return states
        inner = self.root.down(torch.cat((states, roots[..., None, :].expand_as(states)), -1))
        up = self.root.up.weight.unflatten(0, (self.config.speculative_streams, -1))
        return states + torch.einsum("...jr,jdr->...jd", F.silu(inner), up)

    def first_layer(self, trunk):
        return len(trunk.layers) - self.config.stream_layers

    def forward(self, trunk, x, places):
        """States [batch, places, streams, hidden] of a trunk's streams, x [batch, length, hidden] being its
        residuals after the layers below, at the positions `places`."""
        return self.with_streams(trunk, x, places)[1]

    def with_streams(self, trunk, x, places, shared=False):
        """The trunk's own states [batch, length, hidden] too. `shared`: the trunk learns from its streams."""
        c, count = trunk.config, self.config.speculative_streams
        length = x.shape[1]
        cos, sin = rope_tables(c, length + count, x.device)
        own = torch.minimum(places[:, None] + 1 + torch.arange(count, device=x.device),
                            torch.tensor(c.max_position_embeddings - 1, device=x.device)).flatten()
        at = x[:, places]
        normed = F.rms_norm(at, at.shape[-1:], eps=c.rms_norm_eps)
        inner = self.down(normed)
        begun = self.up(F.silu(inner) if self.config.map_activation == "silu" else inner)
        begun = begun.unflatten(-1, (1 if self.config.one_map else count, -1))
        s = (at[:, :, None] + begun + self.embedding.weight).flatten(1, 2)
        seen = torch.arange(length, device=x.device) <= places[:, None].expand(-1, count).reshape(-1, 1)
        before = torch.ones(count, count, dtype=torch.bool, device=x.device).tril()
        for layer, more in zip(trunk.layers[self.first_layer(trunk):], self.layers):
            attention = layer.self_attn
            with torch.set_grad_enabled(shared):
                k, v = keys_and_values(attention, layer.input_layernorm(x), cos[:length], sin[:length])
            normed = layer.input_layernorm(s)
            sizes = [p.out_features for p in (attention.q_proj, attention.k_proj, attention.v_proj)]
            added = more.query_key_value(normed).split(sizes, dim=-1)
            q, sk, sv = (heads(p(normed) + extra, c.head_dim) for p, extra in
                         zip((attention.q_proj, attention.k_proj, attention.v_proj), added))
            q, sk = rotate(q, cos[own], sin[own]), rotate(sk, cos[own], sin[own])
            sk, sv = (y.repeat_interleave(attention.groups, dim=1).unflatten(2, (-1, count)) for y in (sk, sv))
            scale = c.head_dim ** -0.5
            read = (q @ k.mT * scale).masked_fill(~seen, -torch.inf)
            among = (q.unflatten(2, (-1, count)) @ sk.mT * scale).masked_fill(~before, -torch.inf).flatten(2, 3)
            law = torch.cat((read, among), dim=-1).softmax(-1)
            mixed = law[..., :length] @ v + (law[..., length:].unflatten(2, (-1, count)) @ sv).flatten(2, 3)
            mixed = mixed.transpose(1, 2).flatten(2)
            s = s + attention.o_proj(mixed) + more.output(mixed)
            normed, mlp = layer.post_attention_layernorm(s), layer.mlp
            inner = more.gate.a(normed)
            product = F.silu(mlp.gate_proj(normed) + more.gate.b(inner)) * (mlp.up_proj(normed) + more.up.b(inner))
            s = s + mlp.down_proj(product) + more.down(product)
            with torch.set_grad_enabled(shared):
                x = layer(x, cos[:length], sin[:length])
        return trunk.norm(x), trunk.norm(s).unflatten(1, (-1, count))


class Adapted(nn.Linear):
    """A product of the target, which stays as it is, and what is learnt beside it (LoRA: Hu et al. 2021,
    arXiv:2106.09685)."""

    def __init__(self, product, rank):
        super().__init__(product.in_features, product.out_features, bias=False)
        self.weight = product.weight
        self.learnt = Adapter(product.in_features, product.out_features, rank)

    def forward(self, x):
        return super().forward(x) + self.learnt(x)


def merged(state):
    """A target's weights, what was learnt beside them added."""
    out = {name: value for name, value in state.items() if ".learnt." not in name}
    for name in out:
        learnt = name.removesuffix("weight") + "learnt."
        if f"{learnt}a.weight" in state:
            out[name] = out[name] + state[f"{learnt}b.weight"] @ state[f"{learnt}a.weight"]
    return out


class Shared(Streams):
    """Streams, and the target that is trained with them: another model than it was. Of the target its last layers and
    norm learn, or, as published, adapters of the rank `lora` beside the products of all layers."""

    def __init__(self, c, target, lora=0):
        super().__init__(c, target.config)
        self.target, self.lora = copy.deepcopy(target), lora
        trunk = self.target.model
        if not lora:
            for part in (*trunk.layers[self.first_layer(trunk):], trunk.norm):
                part.requires_grad_(True)
            return
        for layer in trunk.layers:
            for part in (layer.self_attn, layer.mlp):
                for name, product in list(part.named_children()):
                    setattr(part, name, Adapted(product, lora))

    def load_state_dict(self, state, *options, **more):
        """Of streams alone, too: the target is what it is then."""
        of_target = {name: value for name, value in self.state_dict().items() if name.startswith("target.")}
        return super().load_state_dict(of_target | state, *options, **more)
