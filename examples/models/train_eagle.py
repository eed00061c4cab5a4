"""Trains an EAGLE head for the target: one decoder layer that continues the target's features.

    python train_eagle.py --work DIR --minutes N

At position t it reads the token there and the target's feature at t - 1 (its last hidden state, after the
norm), and its output stands for the feature at t: the target's own head makes a law of it. (Li et al. 2024,
arXiv:2401.15077.) The embedding and the head stay the target's and are not trained.

When it drafts more than one token it reads its own outputs instead of features. So every batch is read
twice, the second time with the outputs of the first in the place of the features (as in EAGLE-3's training,
arXiv:2503.01840, with two steps). The loss is that of the draft model, see train_draft.py, over both, and
the distance of the first outputs from the features.
"""
import argparse
from pathlib import Path

import torch
import torch.nn.functional as F

import checkpoint
import training
from drafted import shifted
from model import EAGLE, Eagle
from train_draft import CONTEXT, FULL_FROM, acceptance_share, candidates, chunked

SECOND = 0.7    # weight of the second reading
FEATURE = 0.1   # weight of the distance from the features


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    arguments.add_argument("--work", type=Path, required=True)
    arguments.add_argument("--target", type=Path, default=Path(__file__).parent / "target")
    arguments.add_argument("--minutes", type=float, default=40)
    arguments.add_argument("--per-domain", type=int, default=1, help="windows of each domain in a batch")
    options = arguments.parse_args()

    torch.manual_seed(training.SEED)
    target = checkpoint.load(options.target).to(training.device()).requires_grad_(False)
    eagle = Eagle(EAGLE).to(training.device())
    head = target.model.embed_tokens.weight
    width = target.config.hidden_size
    teacher = torch.compile(target.model, dynamic=False)
    student = torch.compile(eagle, dynamic=False)

    def loss_of(batch, progress):
        ids, labels = batch[:, :-1], batch[:, 1:]
        with torch.no_grad():
            features = teacher(ids)
            embedded = target.model.embed_tokens(ids)
        first = student(embedded, shifted(features))
        second = student(embedded, shifted(first))
        rows, weight = slice(None), 0.0
        if progress < FULL_FROM:
            rows, weight = candidates(labels, target.config.vocab_size)
        share = acceptance_share(progress)
        law = features.reshape(-1, width)
        loss = FEATURE * F.smooth_l1_loss(first, features)
        for output, factor in ((first, 1.0), (second, SECOND)):
            loss = loss + factor * chunked(output.reshape(-1, width), law, head[rows], head[rows], weight, share)
        return loss

    optimiser = training.Optimiser(eagle, muon_rate=0.015, adam_rate=0.002, decay=0.0)
    windows = training.Windows(options.work / "tokens" / "train", CONTEXT, options.per_domain)
    training.run("eagle", options.work, options.minutes, eagle, optimiser,
                 lambda step, progress: windows.batch(step), loss_of)


if __name__ == "__main__":
    main()
