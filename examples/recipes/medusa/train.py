# SPDX-License-Identifier: Apache-2.0
"""Trains Medusa heads on the target's last hidden state, after the norm.

    python -m medusa.train --work DIR --minutes N

Head j, counted from 0, learns the law of the token j + 2 ahead; the target's own head has the one before. (Cai et
al. 2024, arXiv:2401.10774.) Its weight is DECAY^j. The loss is KL(p || q) that turns into 1 - sum min(p, q), see
distillation.py: the whole law is learned and not the token that follows in the text. The target, its embedding and
its head stay as they are.
"""
from distillation import Lesson, arguments, begin, distil
from medusa.model import Medusa, MedusaConfig

DECAY = 0.8


def main():
    options, target, head, device = begin(arguments(__doc__, minutes=8), "medusa")
    model = Medusa(MedusaConfig()).to(device)

    def loss_of(record, progress, share):
        lesson = Lesson(record, head)
        return sum(DECAY ** j * lesson.loss(states, share, ahead=j + 1)[0]
                   for j, states in enumerate(model(record.last).unbind(-2)))

    distil(options, target, model, loss_of)


if __name__ == "__main__":
    main()
