# SPDX-License-Identifier: Apache-2.0
"""Trains speculative streams in the target's last layers.

    python -m streams.train --work DIR --minutes N
    python -m streams.train --work DIR --model shared --refine DIR/streams.pt --minutes N
    python -m streams.train --work DIR --model shared --published --lora 8 --loss likelihood --text-only --name NAME

Stream j, counted from 0, learns what Medusa's head j learns, with the same weight; a step takes every PLACES-th
position of a window. Only what streams have of their own is trained, so that the target's rows are what they were.

`shared`: streams, and the layers of the target that they run through, and its last norm: another model, whose text
is its own. It begins as the target, or with streams that were trained beside the target, and learns the target's law
too, with the weight 1. With `--lora` the target's weights stay as they are, and adapters beside the products of all
layers learn, which the export adds to the weights.

The loss is KL(p || q) that turns into 1 - sum min(p, q), see distillation.py: the whole law is learned and not
the token that follows in the text. `--loss likelihood` is that token's, as published:
-log p(y_{t+1}) - sum_j A log p(y_{t+1+j}), A being the weight of a stream.
"""
import dataclasses
from pathlib import Path

import torch
import torch.nn.functional as F

import checkpoint
from distillation import Lesson, arguments, begin, distil, residual_after
from llama.model import residual
from llama.train_target import sampled_loss
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
    parser.add_argument("--begin", type=Path, metavar="DIR", help="with the adapters and embedding of these streams")
    parser.add_argument("--lora", type=int, default=0, metavar="RANK", help="of shared: of adapters that learn")
    parser.add_argument("--loss", choices=("distillation", "likelihood"), default="distillation")
    parser.add_argument("--stream-weight", type=float, default=0.1, metavar="A", help="of likelihood")
    options, target, head, device = begin(parser)
    config = StreamConfig(stream_layers=options.layers, map_rank=options.map_rank,
                          adapter_rank=options.adapter_rank, root_rank=options.root_rank)
    if options.published:
        config = dataclasses.replace(config, root_rank=0, map_activation="none", one_map=True)
    shared = options.model == "shared"
    if options.lora and not shared:
        parser.error("--lora: streams alone leave the target as it is; use --model shared")
    model = Shared(config, target, options.lora) if shared else Streams(config)
    if options.begin:
        model.begin_as(checkpoint.load_streams(options.begin, options.target))
    model = model.to(device)

    def loss_of(record, progress, share):
        trunk = (model.target if shared else target).model
        if options.lora:  # the layers below learn, too
            x = residual(trunk, record.ids[:, :-1], model.first_layer(trunk))
        else:
            with torch.no_grad():
                x = residual_after(trunk, record, model.first_layer(trunk))
        first = int(torch.randint(PLACES, ()))
        places = torch.arange(first, x.shape[1], PLACES, device=x.device)
        main, states = model.with_streams(trunk, x, places, shared)
        states = model.conditioned(states, F.embedding(record.ids[:, 1 + first::PLACES], head))
        if options.loss == "likelihood":
            return likelihood(record, places, main if shared else None, states)
        lesson = Lesson(record, head)
        own = lesson.loss(main, 0.0)[0] if shared else 0.0
        return own + sum(DECAY ** j * lesson.loss(of, share, ahead=j + 1, every=slice(first, None, PLACES))[0]
                         for j, of in enumerate(states.unbind(-2)))

    def likelihood(record, places, main, states):
        def of(x, at):
            return sampled_loss(x.flatten(0, 1), record.ids[:, at].flatten(), head)

        total = 0.0 if main is None else of(main, slice(1, None))
        for j, stream in enumerate(states.unbind(-2)):
            labelled = places + 2 + j < record.ids.shape[1]
            total = total + options.stream_weight * of(stream[:, labelled], places[labelled] + 2 + j)
        return total

    distil(options, target, model, loss_of, trained=bool(options.refine or options.begin))


if __name__ == "__main__":
    main()
