# SPDX-License-Identifier: Apache-2.0
"""Trains an EAGLE head for the target: one decoder layer that continues the target's features.

    python -m eagle.train --work DIR --minutes N [--refine FILE]

At position t it reads the token there and the target's feature at t - 1 (its last hidden state, after the
norm), and its output stands for the feature at t: the target's own head makes a law of it. (Li et al. 2024,
arXiv:2401.15077.) The embedding and the head stay the target's and are not trained.

When it drafts more than one token it reads its own outputs instead of features. So it is unrolled over every
text as it will be when it drafts (EAGLE-3's training, arXiv:2503.01840), at the depths 0 .. DEPTHS - 1. The loss
of a depth is KL(p || q) that turns into 1 - sum min(p, q), with a share of the loss at temperature 0, see
distillation.py. A position counts at a depth as much as a draft is likely to get there: by the product of
sum min(p, q) along the text.
"""
import torch

from distillation import Lesson, arguments, begin, distil
from eagle.model import EAGLE, Eagle
from eagle.unrolled import shifted, unrolled

DEPTHS = 3
DEEP_FROM = 0.6  # share of the time budget from which it is unrolled; before that the first depth is learned
WINDOW = 512  # positions that it attends to


def main():
    options, target, head, device = begin(arguments(__doc__, minutes=40), "eagle")
    embedding = target.model.embed_tokens
    eagle = Eagle(EAGLE).to(device)
    first, deep = torch.compile(eagle, dynamic=False), torch.compile(unrolled, dynamic=False)

    def loss_of(record, progress, share):
        lesson, windows = Lesson(record, head), record.windows(WINDOW)
        embedded, features = embedding(windows.ids[:, :-1]), windows.last
        if progress < DEEP_FROM:
            return lesson.loss(first(embedded, features), share)[0]
        loss, reached = 0.0, torch.ones(features.shape[:2], device=device)
        for outputs in deep(eagle, embedded, features, DEPTHS):
            part, sums = lesson.loss(outputs, share, worth=reached)
            loss = loss + part
            reached = shifted((reached * sums)[..., None])[..., 0]
        return loss

    distil(options, target, eagle, loss_of)


if __name__ == "__main__":
    main()
