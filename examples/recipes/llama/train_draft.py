# SPDX-License-Identifier: Apache-2.0
"""Trains the draft in two stages.

    python -m llama.train_draft --work DIR --minutes N --stage text
    python -m llama.train_draft --work DIR --minutes N --stage distil
    python -m llama.train_draft --work DIR --minutes N --stage distil --size large

The first stage is ordinary language modelling and may run beside the target's training. The draft's
embedding, which is also its head, starts as the best low-rank approximation of the target's.

The second stage distils the finished target. The loss is the forward divergence KL(p || q) of the whole
laws and turns, in the middle of the time budget, into -sum min(p, q), see distillation.py: that sum is the
probability with which rejection sampling accepts a draft token.

The other sizes have the second stage only. A draft as wide as the target starts as its embedding, its first
layers and its norm.
"""
import torch

import checkpoint
import training
from distillation import CONTEXT, Lesson, arguments, distil
from llama.model import DRAFTS, Llama
from llama.train_target import sampled_loss


def low_rank(embedding, rank):
    """Coordinates of the embedding's rows along its principal directions."""
    _, _, directions = torch.linalg.svd(embedding.T @ embedding)
    return embedding @ directions[:rank].T


def initial(config, target):
    draft = Llama(config)
    with torch.no_grad():
        if config.hidden_size == target.config.hidden_size:
            draft.load_state_dict({name: target.state_dict()[name] for name in draft.state_dict()})
        else:
            draft.model.embed_tokens.weight.copy_(low_rank(target.model.embed_tokens.weight, config.hidden_size))
    return draft.to(training.device())


def main():
    parser = arguments(__doc__, minutes=25)
    parser.add_argument("--stage", choices=("text", "distil"), required=True)
    parser.add_argument("--size", choices=DRAFTS, default="shipped")
    parser.add_argument("--per-domain", type=int, default=1, help="windows of each domain in a batch of text")
    options = parser.parse_args()
    options.name = options.name or ("draft" if options.size == "shipped" else f"draft-{options.size}")

    torch.manual_seed(training.SEED)
    target = checkpoint.load(options.target, options.work / "tokenizer.model")
    draft = initial(DRAFTS[options.size], target).train()
    target, head = target.to(training.device()), draft.model.embed_tokens.weight
    trunk = torch.compile(draft.model, dynamic=False)

    def text_loss(batch, progress):
        hidden = trunk(batch[:, :-1]).flatten(0, 1)
        return sampled_loss(hidden, batch[:, 1:].reshape(-1), head)

    def distil_loss(record, progress, share):
        return Lesson(record, target.model.embed_tokens.weight).loss(trunk(record.ids[:, :-1]), share, head=head)[0]

    text = options.work / f"{options.name}-text.pt"
    if options.stage == "text":
        optimiser = training.Optimiser(draft, muon_rate=0.015, adam_rate=0.002, decay=0.0)
        windows = training.Windows(options.work / "tokens" / "train", CONTEXT, options.per_domain)
        training.run(text.stem, options.work, options.minutes, draft, optimiser,
                     lambda step, progress: windows.batch(step), text_loss)
        return
    if text.exists():
        draft.load_state_dict(torch.load(text, map_location=training.device())["model"])
    distil(options, target, draft, distil_loss)


if __name__ == "__main__":
    main()
