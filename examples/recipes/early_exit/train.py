# SPDX-License-Identifier: Apache-2.0
"""Trains an adapter after the target's second layer, for drafts from the target's first layers.

    python -m early_exit.train --work DIR --minutes N
    python -m early_exit.train --work DIR --minutes N --layer 4 --name NAME     # after another one

It learns the law that the target's last layer yields at the same position. The loss is KL(p || q) that turns into
1 - sum min(p, q), see distillation.py. The target, its embedding and its head stay as they are.
"""
import torch

from distillation import Lesson, arguments, begin, distil, residual_after
from early_exit.model import Exit, ExitConfig


def main():
    parser = arguments(__doc__, minutes=8)
    parser.add_argument("--layer", type=int, default=ExitConfig.exit_layer, help="of the target, from that of records on")
    options, target, head, device = begin(parser, "exit")
    if not ExitConfig.exit_layer <= options.layer < target.config.num_hidden_layers:
        parser.error(f"--layer: records begin after layer {ExitConfig.exit_layer} of {target.config.num_hidden_layers}")
    model = Exit(ExitConfig(exit_layer=options.layer))
    with torch.no_grad():
        model.norm.weight.copy_(target.model.norm.weight)
    model = model.to(device)

    def loss_of(record, progress, share):
        with torch.no_grad():
            x = residual_after(target.model, record, options.layer)
        return Lesson(record, head).loss(model(x), share)[0]

    distil(options, target, model, loss_of)


if __name__ == "__main__":
    main()
