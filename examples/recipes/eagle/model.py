# SPDX-License-Identifier: Apache-2.0
"""An EAGLE head (Li et al. 2024, arXiv:2401.15077)."""
import dataclasses

import torch
from torch import nn

from llama.model import TARGET, Layer, rope_tables

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

    def forward(self, embedded, features):
        cos, sin = rope_tables(self.config, embedded.shape[1], embedded.device)
        return self.norm(self.layers[0](self.fc(torch.cat((embedded, features), dim=-1)), cos, sin))
