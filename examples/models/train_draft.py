"""Trains the draft in two stages.

    python train_draft.py --work DIR --minutes N --stage text
    python train_draft.py --work DIR --minutes N --stage distil

The first stage is ordinary language modelling and may run beside the target's training. The draft's
embedding, which is also its head, starts as the best low-rank approximation of the target's.

The second stage distils the finished target. The loss is the forward divergence KL(p || q) of the whole
laws and turns, in the middle of the time budget, into -sum min(p, q): that sum is the probability with
which rejection sampling accepts a draft token. Both laws are over the tokens of the batch and random others
that stand for the rest, as in the target's training, and over the full vocabulary at the end.
"""
import argparse
import math
from pathlib import Path

import torch
import torch.nn.functional as F

import checkpoint
import training
from model import DRAFT, Llama
from train_target import sampled_loss

NEGATIVES = 2048
FULL_FROM = 0.85  # share of the time budget from which laws are over the full vocabulary
CONTEXT = 1024
CHUNK = 1024      # rows of laws held at once


def low_rank(embedding, rank):
    """Coordinates of the embedding's rows along its principal directions."""
    _, _, directions = torch.linalg.svd(embedding.T @ embedding)
    return embedding @ directions[:rank].T


def acceptance_share(progress):
    """Weight of the acceptance loss: the divergence first, which has a gradient everywhere."""
    return min(1.0, max(0.0, (progress - 0.4) / 0.3))


def distance(teacher_logits, logits, share):
    """Mean over the rows of the blend of KL(p || q) and 1 - sum min(p, q)."""
    log_p, log_q = teacher_logits.log_softmax(-1), logits.log_softmax(-1)
    p = log_p.exp()
    loss = 0.0
    if share < 1:
        loss = (1 - share) * (p * (log_p - log_q)).sum(-1).mean()
    if share > 0:
        loss = loss + share * (1 - torch.minimum(p, log_q.exp()).sum(-1).mean())
    return loss


def candidates(labels, vocabulary):
    """Rows of the head that take part, and the log-weight of each: one, or the tokens it stands for."""
    known = torch.unique(labels)
    others = torch.ones(vocabulary, dtype=torch.bool, device=labels.device)
    others[known] = False
    others = others.nonzero()[:, 0]
    drawn = others[torch.randperm(len(others), device=labels.device)[:NEGATIVES]]
    weight = torch.zeros(len(known) + len(drawn), device=labels.device)
    weight[len(known):] = math.log(len(others) / len(drawn))
    return torch.cat((known, drawn)), weight


def chunked(hidden, teacher_hidden, head, teacher_head, weight, share):
    """The distance, a few rows of laws at a time; gradients are taken at once, so that one chunk is alive."""
    leaf, leaf_head = hidden.detach().requires_grad_(), head.detach().requires_grad_(head.requires_grad)
    total, rows = 0.0, len(hidden)
    for h, t in zip(leaf.split(CHUNK), teacher_hidden.split(CHUNK)):
        with torch.no_grad():
            teacher_logits = F.linear(t, teacher_head) + weight
        part = distance(teacher_logits, F.linear(h, leaf_head) + weight, share) * (len(h) / rows)
        part.backward()
        total += part.detach()
    # The value is the distance; its gradients are those that the chunks collected.
    surrogate = (hidden * leaf.grad).sum()
    if head.requires_grad:
        surrogate = surrogate + (head * leaf_head.grad).sum()
    return total + surrogate - surrogate.detach()


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    arguments.add_argument("--work", type=Path, required=True)
    arguments.add_argument("--stage", choices=("text", "distil"), required=True)
    arguments.add_argument("--target", type=Path, default=Path(__file__).parent / "target")
    arguments.add_argument("--minutes", type=float, default=25)
    arguments.add_argument("--per-domain", type=int, default=1, help="windows of each domain in a batch")
    options = arguments.parse_args()

    torch.manual_seed(training.SEED)
    target = checkpoint.load(options.target).to(training.device())
    draft = Llama(DRAFT).to(training.device())
    head, teacher_head = draft.model.embed_tokens.weight, target.model.embed_tokens.weight
    trunk = torch.compile(draft.model, dynamic=False)
    teacher_trunk = torch.compile(target.model, dynamic=False)

    def text_loss(batch, progress):
        hidden = trunk(batch[:, :-1]).reshape(-1, DRAFT.hidden_size)
        return sampled_loss(hidden, batch[:, 1:].reshape(-1), head)

    def distil_loss(batch, progress):
        ids, labels = batch[:, :-1], batch[:, 1:]
        with torch.no_grad():
            teacher_hidden = teacher_trunk(ids).reshape(-1, target.config.hidden_size)
        hidden = trunk(ids).reshape(-1, DRAFT.hidden_size)
        share = acceptance_share(progress)
        if progress >= FULL_FROM:
            return chunked(hidden, teacher_hidden, head, teacher_head, 0.0, share)
        rows, weight = candidates(labels, DRAFT.vocab_size)
        return chunked(hidden, teacher_hidden, head[rows], teacher_head[rows], weight, share)

    if options.stage == "text":
        name, loss_of = "draft-text", text_loss
        with torch.no_grad():
            head.copy_(low_rank(teacher_head, DRAFT.hidden_size))
    else:
        name, loss_of = "draft", distil_loss
        draft.load_state_dict(torch.load(options.work / "draft-text.pt", map_location=training.device())["model"])
    optimiser = training.Optimiser(draft, muon_rate=0.015, adam_rate=0.002, decay=0.0)
    windows = training.Windows(options.work / "tokens" / "train", CONTEXT, options.per_domain)
    training.run(name, options.work, options.minutes, draft, optimiser,
                 lambda step, progress: windows.batch(step), loss_of)


if __name__ == "__main__":
    main()
