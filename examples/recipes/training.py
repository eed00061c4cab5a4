# SPDX-License-Identifier: Apache-2.0
"""What the training runs share: data, optimisers, a schedule on elapsed time, checkpoints that resume."""
import dataclasses
import json
import math
import os
import time

import numpy as np
import sentencepiece
import torch

from text.corpus import SEPARATOR

BOS, EOS = 1, 2
SEED = 20


def device():
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


def encode(work):
    """Token streams of every domain, <s> document </s> after each other, cached as 32-bit files: any vocabulary fits."""
    tokenizer = sentencepiece.SentencePieceProcessor(model_file=str(work / "tokenizer.model"))
    for part in ("train", "validation"):
        folder = work / "tokens" / part
        folder.mkdir(parents=True, exist_ok=True)
        for path in sorted((work / "corpus" / part).glob("*.txt")):
            if not (folder / f"{path.stem}.int32").exists():
                documents = tokenizer.encode(path.read_text("utf-8").split(SEPARATOR), add_bos=True, add_eos=True)
                np.concatenate([np.array(d, np.int32) for d in documents]).tofile(folder / f"{path.stem}.int32")


class Windows:
    """Batches with the same number of windows from every domain; a function of the step alone.

    An epoch of a domain visits each of its windows once, in an order and with a phase of its own, so that
    a resumed run continues with exactly the text it would have seen. `aligned` windows begin at multiples of
    their length.
    """

    def __init__(self, folder, length, per_domain, leave_out="", aligned=False):
        self.streams = [np.fromfile(p, np.int32) for p in sorted(folder.glob("*.int32")) if p.stem != leave_out]
        self.length, self.per_domain, self.aligned, self.orders = length, per_domain, aligned, {}

    def window(self, domain, count):
        stream = self.streams[domain]
        per_epoch = (len(stream) - 1) // self.length - 1
        epoch, index = divmod(count, per_epoch)
        if self.orders.get(domain, (None,))[0] != epoch:
            random = np.random.default_rng((SEED, domain, epoch))
            phase = 0 if self.aligned else random.integers(self.length)
            self.orders[domain] = (epoch, phase, random.permutation(per_epoch))
        _, phase, order = self.orders[domain]
        start = phase + order[index] * self.length
        return stream[start:start + self.length + 1]

    def steps(self):
        """Batches without a repetition in any domain."""
        return min((len(stream) - 1) // self.length - 1 for stream in self.streams) // self.per_domain

    def batch(self, step):
        rows = [self.window(d, step * self.per_domain + i)
                for i in range(self.per_domain) for d in range(len(self.streams))]
        return torch.from_numpy(np.stack(rows).astype(np.int64)).to(device())


def orthogonalise(g, steps=5):
    """Newton-Schulz iteration towards the nearest semi-orthogonal matrix, for a stack of matrices."""
    a, b, c = 3.4445, -4.7750, 2.0315
    x = g.bfloat16()
    tall = x.shape[-2] > x.shape[-1]
    x = x.mT if tall else x
    x = x / (x.norm(dim=(-2, -1), keepdim=True) + 1e-7)
    for _ in range(steps):
        y = x @ x.mT
        x = a * x + (b * y + c * y @ y) @ x
    return (x.mT if tall else x).float()


class Muon:
    """Momentum, orthogonalised per matrix; matrices of one shape go through the iteration as one stack."""

    def __init__(self, parameters, momentum=0.95):
        self.groups, self.momentum = {}, momentum
        for p in parameters:
            self.groups.setdefault(p.shape, []).append(p)
        self.state = {shape: torch.zeros(len(ps), *shape, device=ps[0].device) for shape, ps in self.groups.items()}

    @torch.no_grad()
    def step(self, rate, decay):
        for shape, parameters in self.groups.items():
            gradients = torch.stack([p.grad for p in parameters])
            moment = self.state[shape].lerp_(gradients, 1 - self.momentum)
            update = orthogonalise(gradients.lerp(moment, self.momentum))
            scale = rate * max(1, shape[0] / shape[1]) ** 0.5
            for p, u in zip(parameters, update):
                p.mul_(1 - rate * decay).add_(u, alpha=-scale)


class Optimiser:
    """Muon for the matrices of the layers, AdamW for embeddings, heads over the vocabulary, and norms."""

    def __init__(self, model, muon_rate, adam_rate, decay):
        trained = [(n, p) for n, p in model.named_parameters() if p.requires_grad]
        of_tokens = {n for n, _ in trained if "embed" in n or n.startswith("heads.")}
        matrices = [p for n, p in trained if p.ndim == 2 and n not in of_tokens]
        others = [p for n, p in trained if p.ndim != 2 or n in of_tokens]
        self.muon, self.rates, self.decay = Muon(matrices), (muon_rate, adam_rate), decay
        self.adam = torch.optim.AdamW([{"params": others}], lr=adam_rate, betas=(0.9, 0.95), eps=1e-10,
                                      weight_decay=0.0, fused=True)

    def step(self, factor):
        self.muon.step(self.rates[0] * factor, self.decay)
        self.adam.param_groups[0]["lr"] = self.rates[1] * factor
        self.adam.step()
        self.adam.zero_grad()
        for parameters in self.muon.groups.values():
            for p in parameters:
                p.grad = None

    def state_dict(self):
        return {"muon": self.muon.state, "adam": self.adam.state_dict()}

    def load_state_dict(self, state):
        for shape, moment in state["muon"].items():
            self.muon.state[shape].copy_(moment)
        self.adam.load_state_dict(state["adam"])


def rate_factor(progress, warm_up=0.01, hold=0.35):
    """Linear warm-up, a plateau, then linear decay to zero; progress is a share of the time budget."""
    return min(1.0, (progress + 1e-4) / warm_up, max(0.0, 1 - progress) / (1 - hold))


def run(name, work, minutes, model, optimiser, batch_of, loss_of, steps=None):
    """Trains until the time budget is spent. Elapsed training time is part of the checkpoint, so that a
    busy machine or an interruption costs steps but leaves the schedule whole. With `steps` the budget is that
    many steps, whatever they take: for comparisons."""
    path, log = work / f"{name}.pt", work / f"{name}.log.jsonl"
    step, elapsed = 0, 0.0
    if path.exists():
        state = torch.load(path, map_location=device(), weights_only=True)
        model.load_state_dict(state["model"])
        optimiser.load_state_dict(state["optimiser"])
        step, elapsed = state["step"], state["elapsed"]
    saved, mean = elapsed, None

    def save():
        config = getattr(model, "config", None)
        torch.save({"model": model.state_dict(), "config": config and dataclasses.asdict(config),
                    "optimiser": optimiser.state_dict(), "step": step, "elapsed": elapsed}, f"{path}.new")
        os.replace(f"{path}.new", path)

    def spent():
        return step / steps if steps else elapsed / (minutes * 60)

    while spent() < 1:
        start, progress = time.monotonic(), spent()
        # Numbers of positions, windows with one label after their inputs, or a tuple with those in front.
        batch = batch_of(step, progress)
        ids = batch[0] if isinstance(batch, tuple) else batch
        labels = len(ids) * (ids.shape[1] - 1 if ids.ndim == 2 else 1)
        loss = loss_of(batch, progress)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step(rate_factor(progress))
        value = loss.item()
        if not math.isfinite(value):
            raise RuntimeError(f"loss is {value} at step {step}")
        mean = value if mean is None else 0.95 * mean + 0.05 * value
        elapsed += time.monotonic() - start
        step += 1
        if step % 20 == 0:
            with log.open("a") as f:
                f.write(json.dumps({"step": step, "elapsed": round(elapsed, 1), "loss": round(mean, 4),
                                    "tokens": step * labels}) + "\n")
        if elapsed - saved > 180:
            save()
            saved = elapsed
    save()
