"""The Llama architecture in a page of PyTorch: what `transformers.LlamaForCausalLM` computes, and its names.

Parameter names are those of a Hugging Face checkpoint, so that a state dict is the file.
"""
import copy
import dataclasses

import torch
import torch.nn.functional as F
from torch import nn


@dataclasses.dataclass(frozen=True)
class Config:
    hidden_size: int
    num_hidden_layers: int
    intermediate_size: int
    num_attention_heads: int
    num_key_value_heads: int
    head_dim: int = 32
    vocab_size: int = 32000
    max_position_embeddings: int = 1024
    rope_theta: float = 10000.0
    rms_norm_eps: float = 1e-5


@dataclasses.dataclass(frozen=True)
class MedusaConfig:
    hidden_size: int = 256
    vocab_size: int = 32000
    medusa_num_heads: int = 4


@dataclasses.dataclass(frozen=True)
class ExitConfig:
    hidden_size: int = 256
    vocab_size: int = 32000
    exit_layer: int = 2     # layers of the target before it
    adapter_size: int = 128
    rms_norm_eps: float = 1e-5


@dataclasses.dataclass(frozen=True)
class MaskedConfig(Config):
    mask_token_id: int = 0  # of <unk>, which no text has
    block_length: int = 8


@dataclasses.dataclass(frozen=True)
class CanvasHeadConfig(Config):
    target_layer: int = 5           # before which it takes the residuals of the model
    cached_layers: tuple = (2, 5)   # of the model, whose keys and values its own layers read


@dataclasses.dataclass(frozen=True)
class StreamConfig:
    hidden_size: int = 256
    vocab_size: int = 32000
    speculative_streams: int = 4
    stream_layers: int = 2      # of the target, its last ones
    map_rank: int = 48          # of what streams begin with
    adapter_rank: int = 12      # of what is added to a product
    root_rank: int = 48         # of what tells streams the token that was emitted; 0: they are not told


TARGET = Config(hidden_size=256, num_hidden_layers=6, intermediate_size=704,
                num_attention_heads=8, num_key_value_heads=4)
DRAFT = Config(hidden_size=128, num_hidden_layers=2, intermediate_size=384,
               num_attention_heads=4, num_key_value_heads=2)
MASKED = MaskedConfig(**dataclasses.asdict(TARGET))
EAGLE = dataclasses.replace(TARGET, num_hidden_layers=1)
CANVAS_HEAD = CanvasHeadConfig(**dataclasses.asdict(TARGET) | {"num_hidden_layers": 2})
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


class Eagle(nn.Module):
    """A decoder layer between the target's embedding and its head: embedded tokens and the features before
    them, [batch, length, hidden], to features."""

    def __init__(self, c):
        super().__init__()
        self.config = c
        self.fc = nn.Linear(2 * c.hidden_size, c.hidden_size, bias=False)
        self.layers = nn.ModuleList([Layer(c)])
        self.norm = nn.RMSNorm(c.hidden_size, c.rms_norm_eps)
        for name, p in self.named_parameters():
            if p.ndim == 2:
                nn.init.normal_(p, std=0.0 if name.endswith(("o_proj.weight", "down_proj.weight"))
                                else p.shape[1] ** -0.5)

    def forward(self, embedded, features):
        cos, sin = rope_tables(self.config, embedded.shape[1], embedded.device)
        return self.norm(self.layers[0](self.fc(torch.cat((embedded, features), dim=-1)), cos, sin))


class Medusa(nn.Module):
    """Heads on the target's features [..., hidden]: [..., heads, hidden]. Head j, counted from 0, makes of the
    feature that yields the law of the next token what yields that of the token j + 1 behind it."""

    def __init__(self, c):
        super().__init__()
        self.config = c
        self.medusa = nn.ModuleList(nn.Linear(c.hidden_size, c.hidden_size, bias=False)
                                    for _ in range(c.medusa_num_heads))
        for head in self.medusa:  # at first each says what the target says of the next token
            nn.init.zeros_(head.weight)

    def forward(self, features):
        return torch.stack([features + F.silu(head(features)) for head in self.medusa], dim=-2)


class Exit(nn.Module):
    """An adapter between the target's residual stream behind a layer and its head: with n the norm of x,
    n + up silu(down n)."""

    def __init__(self, c):
        super().__init__()
        self.config = c
        self.norm = nn.RMSNorm(c.hidden_size, c.rms_norm_eps)
        self.down = nn.Linear(c.hidden_size, c.adapter_size, bias=False)
        self.up = nn.Linear(c.adapter_size, c.hidden_size, bias=False)
        nn.init.normal_(self.down.weight, std=c.hidden_size ** -0.5)
        nn.init.zeros_(self.up.weight)

    def forward(self, x):
        n = self.norm(x)
        return n + self.up(F.silu(self.down(n)))


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
    arXiv:2402.11131). Stream j, counted from 0, of position t makes what yields the law of the token j + 2 behind
    it; it reads what t reads, t, and the streams before it."""

    def __init__(self, c, target=TARGET):
        super().__init__()
        self.config = c
        self.down = nn.Linear(c.hidden_size, c.map_rank, bias=False)
        self.up = nn.Linear(c.map_rank, c.speculative_streams * c.hidden_size, bias=False)
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

    def told(self, states, roots):
        """What is drafted from, [..., streams, hidden]: states, and the embedding [..., hidden] of the token that was
        emitted behind their position, which the pass that made them did not know. (As Hydra's heads are told what was
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
        residuals behind the layers below, at the positions `places`."""
        return self.beside(trunk, x, places)[1]

    def beside(self, trunk, x, places, shared=False):
        """The trunk's own states [batch, length, hidden] too. `shared`: the trunk learns from its streams."""
        c, count = trunk.config, self.config.speculative_streams
        length = x.shape[1]
        cos, sin = rope_tables(c, length + count, x.device)
        own = torch.minimum(places[:, None] + 1 + torch.arange(count, device=x.device),
                            torch.tensor(c.max_position_embeddings - 1, device=x.device)).flatten()
        at = x[:, places]
        normed = F.rms_norm(at, at.shape[-1:], eps=c.rms_norm_eps)
        begun = self.up(F.silu(self.down(normed))).unflatten(-1, (count, -1))
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
            beside = (q.unflatten(2, (-1, count)) @ sk.mT * scale).masked_fill(~before, -torch.inf).flatten(2, 3)
            law = torch.cat((read, beside), dim=-1).softmax(-1)
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


class Shared(Streams):
    """Streams, and the target whose last layers and norm are trained with them: another model than it was."""

    def __init__(self, c, target):
        super().__init__(c, target.config)
        self.target = copy.deepcopy(target)
        trunk = self.target.model
        for part in (*trunk.layers[self.first_layer(trunk):], trunk.norm):
            part.requires_grad_(True)

    def load_state_dict(self, state, *options, **more):
        """Of streams alone, too: the target is what it is then."""
        of_target = {name: value for name, value in self.state_dict().items() if name.startswith("target.")}
        return super().load_state_dict(of_target | state, *options, **more)


def heads(x, size):
    return x.unflatten(-1, (-1, size)).transpose(1, 2)


def keys_and_values(attention, normed, cos, sin):
    """[batch, heads, length, size] of a layer, once for every head."""
    k = rotate(heads(attention.k_proj(normed), attention.head_dim), cos, sin)
    v = heads(attention.v_proj(normed), attention.head_dim)
    return (y.repeat_interleave(attention.groups, dim=1) for y in (k, v))


def residual(trunk, ids, layers):
    """What the target's stream holds behind its first layers, without a norm."""
    cos, sin = rope_tables(trunk.config, ids.shape[1], ids.device)
    x = trunk.embed_tokens(ids)
    for layer in trunk.layers[:layers]:
        x = layer(x, cos, sin)
    return x


SPANS = 4  # in which the queries of a window are read: more of them read less in vain, and compile longer


def by_position(states, of_known, group):
    """By the positions whose laws they yield, those of the rows before them: in the first of a group, of the text."""
    inside = (torch.arange(1, states.shape[2], device=states.device) % group != 0)[:, None]
    states = torch.where(inside, states[:, :, :-1], of_known[:, None, :-1])
    return torch.cat((torch.zeros_like(states[:, :, :1]), states), 2)


def seen_in_group(group, block, full, device):
    """Which positions of a group, of whose blocks the first `full` have no masks, each one sees [group, group]."""
    at = torch.arange(group, device=device)
    of = at // block
    return torch.where(of[:, None] < full, at <= at[:, None], of <= of[:, None])


def read_beside(layer, y, cos, sin, k, v, before, beside, group):
    """A layer over readings [batch, readings, length, hidden] of a text that has these keys and values in it. A row
    sees what is `before` its group [length, length] and, `beside` it, of its group."""
    batch, readings, length, _ = y.shape
    attention = layer.self_attn
    normed = layer.input_layernorm(y).flatten(0, 1)
    q = rotate(heads(attention.q_proj(normed), attention.head_dim), cos, sin) * attention.head_dim ** -0.5
    own_k, own_v = (z.unflatten(2, (-1, group)) for z in keys_and_values(attention, normed, cos, sin))
    own = (q.unflatten(2, (-1, group)) @ own_k.mT).unflatten(0, (batch, readings))
    own = own.masked_fill(~beside, -torch.inf).flatten(3, 4)
    q, own_v = (z.unflatten(0, (batch, readings)) for z in (q, own_v))
    mixed = []
    size = -(length // -(SPANS * group)) * group
    for first in range(0, length, size):
        # Nothing behind a span is known to it. All readings at once: [batch, heads, readings * span, keys].
        last = min(first + size, length)
        span = slice(first, last)
        read = (q[..., span, :].transpose(1, 2).flatten(2, 3) @ k[:, :, :last].mT).unflatten(2, (readings, -1))
        read = read.masked_fill(~before[span, :last], -torch.inf)
        law = torch.cat((read, own[..., span, :].transpose(1, 2)), -1).softmax(-1)
        of_known = (law[..., :last].flatten(2, 3) @ v[:, :, :last]).unflatten(2, (readings, -1)).transpose(1, 2)
        of_own = law[..., last:].transpose(1, 2).unflatten(3, (-1, group)) @ own_v[..., first // group:last // group, :, :]
        mixed.append(of_known + of_own.flatten(3, 4))
    y = y + attention.o_proj(torch.cat(mixed, 3).transpose(2, 3).flatten(3))
    return y + layer.mlp(layer.post_attention_layernorm(y))


class Masked(Llama):
    """A model that fills in masks, a block at a time. What comes before the block is read as a Llama reads it, each
    token the ones before it, so that its keys and values stay what they are once they are known; the positions of a
    block read all of that and each other, masks included. The state of a position yields the law of the token behind it,
    as in the Llama that it is trained from: a mask is filled by what the row in front of it says."""

    def forward(self, clean, noisy, groups, blocks):
        """States [batch, length, hidden] that yield the laws of `noisy`, [batch, length] ids some of which are masks;
        the first of each row has none. `groups` [length] tells what is read as one text with masks, `blocks`
        [length], finer, which of those a position reads: its own and the ones before."""
        trunk, length = self.model, clean.shape[1]
        cos, sin = (table.repeat(2, 1) for table in rope_tables(trunk.config, length, clean.device))
        place = torch.arange(length, device=clean.device)
        before = place <= place[:, None]
        nothing = torch.zeros_like(before)
        known = groups < groups[:, None]
        beside = (groups == groups[:, None]) & (blocks <= blocks[:, None])
        seen = torch.cat((torch.cat((before, nothing), 1), torch.cat((known, beside), 1)))
        x = trunk.embed_tokens(torch.cat((clean, noisy), 1))
        for layer in trunk.layers:
            x = x + layer.self_attn(layer.input_layernorm(x), cos, sin, seen)
            x = x + layer.mlp(layer.post_attention_layernorm(x))
        of_clean, of_noisy = trunk.norm(x).split(length, dim=1)
        own = (groups[1:] == groups[:-1])[:, None]
        states = torch.where(own, of_noisy[:, :-1], of_clean[:, :-1])
        return torch.cat((torch.zeros_like(states[:, :1]), states), 1)

    def aligned(self, clean, noisy, group, block):
        """What `forward` says of several readings [batch, readings, length] of one text [batch, length] at once, in less
        time: groups and blocks have so many positions and begin at their multiples. `length` is one of `group`."""
        return self.beside(self.known(clean), noisy, group, block)

    def known(self, clean):
        """Of a text [batch, length], what its readings share: keys and values of every layer, and the states."""
        trunk = self.model
        cos, sin = rope_tables(trunk.config, clean.shape[1], clean.device)
        x, kept = trunk.embed_tokens(clean), []
        for layer in trunk.layers:
            kept.append(tuple(keys_and_values(layer.self_attn, layer.input_layernorm(x), cos, sin)))
            x = layer(x, cos, sin)
        return kept, trunk.norm(x)

    def beside(self, known, noisy, group, block, full=0, kept=None):
        """As `aligned`, of a text that has been read. The first `full` blocks of every group have no masks: they are
        read as what comes before the groups is. Also the residuals before layer `kept`, if there is one."""
        trunk, (batch, readings, length), device = self.model, noisy.shape, noisy.device
        cos, sin = rope_tables(trunk.config, length, device)
        place = torch.arange(length, device=device)
        before = place < (place // group * group)[:, None]
        beside = seen_in_group(group, block, full, device)
        y = trunk.embed_tokens(noisy)
        for i, (layer, (k, v)) in enumerate(zip(trunk.layers, known[0])):
            if i == kept:
                residuals = y
            y = read_beside(layer, y, cos, sin, k, v, before, beside, group)
        states = by_position(trunk.norm(y), known[1], group)
        return states if kept is None else (states, residuals)


class CanvasHead(nn.Module):
    """The last layer of a Masked again, over rows of which some were masks when the model read them and are written
    since. The others begin with the residuals that they had in the model before that layer; those that are written
    begin with what `fc` makes of theirs and of the embedding of the token. One more layer comes in between. Keys and
    values of what is before the rows are the model's."""

    def __init__(self, c):
        super().__init__()
        self.config = c
        self.embedding_norm = nn.RMSNorm(c.hidden_size, c.rms_norm_eps)
        self.fc = nn.Linear(2 * c.hidden_size, c.hidden_size, bias=False)
        self.layers = nn.ModuleList(Layer(c) for _ in c.cached_layers)
        self.norm = nn.RMSNorm(c.hidden_size, c.rms_norm_eps)

    def joined(self, embedded, residuals):
        return torch.cat((self.embedding_norm(embedded), residuals), -1)

    def forward(self, known, embedded, residuals, written, seen):
        """Of readings of a text [batch, readings, length, hidden] in groups that are `seen` [readings, group, group]:
        states like those of `beside`, and the residuals before the last layer."""
        group, length, device = seen.shape[-1], embedded.shape[2], embedded.device
        cos, sin = rope_tables(self.config, length, device)
        place = torch.arange(length, device=device)
        before = place < (place // group * group)[:, None]
        y = torch.where(written[..., None], self.fc(self.joined(embedded, residuals)).to(residuals.dtype), residuals)
        for layer, i in zip(self.layers, self.config.cached_layers):
            last = y
            y = read_beside(layer, y, cos, sin, *known[0][i], before, seen[:, None, None], group)
        return by_position(self.norm(y), known[1], group), last

    def take(self, model, weight):
        """At first it says what the model said, of rows that are as they were. `weight` is `fc`'s."""
        with torch.no_grad():
            self.fc.weight.copy_(weight)
            for layer, i in zip(self.layers, self.config.cached_layers):
                layer.load_state_dict(model.model.layers[i].state_dict())
            for layer in self.layers[:-1]:
                nn.init.zeros_(layer.self_attn.o_proj.weight)
                nn.init.zeros_(layer.mlp.down_proj.weight)
            self.norm.load_state_dict(model.model.norm.state_dict())
