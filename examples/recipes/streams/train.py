# SPDX-License-Identifier: Apache-2.0
"""Trains speculative streams in the target's last layers.

    python -m streams.train --work DIR --minutes N
    python -m streams.train --work DIR --model shared --refine DIR/streams.pt --minutes N

Stream j, counted from 0, learns what Medusa's head j learns, with the same weight; a step takes every PLACES-th
position of a window. Only what streams have of their own is trained, so that the target's rows are what they were.

`shared`: streams, and the layers of the target that they run through, and its last norm: another model, whose text
is its own. It begins as the target, or with streams that were trained beside the target, and learns the target's law
too, with the weight 1.

The loss is KL(p || q) that turns into 1 - sum min(p, q), see distillation.py: the whole law is learned and not
the token that follows in the text.
"""
import dataclasses

import torch
import torch.nn.functional as F

from distillation import Lesson, arguments, begin, distil
from early_exit.model import ExitConfig
from llama.model import rope_tables
from medusa.train import DECAY
from streams.model import Shared, StreamConfig, Streams

PLACES = 4


def main():
    parser = arguments(__doc__, minutes=8)
    parser.add_argument("--model", choices=("streams", "shared"), default="streams")
    parser.add_argument("--layers", type=int, default=StreamConfig.stream_layers, help="that streams run through")
    parser.add_argument("--map-rank", type=int, default=StreamConfig.map_rank)
    parser.add_argument("--adapter-rank", type=int, default=StreamConfig.adapter_rank)
    parser.add_argument("--root-rank", type=int, default=StreamConfig.root_rank)
    parser.add_argument("--published", action="store_true", help="one linear map for all streams, none of the root")
    options, target, head, device = begin(parser)
    config = StreamConfig(stream_layers=options.layers, map_rank=options.map_rank,
                          adapter_rank=options.adapter_rank, root_rank=options.root_rank)
    if options.published:
        config = dataclasses.replace(config, root_rank=0, map_activation="none", one_map=True)
    shared = options.model == "shared"
    model = (Shared(config, target) if shared else Streams(config)).to(device)

    def loss_of(record, progress, share):
        trunk = (model.target if shared else target).model
        length = record.last.shape[1]
        with torch.no_grad():
            x = record.early
            cos, sin = rope_tables(trunk.config, length, x.device)
            for layer in trunk.layers[ExitConfig.exit_layer:model.first_layer(trunk)]:
                x = layer(x, cos, sin)
        first = int(torch.randint(PLACES, ()))
        main, states = model.with_streams(trunk, x, torch.arange(first, length, PLACES, device=x.device), shared)
        states = model.conditioned(states, F.embedding(record.ids[:, 1 + first::PLACES], head))
        lesson = Lesson(record, head)
        own = lesson.loss(main, 0.0)[0] if shared else 0.0
        return own + sum(DECAY ** j * lesson.loss(of, share, ahead=j + 1, every=slice(first, None, PLACES))[0]
                         for j, of in enumerate(states.unbind(-2)))

    distil(options, target, model, loss_of)


if __name__ == "__main__":
    main()
