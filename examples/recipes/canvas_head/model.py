# SPDX-License-Identifier: Apache-2.0
"""What drafts for a masked diffusion model."""
import dataclasses

import torch
from torch import nn

from llama.model import TARGET, Config, Layer, rope_tables
from masked.model import by_position, read_with_group


@dataclasses.dataclass(frozen=True)
class CanvasHeadConfig(Config):
    target_layer: int = 5           # before which it takes the residuals of the model
    cached_layers: tuple = (2, 5)   # of the model, whose keys and values its own layers read


CANVAS_HEAD = CanvasHeadConfig(**dataclasses.asdict(TARGET) | {"num_hidden_layers": 2})


class CanvasHead(nn.Module):
    """The last layer of a Masked again, over rows of which some were masks when the model read them and have been
    unmasked since. The others begin with the residuals that they had in the model before that layer; those that have
    been unmasked begin with what `fc` makes of theirs and of the embedding of the token. One more layer comes in
    between. Keys and values of what is before the rows are the model's."""

    def __init__(self, c):
        super().__init__()
        self.config = c
        self.embedding_norm = nn.RMSNorm(c.hidden_size, c.rms_norm_eps)
        self.fc = nn.Linear(2 * c.hidden_size, c.hidden_size, bias=False)
        self.layers = nn.ModuleList(Layer(c) for _ in c.cached_layers)
        self.norm = nn.RMSNorm(c.hidden_size, c.rms_norm_eps)

    def joined(self, embedded, residuals):
        return torch.cat((self.embedding_norm(embedded), residuals), -1)

    def forward(self, known, embedded, residuals, unmasked, seen):
        """Of readings of a text [batch, readings, length, hidden] in groups that are `seen` [readings, group, group]:
        states like those of `of_readings`, and the residuals before the last layer."""
        group, length, device = seen.shape[-1], embedded.shape[2], embedded.device
        cos, sin = rope_tables(self.config, length, device)
        place = torch.arange(length, device=device)
        before = place < (place // group * group)[:, None]
        y = torch.where(unmasked[..., None], self.fc(self.joined(embedded, residuals)).to(residuals.dtype), residuals)
        for layer, i in zip(self.layers, self.config.cached_layers):
            last = y
            y = read_with_group(layer, y, cos, sin, *known[0][i], before, seen[:, None, None], group)
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
