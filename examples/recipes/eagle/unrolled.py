# SPDX-License-Identifier: Apache-2.0
"""What an EAGLE head knows and drafts at every position of a text, at every depth of a draft."""
import torch
import torch.nn.functional as F

from llama.model import rope_tables, rotate


def shifted(states, by=1):
    """Row t has the state of t - by; the first have none."""
    return F.pad(states[:, :-by], (0, 0, by, 0))


def unrolled(eagle, embedded, features, depths):
    """The outputs [batch, length, hidden] of an EAGLE or EAGLE-3 head at each of `depths` depths, for the text
    itself as the draft. Row t of depth j belongs to a draft that began at t - j: it reads the target's features up
    to there, and then the head's own states, as when it really drafts. Depth 0 is the head's `forward`."""
    layer, attention = eagle.layers[0], eagle.layers[0].self_attn
    batch, length, _ = embedded.shape
    cos, sin = rope_tables(eagle.config, length, embedded.device)
    place = torch.arange(length, device=embedded.device)
    outputs, keys, values, previous = [], [], [], eagle.first(features)
    for depth in range(depths):
        x, normed = eagle.rows(embedded, shifted(previous))
        q, k, v = (p(normed).view(batch, length, -1, attention.head_dim).transpose(1, 2)
                   for p in (attention.q_proj, attention.k_proj, attention.v_proj))
        q, k = rotate(q, cos, sin), rotate(k, cos, sin)
        k, v = (y.repeat_interleave(attention.groups, dim=1) for y in (k, v))
        keys.append(k)
        values.append(v)
        scale = attention.head_dim ** -0.5
        read = (q @ keys[0].transpose(-1, -2)) * scale
        hidden = place[None, :] > place[:, None] - depth
        if eagle.skips_first:
            hidden = hidden | ((place[None, :] == 0) & (place[:, None] > 0))
        read.masked_fill_(hidden, -torch.inf)
        # Of readings 1 .. depth every row sees one place: the one that its own draft has written.
        own = [(q * shifted_heads(keys[depth - i], i)).sum(-1, keepdim=True) * scale for i in range(depth)]
        for i, score in enumerate(own):
            score[:, :, :i] = -torch.inf
        law = torch.cat((read, *own), dim=-1).softmax(-1).nan_to_num()  # the first rows have no such draft
        mixed = law[..., :length] @ values[0]
        for i in range(depth):
            mixed = mixed + law[..., length + i, None] * shifted_heads(values[depth - i], i)
        x = x + attention.o_proj(mixed.transpose(1, 2).reshape(batch, length, -1))
        previous, output = eagle.states(x + layer.mlp(layer.post_attention_layernorm(x)))
        outputs.append(output)
    return outputs


def shifted_heads(x, by):
    """The same as `shifted` for [batch, heads, length, size]."""
    return x if by == 0 else F.pad(x[:, :, :-by], (0, 0, by, 0))
