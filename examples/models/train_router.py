"""Trains the router of a clustered selector: which clusters of the vocabulary the target likes next.

    python train_router.py --work DIR --layout FILE --features target --minutes N
    python train_router.py --work DIR --layout FILE --features draft --minutes N

Two layers on [embedding of the token; hidden state at the token before it], of the drafter that it is for:
an EAGLE head's are the target's (`target`), a separate draft model's its own (`draft`). The label of a
cluster is what the target's law gives to all of its tokens; the loss is the cross-entropy (`mass`), or one
for each cluster of whether it holds one of the target's favourites (`top`). Zhang et al. 2025,
arXiv:2510.13847, who name neither.

Writes safetensors: "first" [width, inputs], "first_bias", "second" [clusters, width], "second_bias".
"""
import argparse
from pathlib import Path

import torch
import torch.nn.functional as F
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from torch import nn

import checkpoint
import training
from train_draft import CONTEXT
from train_eagle import shifted

FAVOURITES = 8   # tokens whose clusters are labels of `top`
CHUNK = 1024     # rows of laws held at once


class Router(nn.Module):
    def __init__(self, inputs, width, clusters):
        super().__init__()
        self.first, self.second = nn.Linear(inputs, width), nn.Linear(width, clusters)

    def forward(self, x):
        return self.second(F.relu(self.first(x)))


def cluster_of_token(layout, vocabulary):
    """[vocabulary] the cluster of each token; those of the core, which is always chosen, have number M."""
    rows, begin = layout["row_token"].long(), layout["cluster_begin"].long()
    of_row = torch.bucketize(torch.arange(len(rows)), begin, right=True) - 1
    of_row[of_row < 0] = len(begin) - 1
    out = torch.full((vocabulary,), len(begin) - 1)
    out[rows] = of_row
    return out, len(begin) - 1


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    arguments.add_argument("--work", type=Path, required=True)
    arguments.add_argument("--layout", type=Path, required=True)
    arguments.add_argument("--out", type=Path, required=True)
    arguments.add_argument("--models", type=Path, default=Path(__file__).parent)
    arguments.add_argument("--features", choices=("target", "draft"), default="target")
    arguments.add_argument("--labels", choices=("mass", "top"), default="mass")
    arguments.add_argument("--width", type=int, default=128)
    arguments.add_argument("--leave-out", default="", help="a domain that is not trained on")
    arguments.add_argument("--minutes", type=float, default=5)
    options = arguments.parse_args()

    torch.manual_seed(training.SEED)
    target = checkpoint.load(options.models / "target").to(training.device()).requires_grad_(False)
    reader = target if options.features == "target" else \
        checkpoint.load(options.models / "draft").to(training.device()).requires_grad_(False)
    cluster, clusters = cluster_of_token(load_file(options.layout), target.config.vocab_size)
    cluster = cluster.to(training.device())
    head = target.model.embed_tokens.weight
    router = Router(2 * reader.config.hidden_size, options.width, clusters).to(training.device())

    def labels_of(hidden):
        law = F.linear(hidden, head).softmax(-1)
        if options.labels == "mass":
            mass = torch.zeros(len(law), clusters + 1, device=law.device)
            return mass.index_add_(1, cluster, law)[:, :clusters]
        best = cluster[law.topk(FAVOURITES).indices]
        return torch.zeros(len(law), clusters + 1, device=law.device).scatter_(1, best, 1.0)[:, :clusters]

    def loss_of(batch, progress):
        ids = batch[:, :-1]
        with torch.no_grad():
            states = target.model(ids)
            own = states if reader is target else reader.model(ids)
            x = torch.cat((reader.model.embed_tokens(ids), shifted(own)), dim=-1)
        x, hidden = x.reshape(-1, x.shape[-1]), states.reshape(-1, states.shape[-1])
        loss = 0.0
        for rows, laws in zip(x.split(CHUNK), hidden.split(CHUNK)):
            with torch.no_grad():
                labels = labels_of(laws)
            scores = router(rows)
            if options.labels == "mass":
                part = -(labels * scores.log_softmax(-1)).sum()
            else:
                part = F.binary_cross_entropy_with_logits(scores, labels, reduction="sum") / clusters * 16
            loss = loss + part / len(x)
        return loss

    class Adam:
        def __init__(self):
            self.adam = torch.optim.AdamW(router.parameters(), lr=0.003, betas=(0.9, 0.98), weight_decay=0.0)

        def step(self, factor):
            self.adam.param_groups[0]["lr"] = 0.003 * factor
            self.adam.step()
            self.adam.zero_grad()

        def state_dict(self):
            return self.adam.state_dict()

        def load_state_dict(self, state):
            self.adam.load_state_dict(state)

    windows = training.Windows(options.work / "tokens" / "train", CONTEXT, 1, options.leave_out)
    training.run(f"router-{options.out.stem}", options.work, options.minutes, router, Adam(),
                 lambda step, progress: windows.batch(step), loss_of)
    with safe_open(options.layout, "pt") as file:
        about = {"format": "hunch.router", "head": file.metadata().get("head", "0")}
    save_file({"first": router.first.weight.detach(), "first_bias": router.first.bias.detach(),
               "second": router.second.weight.detach(), "second_bias": router.second.bias.detach()},
              options.out, about)


if __name__ == "__main__":
    main()
