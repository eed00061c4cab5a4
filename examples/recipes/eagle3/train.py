# SPDX-License-Identifier: Apache-2.0
"""Trains an EAGLE-3 head for the target.

    python -m eagle3.train --work DIR --minutes N [--refine FILE]

It reads three levels of the target's states, and is unrolled over every text as it will be when it drafts, over its own
states (training-time test, arXiv:2503.01840); the losses are those of eagle/train.py.
"""
import torch

from distillation import Lesson, arguments, begin, distil, residual_after
from eagle.train import WINDOW
from eagle.unrolled import shifted, unrolled
from eagle3.model import EAGLE3, Eagle3

DEPTHS = 4
DEEP_FROM = 0.4  # share of the time budget from which it is unrolled over all of them; before that over two


def features_of(trunk, record):
    """[windows, WINDOW, levels hidden] of a record."""
    levels = EAGLE3.eagle_aux_hidden_state_layer_ids
    with torch.no_grad():
        states = [residual_after(trunk, record, layer) for layer in levels]
    return torch.cat(states, dim=-1).reshape(-1, WINDOW, len(levels) * record.last.shape[-1])


def main():
    options, target, head, device = begin(arguments(__doc__, minutes=90), "eagle3")
    embedding = target.model.embed_tokens
    eagle = Eagle3(EAGLE3).to(device)
    deep = torch.compile(unrolled, dynamic=False)

    def loss_of(record, progress, share):
        lesson, features = Lesson(record, head), features_of(target.model, record)
        embedded = embedding(record.windows(WINDOW).ids[:, :-1])
        loss, reached = 0.0, torch.ones(features.shape[:2], device=device)
        for outputs in deep(eagle, embedded, features, DEPTHS if progress >= DEEP_FROM or options.refine else 2):
            part, sums = lesson.loss(outputs, share, worth=reached)
            loss = loss + part
            reached = shifted((reached * sums)[..., None])[..., 0]
        return loss

    distil(options, target, eagle, loss_of)


if __name__ == "__main__":
    main()
