# SPDX-License-Identifier: Apache-2.0
"""Trains an adapter after the target's second layer, for drafts from the target's first layers.

    python -m early_exit.train --work DIR --minutes N

It learns the law that the target's last layer yields at the same position. The loss is KL(p || q) that turns into
1 - sum min(p, q), see distillation.py. The target, its embedding and its head stay as they are.
"""
import torch

from distillation import Lesson, arguments, begin, distil
from early_exit.model import Exit, ExitConfig


def main():
    options, target, head, device = begin(arguments(__doc__, minutes=8), "exit")
    model = Exit(ExitConfig())
    with torch.no_grad():
        model.norm.weight.copy_(target.model.norm.weight)
    model = model.to(device)
    distil(options, target, model,
           lambda record, progress, share: Lesson(record, head).loss(model(record.early), share)[0])


if __name__ == "__main__":
    main()
