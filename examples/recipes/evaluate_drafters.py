# SPDX-License-Identifier: Apache-2.0
"""Measures every drafter along a text, prints the tables and writes drafters.json and acceptance.json.

    python evaluate_drafters.py [--windows N] [--work DIR --text generated] [--draft DIR ...] [--eagle DIR]

At every position, per depth of a draft that arrives there with the text itself as its tokens: the sum of
min(p, q) at temperature 1, and the equality of the argmaxes at temperature 0. EAGLE heads read the target's
features up to where their draft began and then their own; a Medusa head and a stream read what is their depth before; for a
draft model and the early exit all depths are the same. `length` is the number of tokens that a chain of DEPTHS
gains, the target's own among them: 1 + the sum over the depths of the products along the text.

The text is the held-out one, or with --text generated what the target makes of prompts from the validation
text (see llama/generate.py): there a token is accepted with the probability that it has in generation, and the
length at temperature 1 is that of chains.

acceptance.json, beside the Medusa heads, has for every head and rank the probability that the token of that
rank is the target's choice, for finding a tree.
"""
import argparse
import itertools
import json
from pathlib import Path

import numpy as np
import sentencepiece
import torch
import torch.nn.functional as F

import checkpoint
from eagle.unrolled import shifted, unrolled
from llama.evaluate import encode
from llama.generate import LENGTH, PROMPT
from llama.model import residual
from router.evaluate import accepted
from shipped import HELDOUT, MODELS, TOKENIZER

CONTEXT, CHUNK = 1024, 256
FIRST = 16      # positions of a window that are passed over
DEPTHS = 4
RANKS = 10


def heldout(windows):
    """(domain, [windows, CONTEXT])"""
    tokenizer = sentencepiece.SentencePieceProcessor(model_file=str(TOKENIZER))
    for path in sorted(HELDOUT.glob("*.txt")):
        stream = torch.tensor([t for document in encode(tokenizer, path) for t in document])
        rows = stream[:len(stream) // CONTEXT * CONTEXT].view(-1, CONTEXT)
        yield path.stem, rows[torch.linspace(0, len(rows) - 1, windows).long()]


def generated(work, windows):
    for path in sorted((work / "tokens" / "generated_validation").glob("*.int32")):
        rows = torch.from_numpy(np.fromfile(path, np.int32).astype(np.int64)).view(-1, LENGTH)
        yield path.stem, rows[:windows]


class Drafters:
    """States and heads of every drafter at every depth."""

    def __init__(self, options):
        of_target = MODELS / "target"
        self.target = checkpoint.load(of_target, TOKENIZER)
        self.head = self.target.model.embed_tokens.weight
        self.drafts = {path.name: checkpoint.load(path, TOKENIZER) for path in options.draft}
        self.eagle, self.eagle3, self.medusa, self.streams, self.exit = (
            load(folder, of_target) if folder.exists() else None
            for load, folder in ((checkpoint.load_eagle, options.eagle), (checkpoint.load_eagle3, options.eagle3),
                                 (checkpoint.load_medusa, options.medusa), (checkpoint.load_streams, options.streams),
                                 (checkpoint.load_exit, options.exit)))

    def levels(self, ids):
        """What an EAGLE-3 head reads of the target."""
        trunk = self.target.model
        return torch.cat([residual(trunk, ids, layer) for layer in self.eagle3.config.eagle_aux_hidden_state_layer_ids],
                         dim=-1)

    def states(self, ids, features):
        """name -> (head, or one of each depth, [depths] of [length, hidden]); one depth stands for all where they are
        the same."""
        yield from ((name, (draft.model.embed_tokens.weight, [draft.model(ids)[0]]))
                    for name, draft in self.drafts.items())
        if self.eagle:
            outputs = unrolled(self.eagle, self.target.model.embed_tokens(ids), features, DEPTHS)
            yield "eagle", (self.head, [x[0] for x in outputs])
        if self.eagle3:
            embedded = self.target.model.embed_tokens(ids)
            outputs = unrolled(self.eagle3, embedded, self.levels(ids), DEPTHS)
            yield "eagle3", (self.head, [x[0] for x in outputs])
        if self.medusa:
            heads = self.medusa(features).unbind(-2)
            own = [self.medusa.own_head(j) for j in range(len(heads))]
            yield "medusa", ([self.head if head is None else head for head in own],
                             [shifted(x, depth)[0] for depth, x in enumerate(heads, 1)])
        if self.streams:
            trunk = self.target.model
            below = residual(trunk, ids, self.streams.first_layer(trunk))
            of_streams = self.streams(trunk, below, torch.arange(ids.shape[1]))
            of_streams = self.streams.conditioned(of_streams, trunk.embed_tokens(ids.roll(-1, dims=-1))).unbind(-2)
            yield "streams", (self.head, [shifted(x, depth)[0] for depth, x in enumerate(of_streams, 1)])
        if self.exit:
            stream = residual(self.target.model, ids, self.exit.config.exit_layer)
            yield "exit", (self.head, [self.exit(stream)[0]])


def measured(drafters, ids, first):
    """name -> [depths, (overlap, agreement, acceptance of the text's token), length], and of the Medusa heads
    [heads, (T = 1, T = 0), RANKS]"""
    features = drafters.target.model(ids[None])
    states = dict(drafters.states(ids[None], features))
    values, ranks = {name: [] for name in states}, []
    for rows in torch.arange(first, len(ids) - 1).split(CHUNK):
        p = F.linear(features[0, rows], drafters.head).softmax(-1)
        best, token = p.argmax(-1), ids[rows + 1, None]
        for name, (head, depths) in states.items():
            values[name].append([])
            of_ranks = []
            for state, of_depth in zip(depths, head if isinstance(head, list) else itertools.repeat(head)):
                q = F.linear(state[rows], of_depth).softmax(-1)
                values[name][-1].append(torch.stack((
                    torch.minimum(p, q).sum(-1), (best == q.argmax(-1)).float(),
                    (q.gather(-1, token) / p.gather(-1, token)).clamp(max=1)[:, 0])))
                if name == "medusa":
                    top = q.topk(RANKS).indices
                    of_ranks.append(torch.stack((p.gather(-1, top).sum(0), (top == best[:, None]).float().sum(0))))
            if of_ranks:
                ranks.append(torch.stack(of_ranks))
    out = {name: torch.cat([torch.stack(chunk) for chunk in chunks], dim=-1) for name, chunks in values.items()}
    ranks = torch.stack(ranks).sum(0) / (len(ids) - 1 - first) if ranks else None
    return {name: x.expand(DEPTHS, -1, -1) if len(x) == 1 else x for name, x in out.items()}, ranks


def write(path, values):
    """JSON with a line for each value."""
    path.write_text("{\n" + ",\n".join(f' {json.dumps(k)}: {json.dumps(v)}' for k, v in values.items()) + "\n}\n")


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    arguments.add_argument("--windows", type=int, default=4, help="of each domain")
    arguments.add_argument("--text", choices=("heldout", "generated"), default="heldout")
    arguments.add_argument("--work", type=Path)
    arguments.add_argument("--draft", type=Path, nargs="*", default=[MODELS / "draft"])
    for name in ("eagle", "eagle3", "medusa", "streams", "exit"):
        arguments.add_argument(f"--{name}", type=Path, default=MODELS / name)
    arguments.add_argument("--out", type=Path, default=MODELS)
    options = arguments.parse_args()

    drafters = Drafters(options)
    own = options.text == "generated"
    first = PROMPT if own else FIRST
    table, ranks = {}, []
    for domain, windows in generated(options.work, options.windows) if own else heldout(options.windows):
        results = [measured(drafters, ids, first) for ids in windows]
        if results[0][1] is not None:
            ranks += [r for _, r in results]
        for name in results[0][0]:
            x = torch.stack([values[name] for values, _ in results], dim=2)  # [depths, 3, windows, length]
            lengths = [1 + accepted(x[:, i]).mean().item() for i in (2 if own else 0, 1)]
            row = {"T=1": x[:, 0].mean((-1, -2)).tolist(), "T=0": x[:, 1].mean((-1, -2)).tolist(), "length": lengths}
            table.setdefault(name, {})[domain] = row
    report = {}
    for name, rows in table.items():
        rows["mean"] = {key: torch.tensor([row[key] for row in rows.values()]).mean(0).tolist()
                        for key in ("T=1", "T=0", "length")}
        for domain, row in rows.items():
            print(f"{name:12} {domain:10}" + "".join(f"  {key} " + " ".join(f"{v:.3f}" for v in values)
                                                     for key, values in row.items()), flush=True)
        report[name] = {domain: {key: [round(v, 4) for v in row[key]] for key in row} for domain, row in rows.items()}
    suffix = "_generated" if own else ""
    about = {"text": options.text, "windows": options.windows, "depths": DEPTHS}
    write(options.out / f"drafters{suffix}.json", {**about, **report})
    if ranks:
        mean = [[[round(v, 4) for v in row] for row in head] for head in torch.stack(ranks).mean(0).tolist()]
        write(options.medusa / f"acceptance{suffix}.json", {
            **about, "ranks": RANKS, "T=1": [head[0] for head in mean], "T=0": [head[1] for head in mean]})


if __name__ == "__main__":
    with torch.inference_mode():
        main()
