# SPDX-License-Identifier: Apache-2.0
"""Measures static lists, a router and the best choice of its clusters at equal rows, along the held-out text.

    python -m router.evaluate [--depths N] [--windows N] [--context N] [--layout FILE --router FILE]
                              [--frequency FILE --domain NAME] [--json FILE]

The drafter is the EAGLE head. At every position of the windows, and for each depth of a draft that arrives
there: the sum of min(p, q) at temperature 1 and the equality of the argmaxes at temperature 0, for q over a
shortlist, as shares of what q over the whole vocabulary reaches. `length` is the same for the number of
accepted tokens of a draft of N, the sum over the depths of the products along the text. Clusters are taken
by their probability per row until the next one does not fit, as `budget::per_row{budget::rows{...}}` does; the
oracle ranks them by what of them would be accepted. The static list has the byte pieces, which the ranking
puts in front, after all others: that is the better one.
"""
import argparse
import json
from pathlib import Path

import sentencepiece
import torch
import torch.nn.functional as F

import checkpoint
import fingerprints
from eagle.unrolled import shifted, unrolled
from llama.evaluate import encode
from router.train import cluster_of_token
from shipped import HELDOUT, MODELS, TOKENIZER
from text.frequency import BYTE_PIECES

CHUNK = 256
FIRST = 16                   # positions of a window that are passed over
SHARES = (0.05, 0.1, 0.2)    # of the rows


class Clusters:
    """Chooses clusters of a layout, and measures what a draft law over the choice is worth."""

    def __init__(self, layout, vocabulary):
        self.cluster, self.count = cluster_of_token(layout, vocabulary)
        self.sizes = torch.bincount(self.cluster, minlength=self.count + 1).float()
        self.vocabulary = vocabulary

    def masses(self, law):
        return torch.zeros(len(law), self.count + 1).index_add_(1, self.cluster, law)[:, :self.count]

    def chosen(self, worth, rows):
        """[size, vocabulary] The core, and the clusters of the largest worth per row that fit."""
        order = (worth / self.sizes[:self.count]).argsort(-1, descending=True)
        fits = self.sizes[order].cumsum(-1) + self.sizes[self.count] <= rows
        chosen = torch.zeros(len(worth), self.count + 1).scatter_(1, order, fits.float())
        chosen[:, self.count] = 1
        return chosen[:, self.cluster]


def measure(p, q, chosen):
    """[2, size] sum min(p, q) and equality of the argmaxes, q being restricted to what is chosen."""
    q = q * chosen
    return torch.stack((torch.minimum(p, q / q.sum(-1, keepdim=True)).sum(-1),
                        (p.argmax(-1) == q.argmax(-1)).float()))


def accepted(values):
    """[..., length] Accepted tokens of a draft that begins at a position, of values [depths, ..., length]."""
    product, total = torch.ones_like(values[0]), torch.zeros_like(values[0])
    for depth, value in enumerate(values):
        product = product * value.roll(-depth, -1)  # the last positions are dropped below
        total += product
    return total[..., :values.shape[-1] - len(values) + 1]


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    arguments.add_argument("--layout", type=Path, default=MODELS / "layout.safetensors")
    arguments.add_argument("--router", type=Path, default=MODELS / "router.safetensors")
    arguments.add_argument("--frequency", type=Path, default=MODELS / "frequency.safetensors")
    arguments.add_argument("--depths", type=int, default=1)
    arguments.add_argument("--windows", type=int, default=6, help="of each domain")
    arguments.add_argument("--context", type=int, default=1024, help="tokens of a window")
    arguments.add_argument("--domain", default="", help="the only one that is measured")
    arguments.add_argument("--json", type=Path, help="the mean of the lengths: temperature, share of the rows, kept by whom")
    options = arguments.parse_args()

    of_target = MODELS / "target"
    target, eagle = checkpoint.load(of_target, TOKENIZER), checkpoint.load_eagle(MODELS / "eagle", of_target)
    head = target.model.embed_tokens.weight
    vocabulary = len(head)
    tokenizer = sentencepiece.SentencePieceProcessor(model_file=str(TOKENIZER))
    made_for = checkpoint.made_for(of_target)
    layout = checkpoint.load_made_for(options.layout, made_for, of_target)
    of_both = {**made_for, "layout": fingerprints.of_layout(layout, vocabulary)}
    router = checkpoint.load_made_for(options.router, of_both, f"{of_target} and {options.layout}")
    clusters = Clusters(layout, vocabulary)
    reads_states = router["first"].shape[1] == target.config.hidden_size  # else what is known before, see router/train.py
    ranking = checkpoint.load_made_for(options.frequency, made_for, of_target)["row_token"].long()
    byte_piece = (ranking >= BYTE_PIECES.start) & (ranking < BYTE_PIECES.stop)
    ranking = torch.cat((ranking[~byte_piece], ranking[byte_piece]))
    place = torch.empty_like(ranking).scatter_(0, ranking, torch.arange(vocabulary))

    def shortlists(p, q, contexts):
        """The whole vocabulary, then by each of SHARES the static list, the router's and the oracle's."""
        x = F.relu(F.linear(contexts, router["first"], router["first_bias"]))
        routed = F.linear(x, router["second"], router["second_bias"]).softmax(-1)
        best = clusters.masses(torch.minimum(p, q))
        yield torch.ones(1, vocabulary)
        for rows in (int(share * vocabulary) for share in SHARES):
            yield (place < rows)[None]
            yield clusters.chosen(routed, rows)
            yield clusters.chosen(best, rows)

    def of_domain(path):
        """[depths + 1, shares, (static, routed, oracle), (T = 1, T = 0)] shares of the whole vocabulary's, and
        those; after the depths is the length."""
        stream = torch.tensor([t for document in encode(tokenizer, path) for t in document])
        windows = stream[:len(stream) // options.context * options.context].view(-1, options.context)
        values = []
        for ids in windows[torch.linspace(0, len(windows) - 1, options.windows).long(), None]:
            embedded, features = target.model.embed_tokens(ids), target.model(ids)
            outputs = unrolled(eagle, embedded, features, options.depths)
            parts = []
            for rows in torch.arange(FIRST, options.context).split(CHUNK):
                p = F.linear(features[0, rows], head).softmax(-1)
                parts.append([])
                for before, output in zip((features, *outputs), outputs):
                    q = F.linear(output[0, rows], head).softmax(-1)
                    contexts = output[0, rows] if reads_states else torch.cat(
                        (embedded[0, rows], shifted(before)[0, rows]), dim=-1)
                    parts[-1].append(torch.stack([measure(p, q, x) for x in shortlists(p, q, contexts)]))
            values.append(torch.cat([torch.stack(part) for part in parts], dim=-1))
        values = torch.stack(values, dim=-2)  # [depths, 1 + shares * 3, 2, windows, length]
        means = torch.cat((values.mean((-1, -2)), accepted(values).mean((-1, -2))[None])).double()
        return (means[:, 1:] / means[:, :1]).unflatten(1, (len(SHARES), 3)), means[:, 0]

    print(f"{'':28}   " + "   ".join(f"{s:.0%} static routed oracle"[-20:] for s in SHARES))
    results = []
    for path in sorted(HELDOUT.glob("*.txt")):
        if options.domain in ("", path.stem):
            results.append((path.stem, *of_domain(path)))
            report(*results[-1])
    mean, whole = (torch.stack([r[i] for r in results]).mean(0) for i in (1, 2))
    report("mean", mean, whole)
    if options.json:
        lists = ("listed", "routed", "oracle")
        options.json.write_text(json.dumps({
            temperature: {f"{share:g}": dict(zip(lists, mean[-1, s, :, i].tolist())) for s, share in enumerate(SHARES)}
            for i, temperature in enumerate(("1", "0"))}, indent=1) + "\n")


def report(name, shares, whole):
    labels = [*(f"depth {depth}" for depth in range(len(shares) - 1)), "length"]
    for depth, label in enumerate(labels):
        for i, temperature in enumerate((1, 0)):
            values = "   ".join(" ".join(f"{100 * v:6.2f}" for v in row[:, i]) for row in shares[depth])
            print(f"{name:10} {label:7} T={temperature} {whole[depth, i]:.4f}   {values}", flush=True)


if __name__ == "__main__":
    with torch.inference_mode():
        main()
