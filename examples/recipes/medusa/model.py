# SPDX-License-Identifier: Apache-2.0
"""Medusa heads (Cai et al. 2024, arXiv:2401.10774)."""
import dataclasses

import torch
import torch.nn.functional as F
from torch import nn

from shipped import VOCABULARY


@dataclasses.dataclass(frozen=True)
class MedusaConfig:
    hidden_size: int = 256
    vocab_size: int = VOCABULARY
    medusa_num_heads: int = 4
    own_heads: bool = False     # each has a head over the vocabulary to itself, as published


class Medusa(nn.Module):
    """Heads on the target's features [..., hidden]: [..., heads, hidden]. Head j, counted from 0, makes of the
    feature that yields the law of the next token what yields that of the token j + 1 after it."""

    def __init__(self, c):
        super().__init__()
        self.config = c
        self.medusa = nn.ModuleList(nn.Linear(c.hidden_size, c.hidden_size, bias=False)
                                    for _ in range(c.medusa_num_heads))
        for head in self.medusa:  # at first each says what the target says of the next token
            nn.init.zeros_(head.weight)
        if c.own_heads:  # they begin as the target's, see `begin_as`
            self.heads = nn.ModuleList(nn.Linear(c.hidden_size, c.vocab_size, bias=False)
                                       for _ in range(c.medusa_num_heads))

    def begin_as(self, head):
        """With the target's head [vocab, hidden] in the place of each of its own."""
        with torch.no_grad():
            for own in self.heads:
                own.weight.copy_(head)

    def own_head(self, j):
        """[vocab, hidden], or None: the target's."""
        return self.heads[j].weight if self.config.own_heads else None

    def forward(self, features):
        return torch.stack([features + F.silu(head(features)) for head in self.medusa], dim=-2)
