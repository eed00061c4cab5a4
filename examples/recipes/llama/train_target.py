# SPDX-License-Identifier: Apache-2.0
"""Trains the target from scratch.

    python -m llama.train_target --work DIR --minutes N

A head over 32,000 tokens costs more than all layers of a model this narrow. For most of the time budget
the normaliser is therefore estimated: the tokens of the batch are counted in full, a random part of the
rest stands for the rest. Given the batch the estimate of the sum is unbiased. The last part of the
budget uses the full vocabulary. Likewise most of the training is on short windows, which are cheaper and
more varied, and the last part on windows of the whole context.
"""
import argparse
import math
from pathlib import Path

import torch
import torch.nn.functional as F

import training
from llama.model import TARGET, Llama

NEGATIVES = 2048
FULL_FROM = 0.94  # share of the time budget from which the loss is over the full vocabulary
SHORT, LONG = 512, 1024
LONG_FROM = 0.75  # share of the time budget from which windows are long
CHUNK = 1024      # rows of logits held at once


def sampled_loss(hidden, labels, head, weight=None):
    """Cross-entropy with the normaliser estimated from the batch's own tokens and random others; a weighted mean."""
    known, label_rows = torch.unique(labels, return_inverse=True)
    others = torch.ones(len(head), dtype=torch.bool, device=labels.device)
    others[known] = False
    others = others.nonzero()[:, 0]
    drawn = others[torch.randperm(len(others), device=labels.device)[:NEGATIVES]]
    logits = F.linear(hidden, head[torch.cat((known, drawn))])
    correction = logits.new_zeros(logits.shape[1])
    correction[len(known):] = math.log(len(others) / len(drawn))
    losses = F.cross_entropy(logits + correction, label_rows, reduction="none")
    return losses.mean() if weight is None else (losses * weight).sum() / weight.sum()


def full_loss(hidden, labels, head, weight=None):
    """Cross-entropy over the vocabulary, a few rows at a time; gradients are taken at once, so that one
    chunk of logits is alive."""
    weight = torch.ones(len(labels), device=labels.device) if weight is None else weight
    leaf, total = hidden.detach().requires_grad_(), 0.0
    for h, y, w in zip(leaf.split(CHUNK), labels.split(CHUNK), (weight / weight.sum()).split(CHUNK)):
        part = (F.cross_entropy(F.linear(h, head), y, reduction="none") * w).sum()
        part.backward()
        total += part.detach()
    # The value is the loss; its gradient with respect to `hidden` is what the chunks collected.
    return total + (hidden * leaf.grad).sum() - (hidden * leaf.grad).sum().detach()


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    arguments.add_argument("--work", type=Path, required=True)
    arguments.add_argument("--minutes", type=float, default=75)
    arguments.add_argument("--per-domain", type=int, default=1, help="long windows of each domain in a batch")
    options = arguments.parse_args()

    training.encode(options.work)
    torch.manual_seed(training.SEED)
    model = Llama(TARGET).to(training.device())
    optimiser = training.Optimiser(model, muon_rate=0.015, adam_rate=0.003, decay=0.01)
    trunk = torch.compile(model.model, dynamic=False)

    def loss_of(batch, progress):
        hidden = trunk(batch[:, :-1]).reshape(-1, TARGET.hidden_size)
        loss = sampled_loss if progress < FULL_FROM else full_loss
        return loss(hidden, batch[:, 1:].reshape(-1), model.model.embed_tokens.weight)

    tokens = options.work / "tokens" / "train"
    short = training.Windows(tokens, SHORT, options.per_domain * LONG // SHORT)
    long = training.Windows(tokens, LONG, options.per_domain)

    def batch_of(step, progress):
        return (short if progress < LONG_FROM else long).batch(step)

    training.run("target", options.work, options.minutes, model, optimiser, batch_of, loss_of)


if __name__ == "__main__":
    main()
