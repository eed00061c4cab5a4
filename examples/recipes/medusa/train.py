# SPDX-License-Identifier: Apache-2.0
"""Trains Medusa heads on the target's last hidden state, after the norm.

    python -m medusa.train --work DIR --minutes N

Head j, counted from 0, learns the law of the token j + 2 ahead; the target's own head has the one before. (Cai et
al. 2024, arXiv:2401.10774.) Its weight is DECAY^j. The loss is KL(p || q) that turns into 1 - sum min(p, q), see
distillation.py: the whole law is learned and not the token that follows in the text. The target, its embedding and
its head stay as they are.

With `--own-heads` each has a head over the vocabulary to itself, as published: 33 M parameters in the place of 0.26 M.
"""
import dataclasses
from pathlib import Path

import checkpoint
from distillation import Lesson, arguments, begin, distil
from medusa.model import Medusa, MedusaConfig

DECAY = 0.8


def main():
    parser = arguments(__doc__, minutes=8)
    parser.add_argument("--own-heads", action="store_true")
    parser.add_argument("--begin", type=Path, metavar="DIR", help="with the blocks of these heads")
    options, target, head, device = begin(parser, "medusa")
    model = Medusa(dataclasses.replace(MedusaConfig(), own_heads=options.own_heads))
    if options.begin:
        model.medusa.load_state_dict(checkpoint.load_medusa(options.begin, options.target).medusa.state_dict())
    model = model.to(device)
    if options.own_heads:
        model.begin_as(head)

    def loss_of(record, progress, share):
        lesson = Lesson(record, head)
        return sum(DECAY ** j * lesson.loss(states, share, ahead=j + 1, head=model.own_head(j))[0]
                   for j, states in enumerate(model(record.last).unbind(-2)))

    distil(options, target, model, loss_of, trained=bool(options.refine or options.begin))


if __name__ == "__main__":
    main()
