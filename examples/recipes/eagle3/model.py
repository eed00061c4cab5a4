# SPDX-License-Identifier: Apache-2.0
"""An EAGLE-3 head (Li et al. 2025, arXiv:2503.01840), with the target's head in place of one of its own."""
import dataclasses

import torch
from torch import nn

from eagle.unrolled import unrolled
from llama.model import TARGET, Config, Layer


@dataclasses.dataclass(frozen=True)
class Eagle3Config(Config):
    # What these layers of the target begin with; the number of its layers stands for what the last one ends with.
    eagle_aux_hidden_state_layer_ids: tuple = (2, 4, 6)


EAGLE3 = Eagle3Config(**dataclasses.asdict(dataclasses.replace(TARGET, num_hidden_layers=1)))


class Eagle3(nn.Module):
    """Embedded tokens [batch, length, hidden] and the features of all positions [batch, length, levels, hidden]
    flattened, to states of the target's head. The attention of its layer reads [norm of the embedding; norm of the
    state], and the state that it goes on with is the residual after the layer."""

    skips_first = True  # no row attends to the first position, which follows no token

    def __init__(self, c):
        super().__init__()
        self.config = c
        self.fc = nn.Linear(len(c.eagle_aux_hidden_state_layer_ids) * c.hidden_size, c.hidden_size, bias=False)
        self.midlayer = Layer(c)
        attention = self.midlayer.self_attn
        for name in ("q_proj", "k_proj", "v_proj"):
            rows = getattr(attention, name).out_features
            setattr(attention, name, nn.Linear(2 * c.hidden_size, rows, bias=False))
        self.midlayer.hidden_norm = nn.RMSNorm(c.hidden_size, c.rms_norm_eps)
        self.norm = nn.RMSNorm(c.hidden_size, c.rms_norm_eps)
        for name, p in self.named_parameters():
            if p.ndim == 2:
                nn.init.normal_(p, std=0.0 if name.endswith(("o_proj.weight", "down_proj.weight"))
                                else p.shape[1] ** -0.5)

    @property
    def layers(self):
        return [self.midlayer]

    def first(self, features):
        return self.fc(features)

    def rows(self, embedded, states):
        layer = self.midlayer
        return states, torch.cat((layer.input_layernorm(embedded), layer.hidden_norm(states)), dim=-1)

    def states(self, x):
        return x, self.norm(x)

    def forward(self, embedded, features):
        return unrolled(self, embedded, features, 1)[0]
