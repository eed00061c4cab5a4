"""Trains what reads a state of the target and goes straight to its head.

    python train_adapter.py --work DIR --model medusa --minutes N
    python train_adapter.py --work DIR --model exit --minutes N

`medusa`: heads on the last hidden state, after the norm. Head j, counted from 0, learns the law of the token
j + 2 ahead; the target's own head has the one before. (Cai et al. 2024, arXiv:2401.10774.) Its weight is
DECAY^j.

`exit`: an adapter behind the second layer, for drafts from the target's first layers; it learns the law that
the target's last layer yields at the same position.

The loss is KL(p || q) that turns into 1 - sum min(p, q), see distillation.py: the whole law is learned and not
the token that follows in the text. The target, its embedding and its head stay as they are.
"""
import torch

import checkpoint
import training
from distillation import Lesson, arguments, distil
from model import Exit, ExitConfig, Medusa, MedusaConfig

DECAY = 0.8


def main():
    parser = arguments(__doc__, minutes=8)
    parser.add_argument("--model", choices=("medusa", "exit"), required=True)
    options = parser.parse_args()
    options.name = options.name or options.model

    torch.manual_seed(training.SEED)
    target = checkpoint.load(options.target).to(training.device())
    head = target.model.embed_tokens.weight
    if options.model == "medusa":
        model = Medusa(MedusaConfig())
    else:
        model = Exit(ExitConfig())
        with torch.no_grad():
            model.norm.weight.copy_(target.model.norm.weight)
    model = model.to(training.device())

    def medusa_loss(record, progress, share):
        lesson = Lesson(record, head)
        return sum(DECAY ** j * lesson.loss(states, share, ahead=j + 1)[0]
                   for j, states in enumerate(model(record.last).unbind(-2)))

    def exit_loss(record, progress, share):
        return Lesson(record, head).loss(model(record.early), share)[0]

    distil(options, target, model, medusa_loss if options.model == "medusa" else exit_loss)


if __name__ == "__main__":
    main()
