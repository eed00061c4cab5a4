# SPDX-License-Identifier: Apache-2.0
"""An EAGLE head (Li et al. 2024, arXiv:2401.15077)."""
import dataclasses

import torch
from torch import nn

from eagle.unrolled import unrolled
from llama.model import TARGET, Layer

EAGLE = dataclasses.replace(TARGET, num_hidden_layers=1)


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

    skips_first = False  # rows attend to the first position, which follows no token

    def first(self, features):
        """What stands in the place of its own states where the target has read the token."""
        return features

    def rows(self, embedded, states):
        """What rows begin with, of the states before them, and what their attention reads."""
        x = self.fc(torch.cat((embedded, states), dim=-1))
        return x, self.layers[0].input_layernorm(x)

    def states(self, x):
        """Of what the layer has made of rows: its own states, and what the head reads."""
        x = self.norm(x)
        return x, x

    def forward(self, embedded, features):
        """`features` [batch, length, hidden] of the positions themselves."""
        return unrolled(self, embedded, features, 1)[0]
