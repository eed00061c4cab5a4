"""Trains a head that drafts for the masked-diffusion model: an EAGLE head (see train_eagle.py) over canvases.

    python train_canvas_head.py --work DIR --minutes N

A pass of the model on a canvas yields a state for every mask. The head reads these, and the embeddings of what has
been written in the masks' places since, and says what the model would say now: of the masks that are left, in the
first block that has some. Here a block has been read with some of its masks; 1, 2, ... DRAFTS of them are written,
those that the model is surest of first, with the model's own tokens or those of the text; what the model says of the
others then is what the head learns, by KL(p || q), the more of a mask the surer the model is: the surest is next.

Blocks go in pairs, of which the second is all masks: a draft may go beyond the end of its block. The embedding and
the language-model head stay the model's. Laws are those of the text's SHORTLIST most frequent tokens.
"""
import argparse
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F

import checkpoint
import training
from model import EAGLE, MASKED, Eagle

LENGTH = 256       # of a window
DRAFTS = 4
SHORTLIST = 8192   # tokens


def shortlist(streams):
    counts = sum(np.bincount(stream, minlength=MASKED.vocab_size) for stream in streams)
    return torch.from_numpy(counts.argsort()[::-1][:SHORTLIST].copy()).to(training.device())


def first_masks(rows, random):
    """Of [rows, groups, 2 blocks]: all of the second block, 1 .. all of the first; rather the later ones, for text is
    mostly filled from left to right."""
    size = MASKED.block_length
    groups = LENGTH // (2 * size)
    lean = torch.rand(rows, groups, 1, generator=random)
    key = torch.rand(rows, groups, size, generator=random) - 2 * lean * torch.arange(size) / size
    count = torch.randint(1, size + 1, (rows, groups, 1), generator=random)
    masked = torch.ones(rows, groups, 2 * size, dtype=torch.bool)
    masked[..., :size] = key.argsort(-1).argsort(-1) < count
    return masked.to(training.device())


class Lesson:
    """Canvases of a batch, and what the model says of them."""

    def __init__(self, model, states, tokens, clean, random):
        size, rows = MASKED.block_length, len(clean)
        self.embedding, self.head = model.model.embed_tokens, model.model.embed_tokens.weight[tokens]
        self.mask = MASKED.mask_token_id
        text = clean.view(rows, -1, 2 * size)
        self.masked = first_masks(rows, random)
        self.before = self.read(states, clean, torch.where(self.masked, self.mask, text)[:, None])[:, 0]
        sure, best = F.linear(self.before, self.head).float().log_softmax(-1).max(-1)
        # The order in which they are written: blocks from left to right, the surest first.
        second = torch.arange(2 * size, device=clean.device) // size
        rank = torch.where(self.masked, sure - 1e4 * second, -1e9).argsort(-1, descending=True).argsort(-1)
        own = torch.rand(rows, 1, 1, generator=random).to(clean.device) < 0.5
        found = torch.where(own, tokens[best], text)
        written = torch.stack([self.masked & (rank < k + 1) for k in range(DRAFTS)], 1)
        left = self.masked[:, None] & ~written
        self.canvases = torch.where(left, self.mask, torch.where(self.masked, found, text)[:, None])
        self.after = self.read(states, clean, self.canvases)
        in_first = left & (second == 0)
        self.asked = torch.where(in_first.any(-1, keepdim=True), in_first, left)
        self.asked[:, :, 0] = False  # nothing is before the text
        block = second <= second[:, None]
        self.seen = (block & self.masked[..., None, :]) | torch.eye(2 * size, dtype=torch.bool, device=clean.device)

    def read(self, states, clean, noisy):
        """[rows, readings, groups, 2 blocks, hidden]"""
        found = states(clean, noisy.flatten(2), noisy.shape[-1], MASKED.block_length)
        return found.unflatten(2, noisy.shape[2:])

    def inputs(self):
        """Of every canvas [rows * drafts * groups, 2 blocks, ...]: embeddings, states, and what is seen."""
        repeat = lambda x: x[:, None].expand(-1, DRAFTS, *(-1,) * (x.ndim - 1)).flatten(0, 2)
        return self.embedding(self.canvases.flatten(0, 2)), repeat(self.before), repeat(self.seen)[:, None]

    def loss(self, outputs):
        asked = self.asked.flatten(0, 2)
        p = F.linear(self.after.flatten(0, 2)[asked], self.head).float().log_softmax(-1)
        q = F.linear(outputs[asked], self.head).float().log_softmax(-1)
        weight = p.max(-1).values.exp() + 0.1
        return ((p.exp() * (p - q)).sum(-1) * weight).sum() / weight.sum()


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    arguments.add_argument("--work", type=Path, required=True)
    arguments.add_argument("--model", type=Path, default=Path(__file__).parent / "masked")
    arguments.add_argument("--name", default="canvas_head")
    arguments.add_argument("--minutes", type=float, default=40)
    options = arguments.parse_args()

    training.encode(options.work)
    torch.manual_seed(training.SEED)
    model = checkpoint.load_masked(options.model).to(training.device())
    head = Eagle(EAGLE).to(training.device())
    optimiser = training.Optimiser(head, muon_rate=0.004, adam_rate=0.0015, decay=0.0)
    states, run = torch.compile(model.aligned, dynamic=False), torch.compile(head, dynamic=False)
    windows = training.Windows(options.work / "tokens" / "train", LENGTH, 1)
    tokens = shortlist(windows.streams)

    def batch_of(step, progress):
        return windows.batch(step), step

    def lesson_of(batch):
        random = torch.Generator().manual_seed(training.SEED + batch[1])
        with torch.no_grad():
            return Lesson(model, states, tokens, batch[0][:, :-1], random)

    def loss_of(batch, progress):
        with torch.autocast(training.device().type, torch.bfloat16):
            lesson = lesson_of(batch)
            return lesson.loss(run(*lesson.inputs()))

    head.take(lesson_of(batch_of(0, 0.0)).before)

    training.run(options.name, options.work, options.minutes, head, optimiser, batch_of, loss_of)


if __name__ == "__main__":
    main()
