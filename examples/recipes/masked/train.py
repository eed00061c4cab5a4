# SPDX-License-Identifier: Apache-2.0
"""Trains the masked-diffusion model from the target.

    python -m masked.train --work DIR --minutes N

A window is read several times at once, clean and with masks (Arriola et al. 2025, arXiv:2503.09573): a block of the
readings with masks sees the blocks before it in the clean one, and itself. In each block a number of masks, uniform in
1 ... length, falls on random places. The loss of a mask weighs (length of the block / masks of the block), so that the
mean is a bound on the nats per token, see masked/evaluate.py. In every fourth step blocks go in pairs, whose second is
all masks and sees the first as it is: what a draft beyond the end of a block reads.

Where windows, and with them blocks, begin in the text changes from epoch to epoch. For most of the time budget windows
are short and the normaliser is estimated, as when the target was trained. (Short windows alone would not do: positions
after their end are forgotten, a model that was trained on 256 only had 3.6 nats there and 4.4 after 768.)
"""
import argparse
from pathlib import Path

import torch

import checkpoint
import training
from llama.train_target import FULL_FROM, sampled_loss, full_loss
from masked.model import MASKED, Masked
from shipped import MODELS

SHORT, LONG = 256, 1024
LONG_FROM = 0.6  # share of the time budget from which windows are long
READINGS = 3     # with masks, of a short window; a long one has one
PAIRS = 4        # one step in so many


def blocks_of(length, size, device):
    return torch.arange(length, device=device) // size


def masks(rows, blocks, random):
    """Which positions of [rows, length] are masks, and what the loss of each weighs."""
    length = len(blocks)
    first = torch.searchsorted(blocks, blocks)
    size = torch.bincount(blocks)[blocks]
    # The rank of a position among those of its block, by a number of its own.
    key = torch.rand(rows, length, generator=random).to(blocks.device)
    order = (blocks + key).argsort(-1)
    rank = torch.empty_like(order).scatter_(-1, order, torch.arange(length, device=blocks.device).expand(rows, -1)) - first
    count = torch.rand(rows, int(blocks[-1]) + 1, generator=random).to(blocks.device)[:, blocks]
    count = (count * size).long() + 1
    return rank < count, size / count


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    arguments.add_argument("--work", type=Path, required=True)
    arguments.add_argument("--target", type=Path, default=MODELS / "target")
    arguments.add_argument("--name", default="masked")
    arguments.add_argument("--minutes", type=float, default=150)
    arguments.add_argument("--per-domain", type=int, default=1, help="windows of each domain in a batch")
    arguments.add_argument("--long-from", type=float, default=LONG_FROM, help="share of the time budget")
    arguments.add_argument("--rate", type=float, default=0.4, help="of those that a model from scratch has")
    options = arguments.parse_args()

    training.encode(options.work)
    torch.manual_seed(training.SEED)
    model = Masked(MASKED).to(training.device())
    model.load_state_dict(checkpoint.load(options.target, options.work / "tokenizer.model").state_dict())
    model.requires_grad_(True)
    head = model.model.embed_tokens.weight
    with torch.no_grad():
        head[MASKED.mask_token_id] = 0  # a mask says nothing but where it stands
    optimiser = training.Optimiser(model, muon_rate=0.015 * options.rate, adam_rate=0.003 * options.rate, decay=0.01)
    states = torch.compile(model.aligned, dynamic=False)
    short, long = (training.Windows(options.work / "tokens" / "train", length, options.per_domain)
                   for length in (SHORT, LONG))

    def batch_of(step, progress):
        return (short if progress < options.long_from else long).batch(step), step

    def loss_of(batch, progress):
        clean, step = batch[0][:, :-1], batch[1]
        readings = READINGS if clean.shape[1] == SHORT else 1
        random = torch.Generator().manual_seed(training.SEED + step)
        size, paired = MASKED.block_length, step % PAIRS == PAIRS - 1
        blocks = blocks_of(clean.shape[1], size, clean.device)
        masked, weight = masks(len(clean) * readings, blocks, random)
        if paired:
            second = (blocks % 2 == 1).expand_as(masked)
            masked, weight = masked | second, torch.where(second, 1.0, weight)
        masked[:, 0] = False
        masked, weight = (x.unflatten(0, (-1, readings)) for x in (masked, weight))
        text = clean[:, None].expand_as(masked)
        noisy = torch.where(masked, MASKED.mask_token_id, text)
        with torch.autocast(clean.device.type, torch.bfloat16):
            found = states(clean, noisy, 2 * size if paired else size, size)
        loss = sampled_loss if progress < FULL_FROM else full_loss
        return loss(found[masked].float(), text[masked], head, weight[masked])

    training.run(options.name, options.work, options.minutes, model, optimiser, batch_of, loss_of)


if __name__ == "__main__":
    main()
