# SPDX-License-Identifier: Apache-2.0
"""Trains the router of a clustered selector: which clusters of the vocabulary are worth their rows.

    python -m router.record --work DIR --drafter eagle
    python -m router.train --work DIR --drafter eagle --layout FILE --out FILE --minutes N

Two layers on the state that the draft head is about to read, or with `--reads before` on [embedding of the
token; hidden state at the token before it], which is known before the drafter's pass: an EAGLE head's states
are the target's at the first token of a draft and its own after it, a separate draft model's always its own.
It learns from recorded positions of the training text, see router/record.py; one that reads states, at every
sixth from the target's, for drafters that are nearly it.

The label of a cluster is the part of it that is accepted, the sum of min(p, q) over its tokens (`overlap`),
what the target's law p gives to them (`mass`), or whether any of the target's TOP most probable tokens is
among them (`top`). The core is always chosen, and no label. The loss is the cross-entropy of a law over the
clusters (`law`), or one of each cluster for itself (`each`), as of a classifier with many labels. Zhang et
al. 2025, arXiv:2510.13847, who read `before` and speak of meta-classifiers, but name neither; labels, losses,
inputs and sizes were measured, see README.md.

Inputs are brought to unit size for training; the factors are part of the weights that are saved: "first"
[width, inputs], "first_bias", "second" [clusters, width], "second_bias", safetensors.
"""
import argparse
from pathlib import Path

import torch
import torch.nn.functional as F
from safetensors.torch import save_file
from torch import nn

import checkpoint
import fingerprints
import training
from shipped import MODELS

BATCH = 1024
RATE = 0.004
TOP = 10          # tokens that a classifier is to find


class Router(nn.Module):
    def __init__(self, inputs, width, clusters):
        super().__init__()
        self.first, self.second = nn.Linear(inputs, width), nn.Linear(width, clusters)

    def forward(self, x):
        return self.second(F.relu(self.first(x)))


class Recording:
    """Recorded positions, but those of a domain that is left out."""

    def __init__(self, work, drafter, leave_out=""):
        domains = [p.stem for p in sorted((work / "tokens" / "train").glob("*.int32"))]
        files = sorted((work / f"router-{drafter}").glob("*.pt"), key=lambda p: int(p.stem))
        parts = [torch.load(path, weights_only=True) for path in files]
        for name in ("ids", "states", "token", "p", "q"):
            setattr(self, name, torch.cat([part[name] for part in parts]))
        counts = torch.cat([part["begin"].diff() for part in parts]).long()
        self.begin = F.pad(counts.cumsum(0), (1, 0))
        domain = torch.cat([part["domain"] for part in parts])
        left_out = domains.index(leave_out) if leave_out else -1
        before_window = F.pad((self.states[1:, 0] == 0).all(-1), (0, 1), value=True)
        self.rows = ((domain != left_out) & ~before_window).nonzero()[:, 0]
        self.order = None

    def batch(self, step):
        """Numbers of positions, a function of the step alone."""
        epoch, index = divmod(step, len(self.rows) // BATCH)
        if self.order is None or self.order[0] != epoch:
            random = torch.Generator().manual_seed(training.SEED + epoch)
            self.order = epoch, self.rows[torch.randperm(len(self.rows), generator=random)]
        return self.order[1][index * BATCH:(index + 1) * BATCH]

    def before(self, rows, embedding):
        """Contexts of a random depth: half of them 0, the first of a draft. And no row of the target's."""
        depths = self.states.shape[1]
        depth = torch.randint(max(1, 2 * depths - 2), (len(rows),))
        depth[depth >= depths] = 0
        contexts = torch.cat((embedding[self.ids[rows].long()], self.states[rows, depth].float()), dim=-1)
        return contexts, torch.zeros(len(rows), dtype=torch.bool)

    def states_read(self, rows, embedding):
        """States of a random depth, half of them 0, and which of them are the target's. A draft model has its
        own states only."""
        if self.states.shape[1] == 1:
            return self.states[rows + 1, 0].float(), torch.zeros(len(rows), dtype=torch.bool)
        source = torch.tensor((0, 1, 1, 1, 2, 2))[torch.randint(6, (len(rows),))]
        return self.states[rows + 1, source].float(), source == 0

    def labels(self, rows, by_target, cluster, clusters, kind):
        """[rows, clusters] where the target drafts for itself, what it gives to them is what is accepted."""
        begin, count = self.begin[rows], self.begin[rows + 1] - self.begin[rows]
        row = torch.arange(len(rows)).repeat_interleave(count)
        at = torch.arange(len(row)) + (begin - count.cumsum(0) + count).repeat_interleave(count)
        value = self.p[at]
        if kind == "top":
            # Among the recorded tokens of a position, which are those above a floor.
            order = torch.argsort(value.float(), descending=True)
            order = order[torch.argsort(row[order], stable=True)]
            rank = torch.empty_like(row)
            rank[order] = torch.arange(len(row)) - (count.cumsum(0) - count).repeat_interleave(count)
            value = (rank < TOP).to(value.dtype)
        if kind == "overlap":
            value = torch.where(by_target[row], value, torch.minimum(value, self.q[at]))
        sums = torch.zeros(len(rows) * (clusters + 1))
        sums.index_add_(0, row * (clusters + 1) + cluster[self.token[at].long()], value.float())
        sums = sums.view(len(rows), clusters + 1)[:, :clusters]
        return sums.clamp(max=1) if kind == "top" else sums


class Adam:
    def __init__(self, model):
        self.adam = torch.optim.AdamW(model.parameters(), lr=RATE, betas=(0.9, 0.98), weight_decay=0.1)

    def step(self, factor):
        self.adam.param_groups[0]["lr"] = RATE * factor
        self.adam.step()
        self.adam.zero_grad()

    def state_dict(self):
        return self.adam.state_dict()

    def load_state_dict(self, state):
        self.adam.load_state_dict(state)


def cluster_of_token(layout, vocabulary):
    """[vocabulary] the cluster of each token; those of the core, which is always chosen, have number M."""
    rows, begin = layout["row_token"].long(), layout["cluster_begin"].long()
    of_row = torch.bucketize(torch.arange(len(rows)), begin, right=True) - 1
    of_row[of_row < 0] = len(begin) - 1
    out = torch.full((vocabulary,), len(begin) - 1)
    out[rows] = of_row
    return out, len(begin) - 1


def size(x):
    return x.float().square().mean().sqrt()


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    arguments.add_argument("--work", type=Path, required=True)
    arguments.add_argument("--layout", type=Path, required=True)
    arguments.add_argument("--out", type=Path, required=True)
    arguments.add_argument("--models", type=Path, default=MODELS)
    arguments.add_argument("--drafter", choices=("eagle", "draft"), default="eagle")
    arguments.add_argument("--labels", choices=("overlap", "mass", "top"), default="overlap")
    arguments.add_argument("--loss", choices=("law", "each"), default="law")
    arguments.add_argument("--reads", choices=("state", "before"), default="state")
    arguments.add_argument("--width", type=int, default=256)
    arguments.add_argument("--leave-out", default="", help="a domain that is not trained on")
    arguments.add_argument("--minutes", type=float, default=5)
    options = arguments.parse_args()

    torch.manual_seed(training.SEED)
    of_reader = options.models / ("target" if options.drafter == "eagle" else "draft")
    reader, made_for = checkpoint.load(of_reader, options.work / "tokenizer.model"), checkpoint.made_for(of_reader)
    embedding, hidden = reader.model.embed_tokens.weight, reader.config.hidden_size
    recording = Recording(options.work, options.drafter, options.leave_out)
    layout = checkpoint.load_made_for(options.layout, made_for, of_reader)
    cluster, clusters = cluster_of_token(layout, reader.config.vocab_size)
    contexts = recording.states_read if options.reads == "state" else recording.before
    some = contexts(recording.rows[:4096], embedding)[0]
    factors = torch.cat([1 / size(part).expand(hidden) for part in some.split(hidden, dim=-1)])
    router = Router(len(factors), options.width, clusters).to(training.device())

    def loss_of(rows, progress):
        x, by_target = contexts(rows, embedding)
        labels = recording.labels(rows, by_target, cluster, clusters, options.labels)
        x, labels = (x * factors).to(training.device()), labels.to(training.device())
        scores = router(x)
        if options.loss == "law":
            return -(labels * scores.log_softmax(-1)).sum() / len(x)
        return F.binary_cross_entropy_with_logits(scores, labels.clamp(max=1), reduction="sum") / len(x)

    name = "-".join(("router", options.drafter, options.reads, options.labels, options.loss, str(options.width),
                     options.layout.parent.name, options.layout.stem, options.leave_out or "all"))
    training.run(name, options.work, options.minutes, router, Adam(router),
                 lambda step, progress: recording.batch(step), loss_of)
    about = {"format": "hunch.router", **made_for, "layout": fingerprints.of_layout(layout, reader.config.vocab_size)}
    save_file({"first": (router.first.weight.detach().cpu() * factors).contiguous(),
               "first_bias": router.first.bias.detach().cpu(), "second": router.second.weight.detach().cpu(),
               "second_bias": router.second.bias.detach().cpu()}, options.out, about)


if __name__ == "__main__":
    main()
