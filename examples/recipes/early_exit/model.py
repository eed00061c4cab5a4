# SPDX-License-Identifier: Apache-2.0
"""Drafts from the first layers of the target."""
import dataclasses

import torch.nn.functional as F
from torch import nn

from shipped import VOCABULARY


@dataclasses.dataclass(frozen=True)
class ExitConfig:
    hidden_size: int = 256
    vocab_size: int = VOCABULARY
    exit_layer: int = 2     # layers of the target before it
    adapter_size: int = 128
    rms_norm_eps: float = 1e-5


class Exit(nn.Module):
    """An adapter between the target's residual stream after a layer and its head: with n the norm of x,
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
