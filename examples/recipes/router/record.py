# SPDX-License-Identifier: Apache-2.0
"""Records what a router learns from, once, so that layouts, sizes and losses can be compared quickly.

    python -m router.record --work DIR --drafter eagle --positions N
    python -m router.record --work DIR --drafter draft --positions N

A file DIR/router-DRAFTER/<step>.pt holds a window of every domain, or eight short ones of each: `ids`,
`domain`, what the drafter knew of the token before at each depth of a draft (`states`, see eagle/unrolled.py, 0 at
the first of a window; those of a separate draft model are the same at each), and of both laws what lies above
FLOOR (`begin`, `token`, `p`, `q`); q is that of the first depth. A run that was interrupted continues; so does
one for more short windows. More long ones need another folder: short ones come after them.
"""
import argparse
import math
import os
from pathlib import Path

import torch
import torch.nn.functional as F

import checkpoint
import training
from eagle.unrolled import shifted, unrolled
from shipped import MODELS

CONTEXT = 1024
SHORT = 128     # drafts begin after short texts too
CHUNK = 512     # rows of laws held at once
FLOOR = 3e-4    # of the target's law: less is left out
DEPTHS = 3      # depths at which an EAGLE head's states are recorded
FIRST = 700     # the windows before it are those that the EAGLE head learned from


def read_by_eagle(target, eagle, ids):
    """The target's features, the states [batch, length, depths, hidden] and what the head reads at depth 0."""
    features = target.model(ids)
    drafted = unrolled(eagle, target.model.embed_tokens(ids), features, DEPTHS - 1)
    return features, torch.stack([shifted(x) for x in (features, *drafted)], dim=2), drafted[0]


def read_by_draft(target, draft, ids):
    own = draft.model(ids)
    return target.model(ids), shifted(own)[:, :, None], own


def record(ids, domain, target, drafter, read):
    head = target.model.embed_tokens.weight
    drafter_head = drafter.model.embed_tokens.weight if read is read_by_draft else head
    features, states, outputs = read(target, drafter, ids)
    counts, tokens, ps, qs = [], [], [], []
    for h, g in zip(features.flatten(0, 1).split(CHUNK), outputs.flatten(0, 1).split(CHUNK)):
        p, q = F.linear(h, head), F.linear(g, drafter_head)
        p_total, q_total = (x.logsumexp(-1, keepdim=True) for x in (p, q))
        row, token = (p > p_total + math.log(FLOOR)).nonzero(as_tuple=True)
        counts.append(torch.bincount(row, minlength=len(h)))
        tokens.append(token)
        ps.append((p[row, token] - p_total[row, 0]).exp())
        qs.append((q[row, token] - q_total[row, 0]).exp())
    begin = F.pad(torch.cat(counts).cumsum(0), (1, 0))
    domain = domain[:, None].expand_as(ids)
    out = {"ids": ids.flatten().int(), "domain": domain.flatten().to(torch.uint8),
           "states": states.flatten(0, 1).half(), "begin": begin.int(), "token": torch.cat(tokens).int(),
           "p": torch.cat(ps).half(), "q": torch.cat(qs).half()}
    return {name: value.cpu() for name, value in out.items()}


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    arguments.add_argument("--work", type=Path, required=True)
    arguments.add_argument("--models", type=Path, default=MODELS)
    arguments.add_argument("--drafter", choices=("eagle", "draft"), default="eagle")
    arguments.add_argument("--positions", type=int, default=630_000)
    arguments.add_argument("--short", type=int, default=640_000,
                           help=f"further positions, in windows of {SHORT}")
    options = arguments.parse_args()

    tokenizer, of_target = options.work / "tokenizer.model", options.models / "target"
    target = checkpoint.load(of_target, tokenizer).to(training.device())
    if options.drafter == "eagle":
        drafter, read = checkpoint.load_eagle(options.models / "eagle", of_target), read_by_eagle
    else:
        drafter, read = checkpoint.load(options.models / "draft", tokenizer), read_by_draft
    drafter = drafter.to(training.device())
    folder = options.work / f"router-{options.drafter}"
    folder.mkdir(exist_ok=True)
    windows = training.Windows(options.work / "tokens" / "train", CONTEXT, 1)
    per_step = CONTEXT * len(windows.streams)
    long, short = (math.ceil(n / per_step) for n in (options.positions, options.short))
    domain = torch.arange(len(windows.streams), device=training.device())
    for step in range(FIRST, FIRST + long + short):
        path = folder / f"{step}.pt"
        if not path.exists():
            length = CONTEXT if step < FIRST + long else SHORT
            ids = windows.batch(step)[:, :-1].reshape(-1, length)
            of = domain.repeat_interleave(CONTEXT // length)
            torch.save(record(ids, of, target, drafter, read), f"{path}.new")
            os.replace(f"{path}.new", path)


if __name__ == "__main__":
    with torch.inference_mode():
        main()
