# SPDX-License-Identifier: Apache-2.0
"""What the drafters that learn from the target's law share: recorded windows, and losses over few rows of the
head.

A record is what the target makes of a batch of windows: hidden states, and the tokens whose probability is
largest anywhere in a piece of PIECE positions. It is made when it is read for the first time, and kept in
DIR/records: the target reads a text once, however many drafters learn from it, however often.
"""
import argparse
import math
import os
from pathlib import Path
from typing import NamedTuple

import torch
import torch.nn.functional as F

import checkpoint
import training
from early_exit.model import ExitConfig
from llama.generate import LENGTH
from llama.model import rope_tables
from shipped import MODELS

CONTEXT = 1024
PARTS = 4         # of a record, one to a step: many small steps learn more from the same text than few large ones
PIECE = 256       # positions that share their rows of the head
LIKELY = 1152     # rows that are recorded of a piece: tokens of the largest probability
EVERY = 2         # positions whose tokens are recorded
ROWS = 1536       # rows that a loss takes: those, and random others that stand for the rest
ROWS_AT_ONCE = 64
GREEDY = 0.1      # weight of the loss at temperature 0
REFINE = 0.4      # factor of the rates for a drafter that is trained on


def arguments(description, minutes):
    """The flags that every recipe has."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--target", type=Path, default=MODELS / "target")
    parser.add_argument("--name", help="of the checkpoint")
    parser.add_argument("--refine", type=Path, metavar="FILE",
                        help="a finished checkpoint to train on: lower rates, and acceptance from the first step")
    parser.add_argument("--text-only", action="store_true", help="no generated text")
    parser.add_argument("--distinct", type=int, default=250, help="batches of text before they come again")
    parser.add_argument("--minutes", type=float, default=minutes)
    parser.add_argument("--steps", type=int, help="a budget of steps in place of one of time, for comparisons")
    return parser


def begin(parser, name=None):
    """(options, target, its head, device) of a recipe whose checkpoint has that name, or else that of its model."""
    options = parser.parse_args()
    options.name = options.name or name or options.model
    torch.manual_seed(training.SEED)
    target = checkpoint.load(options.target, options.work / "tokenizer.model").to(training.device())
    return options, target, target.model.embed_tokens.weight, training.device()


def acceptance_share(progress):
    """Weight of the acceptance loss: the divergence first, which has a gradient everywhere."""
    return min(1.0, max(0.0, (progress - 0.4) / 0.3))


def distil(options, target, model, loss_of, trained=None):
    """Trains a drafter, which may be `trained` already; loss_of(record, progress, share)."""
    if options.refine:
        model.load_state_dict(torch.load(options.refine, map_location=training.device())["model"])
    trained = bool(options.refine) if trained is None else trained
    rate = REFINE if trained else 1.0
    optimiser = training.Optimiser(model, muon_rate=0.015 * rate, adam_rate=0.002 * rate, decay=0.0)
    records = Records(options.work, target, options.distinct, not options.text_only)
    training.run(options.name, options.work, options.minutes, model, optimiser,
                 lambda step, progress: records.batch(step),
                 lambda record, progress: loss_of(record, progress,
                                                  1.0 if trained else acceptance_share(progress)),
                 options.steps)


class Record(NamedTuple):
    ids: torch.Tensor     # [windows, length + 1] the last is a label only
    last: torch.Tensor    # [windows, length, hidden] after the target's last norm
    early: torch.Tensor   # [windows, length, hidden] after the layer of an early exit, without a norm
    likely: torch.Tensor  # [pieces, LIKELY] tokens

    def windows(self, length):
        """The same record as shorter windows; each has its last label from the one after it."""
        ids = torch.stack([row[i:i + length + 1] for row in self.ids for i in range(0, len(row) - 1, length)])
        return Record(ids, *(x.reshape(-1, length, x.shape[-1]) for x in (self.last, self.early)), self.likely)


def residual_after(trunk, record, layers):
    """[windows, length, hidden] of a record after so many layers of the target, no fewer than it was made after."""
    x = record.early
    cos, sin = rope_tables(trunk.config, x.shape[1], x.device)
    for layer in trunk.layers[ExitConfig.exit_layer:layers]:
        x = layer(x, cos, sin)
    return x


@torch.compile(dynamic=False)
def log_peaks(logits):
    """[vocabulary] the largest log-probability of each token."""
    return logits.log_softmax(-1).amax(0)


class Records:
    """Batches of text and, every third one, of what the target generated (see llama/generate.py); after
    `distinct` batches of each kind they come again."""

    def __init__(self, work, target, distinct=250, generated=True):
        self.folder, self.target, self.distinct, self.loaded = work / "records", target.model, distinct, (None, None)
        self.folder.mkdir(exist_ok=True)
        self.text = training.Windows(work / "tokens" / "train", CONTEXT, 1)
        self.generated = None
        if generated:
            self.generated = training.Windows(work / "tokens" / "generated", LENGTH, CONTEXT // LENGTH, aligned=True)

    def batch(self, step):
        step, part = divmod(step, PARTS)
        kind, windows, number = "text", self.text, step
        if self.generated:
            number = step - step // 3 - (step % 3 == 2)
            if step % 3 == 2:
                kind, windows, number = "generated", self.generated, step // 3
        number %= self.distinct if kind == "text" else min(self.distinct, windows.steps())
        path = self.folder / f"{kind}-{number}.pt"
        if not path.exists():
            torch.save(self.made(windows.batch(number)), f"{path}.new")
            os.replace(f"{path}.new", path)
        if path != self.loaded[0]:
            self.loaded = path, torch.load(path, map_location=training.device(), weights_only=True)
        parts = {name: value.chunk(PARTS)[part] for name, value in self.loaded[1].items()}
        return Record(parts["ids"].long(), parts["last"].float(), parts["early"].float(), parts["likely"].long())

    @torch.no_grad()
    def made(self, ids):
        states = {}
        hook = self.target.layers[ExitConfig.exit_layer - 1].register_forward_hook(lambda _, __, out: states.update(early=out))
        last = self.target(ids[:, :-1])
        hook.remove()
        head = self.target.embed_tokens.weight
        likely = torch.empty(ids[:, 1:].numel() // PIECE, LIKELY, dtype=torch.int32)
        for i, piece in enumerate(last.reshape(-1, PIECE, last.shape[-1])):
            peaks = [log_peaks(F.linear(rows, head)) for rows in piece[::EVERY].split(ROWS_AT_ONCE)]
            likely[i] = torch.stack(peaks).amax(0).topk(LIKELY).indices
        return {"ids": ids.int().cpu(), "last": last.half().cpu(), "early": states["early"].half().cpu(),
                "likely": likely}


def candidates(likely, vocabulary):
    """Rows of the head that take part, and the log-weight of each: one, or the tokens it stands for."""
    others = torch.ones(vocabulary, dtype=torch.bool, device=likely.device)
    others[likely] = False
    others = others.nonzero()[:, 0]
    drawn = others[torch.randint(len(others), (ROWS - len(likely),), device=likely.device)]
    weight = torch.zeros(ROWS, device=likely.device)
    weight[len(likely):] = math.log(len(others) / len(drawn))
    return torch.cat((likely, drawn)), weight


@torch.compile(dynamic=False)
def taught(logits, weight):
    return (logits + weight).softmax(-1)


@torch.compile(dynamic=False)
def compared(p, logits, weight, share):
    """Per row sum min(p, q), and the gradient of logits for
    share (1 - sum min(p, q)) + (1 - share) KL(p || q) - GREEDY log q(argmax p)."""
    q = (logits + weight).softmax(-1)
    low = torch.where(q < p, q, 0.0)
    accepted = torch.minimum(p, q).sum(-1)
    best = (p == p.amax(-1, keepdim=True)).float()
    gradient = share * (q * low.sum(-1, keepdim=True) - low) + (1 - share) * (q - p) + GREEDY * (q - best)
    return accepted, gradient


class Lesson:
    """The target's laws of a record over the candidates of its pieces, for any number of drafters' states."""

    def __init__(self, record, head):
        self.pieces = []
        for states, likely in zip(record.last.reshape(-1, PIECE, record.last.shape[-1]), record.likely):
            rows, weight = candidates(likely, len(head))
            picked = head[rows]
            self.pieces.append((rows, picked, weight, taught(F.linear(states, picked), weight)))

    def loss(self, states, share, ahead=0, worth=None, head=None, every=slice(None)):
        """The mean over the positions of 1 - sum min(p, q) for q from states [windows, length, hidden]; its
        gradient is that of the blend of `compared`. Position t is held against the law of t + ahead of its
        piece, those without one do not count; `worth` [windows, length] weighs them. `head` is the drafter's
        own, if it has one. Of a piece the states are those of the positions `every`. Also the sums themselves,
        [windows, length]."""
        place = torch.arange(PIECE, device=states.device)[every]
        last = place >= PIECE - ahead
        flat = states.reshape(-1, len(place), states.shape[-1])
        gradients = torch.empty_like(flat)
        of_head = None if head is None else torch.zeros_like(head)
        sums = torch.zeros(flat.shape[:2], device=flat.device)
        worth = torch.ones_like(sums) if worth is None else worth.reshape(sums.shape)
        count = sums.shape[0] * (len(place) - int(last.sum()))
        with torch.no_grad():
            for i, (rows, picked, weight, law) in enumerate(self.pieces):
                mine = picked if head is None else head[rows]
                law = (law if ahead == 0 else law.roll(-ahead, 0))[every]
                sums[i], gradient = compared(law, F.linear(flat[i], mine), weight, torch.tensor(share))
                gradient *= worth[i, :, None] / count
                gradient[last] = 0
                sums[i, last] = 0
                torch.mm(gradient, mine, out=gradients[i])
                if of_head is not None:
                    of_head.index_add_(0, rows, gradient.T @ flat[i])
            value = ((worth * (1 - sums))[:, ~last]).sum() / count
        surrogate = (flat * gradients).sum()
        if of_head is not None:
            surrogate = surrogate + (head * of_head).sum()
        return value + surrogate - surrogate.detach(), sums.view(states.shape[:2])
