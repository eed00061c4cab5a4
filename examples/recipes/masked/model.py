# SPDX-License-Identifier: Apache-2.0
"""A masked diffusion model that fills in a block at a time."""
import dataclasses

import torch

from llama.model import TARGET, Config, Llama, heads, keys_and_values, rope_tables, rotate


@dataclasses.dataclass(frozen=True)
class MaskedConfig(Config):
    mask_token_id: int = 0  # of <unk>, which no text has
    block_length: int = 8


MASKED = MaskedConfig(**dataclasses.asdict(TARGET))

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


def read_with_group(layer, y, cos, sin, k, v, before, inside, group):
    """A layer over readings [batch, readings, length, hidden] of a text that has these keys and values in it. A row
    sees what is `before` its group [length, length] and, of its group what is `inside`."""
    batch, readings, length, _ = y.shape
    attention = layer.self_attn
    normed = layer.input_layernorm(y).flatten(0, 1)
    q = rotate(heads(attention.q_proj(normed), attention.head_dim), cos, sin) * attention.head_dim ** -0.5
    own_k, own_v = (z.unflatten(2, (-1, group)) for z in keys_and_values(attention, normed, cos, sin))
    own = (q.unflatten(2, (-1, group)) @ own_k.mT).unflatten(0, (batch, readings))
    own = own.masked_fill(~inside, -torch.inf).flatten(3, 4)
    q, own_v = (z.unflatten(0, (batch, readings)) for z in (q, own_v))
    mixed = []
    size = -(length // -(SPANS * group)) * group
    for first in range(0, length, size):
        # Nothing after a span is known to it. All readings at once: [batch, heads, readings * span, keys].
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
    block read all of that and each other, masks included. The state of a position yields the law of the token after it,
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
        inside = (groups == groups[:, None]) & (blocks <= blocks[:, None])
        seen = torch.cat((torch.cat((before, nothing), 1), torch.cat((known, inside), 1)))
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
        return self.of_readings(self.known(clean), noisy, group, block)

    def known(self, clean):
        """Of a text [batch, length], what its readings share: keys and values of every layer, and the states."""
        trunk = self.model
        cos, sin = rope_tables(trunk.config, clean.shape[1], clean.device)
        x, kept = trunk.embed_tokens(clean), []
        for layer in trunk.layers:
            kept.append(tuple(keys_and_values(layer.self_attn, layer.input_layernorm(x), cos, sin)))
            x = layer(x, cos, sin)
        return kept, trunk.norm(x)

    def of_readings(self, known, noisy, group, block, full=0, kept=None):
        """As `aligned`, of a text that has been read. The first `full` blocks of every group have no masks: they are
        read as what comes before the groups is. Also the residuals before layer `kept`, if there is one."""
        trunk, length, device = self.model, noisy.shape[-1], noisy.device
        cos, sin = rope_tables(trunk.config, length, device)
        place = torch.arange(length, device=device)
        before = place < (place // group * group)[:, None]
        inside = seen_in_group(group, block, full, device)
        y = trunk.embed_tokens(noisy)
        for i, (layer, (k, v)) in enumerate(zip(trunk.layers, known[0])):
            if i == kept:
                residuals = y
            y = read_with_group(layer, y, cos, sin, k, v, before, inside, group)
        states = by_position(trunk.norm(y), known[1], group)
        return states if kept is None else (states, residuals)
