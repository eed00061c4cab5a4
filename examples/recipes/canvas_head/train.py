# SPDX-License-Identifier: Apache-2.0
"""Trains a head that drafts for the masked-diffusion model.

    python -m canvas_head.train --work DIR --minutes N

A pass of the model on a canvas leaves residuals before its last layer, one for every row. The head reads these, and the
embeddings of what has been unmasked since, and says what the model would say now: of the masks that are left, in the
first block that has some. It begins as that last layer, and with the best linear guess of what the residuals of the
unmasked rows are now.

The model unmasks two blocks after every beginning of a text, all of them at once: one token a pass, of the mask that
it is surest of, the most probable token or one that is drawn. A lesson is a pass of that course, and what was unmasked
in the 1, 2, ... DRAFTS passes after it. From them the head learns what the model says then, by KL(p || q), the more of
a mask the surer the model is, which mask is unmasked next, and the residuals of the rows that are unmasked.

The embedding and the language-model head stay the model's. Laws are those of the text's SHORTLIST most frequent
tokens.
"""
import argparse
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F

import checkpoint
import training
from canvas_head.model import CANVAS_HEAD, CanvasHead
from masked.model import MASKED, seen_in_group
from shipped import MODELS

LENGTH = 256       # of a window
PASSES = 13        # over two blocks
DRAFTS = 4
LESSONS = 16       # of those that the passes allow, in a step
TEMPERATURES = (0.0, 0.5, 1.0, 1.0)
SHORTLIST = 8192   # tokens
PLACES = 0.5       # of the loss, for which mask is next
RESIDUALS = 0.3    # of the loss, for what the unmasked rows begin the last layer with
FITTED = 10        # courses that the linear guess is made from


def shortlist(streams):
    counts = sum(np.bincount(stream, minlength=MASKED.vocab_size) for stream in streams)
    return torch.from_numpy(counts.argsort()[::-1][:SHORTLIST].copy()).to(training.device())


def pairs(random):
    """[LESSONS, 2] passes: one that is read, and a later one that is learnt from. The next ones most, for drafts after
    a refused one do not count."""
    all_pairs = torch.tensor([(i, i + k) for i in range(PASSES) for k in range(1, DRAFTS + 1) if i + k < PASSES])
    share = 0.6 ** (all_pairs[:, 1] - all_pairs[:, 0])
    return all_pairs[torch.multinomial(share, LESSONS, generator=random)]


class Course:
    """The passes of the model over a batch of texts, and the lessons of it."""

    def __init__(self, known, of_readings, embedding, tokens, clean, random):
        size, device = MASKED.block_length, clean.device
        self.embedding, self.head, self.size = embedding, embedding.weight[tokens], size
        shape = (len(clean), LENGTH // (2 * size), 2 * size)
        heat = torch.tensor(TEMPERATURES)[torch.randint(len(TEMPERATURES), (len(clean),), generator=random)].to(device)
        self.heat = torch.where(heat > 0, heat, 1.0).view(-1, 1, 1)
        hot = (heat > 0).view(-1, 1, 1, 1)
        noise = -torch.empty(*shape, SHORTLIST, dtype=torch.bfloat16).exponential_(generator=random).log().to(device)
        self.text = known(clean)
        canvas = torch.full(shape, MASKED.mask_token_id, device=device)
        self.canvases, self.residuals, self.states, self.next, self.drawn = [], [], [], [], []
        for i in range(PASSES):
            noisy = canvas.flatten(1)[:, None]
            states, residuals = (x[:, 0] for x in of_readings(self.text, noisy, 2 * size, size, i // size,
                                                         CANVAS_HEAD.target_layer))
            states = states.unflatten(1, shape[1:])
            self.residuals.append(residuals)
            front = self.front(i)
            law = self.law(states[:, :, front], self.heat[..., None])
            best = (law + hot * noise[:, :, front]).argmax(-1, keepdim=True)
            sure = torch.where(canvas[:, :, front] == MASKED.mask_token_id, law.gather(-1, best)[..., 0], -torch.inf)
            place = sure.argmax(-1, keepdim=True)
            self.canvases.append(canvas)
            self.states.append(states)
            self.next.append(place)
            self.drawn.append(best)
            canvas = canvas.scatter(-1, place + front.start, tokens[best[..., 0].gather(-1, place)])

    def front(self, i):
        """The first block with masks, by pass i."""
        return slice(0, self.size) if i < self.size else slice(self.size, 2 * self.size)

    def law(self, states, heat):
        return (F.linear(states, self.head).float() / heat).log_softmax(-1)

    @staticmethod
    def at(of, passes):
        """What there is of so many passes [rows, passes, ...]."""
        return torch.stack([of[i] for i in passes], 1)

    def inputs(self, lessons):
        """Of a head."""
        before, after = lessons.T.tolist()
        seen = [seen_in_group(2 * self.size, self.size, i // self.size, self.head.device) for i in before]
        now = self.at(self.canvases, after).flatten(2)
        unmasked = now != self.at(self.canvases, before).flatten(2)
        return self.text, self.embedding(now), self.at(self.residuals, before), unmasked, torch.stack(seen)

    def loss(self, lessons, inputs, outputs):
        after = lessons[:, 1].tolist()
        (_, _, then, unmasked, _), (outputs, residuals) = inputs, outputs
        now = self.at(self.residuals, after)
        of_residuals = (residuals - now)[unmasked].square().sum() / (then - now)[unmasked].square().sum()
        of_laws = of_places = 0.0
        for j, output in zip(after, outputs.transpose(0, 1).unflatten(2, (-1, 2 * self.size))):
            front = self.front(j)
            # Nothing is before the text, and nothing is said of its first place.
            states, output = (x[:, 1:, front] for x in (self.states[j], output))
            masked = self.canvases[j][:, 1:, front] == MASKED.mask_token_id
            heat = self.heat.expand(*masked.shape)[masked][:, None]
            p, q = (self.law(x[masked], heat) for x in (states, output))
            drawn = self.drawn[j][:, 1:][masked]
            sure = p.gather(-1, drawn)[:, 0].exp()
            place = self.next[j][:, 1:]
            weight = sure + 0.1 + torch.zeros(masked.shape, device=sure.device).scatter(-1, place, 1.0)[masked]
            of_laws += ((p.exp() * (p - q)).sum(-1) * weight).sum() / weight.sum()
            chance = q.gather(-1, drawn)[:, 0].clamp(max=-1e-4)
            odds = torch.full(masked.shape, -torch.inf, device=sure.device)
            odds = odds.masked_scatter(masked, chance - torch.log(-torch.expm1(chance)))
            of_places += F.cross_entropy(odds.flatten(0, 1), place.flatten())
        return (of_laws + PLACES * of_places) / LESSONS + RESIDUALS * of_residuals


def linear_guess(head, courses):
    """The weight of `fc` for which the unmasked rows are best in the mean, by least squares."""
    squares = products = 0.0
    for course, lessons in courses:
        _, embedded, then, unmasked, _ = course.inputs(lessons)
        x = head.joined(embedded, then)[unmasked].float()
        y = course.at(course.residuals, lessons[:, 1].tolist())[unmasked].float()
        squares, products = squares + x.T @ x, products + x.T @ y
    squares += 1e-3 * torch.diag(squares.diagonal())
    return torch.linalg.solve(squares, products).T


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    arguments.add_argument("--work", type=Path, required=True)
    arguments.add_argument("--model", type=Path, default=MODELS / "masked")
    arguments.add_argument("--name", default="canvas_head")
    arguments.add_argument("--minutes", type=float, default=80)
    arguments.add_argument("--begin", type=Path, help="directory of a head to train on")
    arguments.add_argument("--rate", type=float, default=1.0, help="of the optimiser's own")
    options = arguments.parse_args()

    training.encode(options.work)
    torch.manual_seed(training.SEED)
    model = checkpoint.load_masked(options.model, options.work / "tokenizer.model").to(training.device())
    head = CanvasHead(CANVAS_HEAD).to(training.device())
    optimiser = training.Optimiser(head, muon_rate=0.004 * options.rate, adam_rate=0.0015 * options.rate, decay=0.0)
    known, of_readings, run = (torch.compile(f, dynamic=False) for f in (model.known, model.of_readings, head))
    windows = training.Windows(options.work / "tokens" / "train", LENGTH, 1)
    tokens = shortlist(windows.streams)

    def batch_of(step, progress):
        return windows.batch(step), step

    def course_of(batch, random):
        with torch.no_grad():
            return Course(known, of_readings, model.model.embed_tokens, tokens, batch[0][:, :-1], random)

    def taught(batch):
        random = torch.Generator().manual_seed(training.SEED + batch[1])
        with torch.autocast(training.device().type, torch.bfloat16):
            return course_of(batch, random), pairs(random)

    def loss_of(batch, progress):
        course, lessons = taught(batch)
        with torch.autocast(training.device().type, torch.bfloat16):
            inputs = course.inputs(lessons)
            return course.loss(lessons, inputs, run(*inputs))

    if options.begin:
        head.load_state_dict(checkpoint.load_canvas_head(options.begin, options.model).state_dict())
    elif not (options.work / f"{options.name}.pt").exists():
        with torch.no_grad():
            # Embeddings are made as large as residuals, which are a hundred times their size.
            head.embedding_norm.weight.fill_(taught(batch_of(0, 0.0))[0].residuals[0].float().square().mean().sqrt())
            head.take(model, linear_guess(head, map(taught, (batch_of(step, 0.0) for step in range(FITTED)))))

    training.run(options.name, options.work, options.minutes, head, optimiser, batch_of, loss_of)


if __name__ == "__main__":
    main()
