# SPDX-License-Identifier: Apache-2.0
"""Writes text that the target samples at temperature 1, for training drafters on what they will draft.

    python -m llama.generate --work DIR --tokens N

A sequence is PROMPT tokens of the training text and what the target continues them with, LENGTH together; a
batch has the same number from every domain. DIR/tokens/generated/<domain>.int32 has them after each other, as
`tokens/train` has documents, so that windows of LENGTH are sequences. A run that was interrupted continues;
so does one for more tokens; a batch is always whole.

With --part validation the prompts are of the validation text, and the folder is `generated_validation`: to
measure on.
"""
import argparse
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F

import checkpoint
import training
from llama.model import rope_tables, rotate
from shipped import MODELS

LENGTH, PROMPT = 512, 48
ROWS = {"train": 64, "validation": 8}  # sequences of each domain in a batch


class Decoder:
    """The trunk with a cache for a batch of sequences of the same length."""

    def __init__(self, trunk, rows, length):
        c = trunk.config
        self.trunk, self.config, self.place = trunk, c, 0
        self.cos, self.sin = rope_tables(c, length, training.device())
        shape = (len(trunk.layers), 2, rows, c.num_key_value_heads, length, c.head_dim)
        self.cache = torch.zeros(shape, device=training.device())

    def read(self, ids):
        """Hidden states [rows, hidden] after the last of ids [rows, tokens]."""
        c, begin = self.config, self.place
        rows, tokens = ids.shape
        self.place = end = begin + tokens
        cos, sin = self.cos[begin:end], self.sin[begin:end]
        seen = torch.arange(end, device=ids.device) <= torch.arange(begin, end, device=ids.device)[:, None]
        groups = c.num_attention_heads // c.num_key_value_heads
        x = self.trunk.embed_tokens(ids)
        for layer, (keys, values) in zip(self.trunk.layers, self.cache):
            a, normed = layer.self_attn, layer.input_layernorm(x)
            q, k, v = (p(normed).view(rows, tokens, -1, c.head_dim).transpose(1, 2)
                       for p in (a.q_proj, a.k_proj, a.v_proj))
            keys[:, :, begin:end], values[:, :, begin:end] = rotate(k, cos, sin), v
            # The heads of a group are rows of one product: nothing of the cache is repeated.
            q = rotate(q, cos, sin).reshape(rows, c.num_key_value_heads, groups * tokens, c.head_dim)
            scores = q @ keys[:, :, :end].mT * c.head_dim ** -0.5
            scores.masked_fill_(~seen.repeat(groups, 1), -torch.inf)
            mixed = (scores.softmax(-1) @ values[:, :, :end]).view(rows, -1, tokens, c.head_dim)
            x = x + a.o_proj(mixed.transpose(1, 2).reshape(rows, tokens, -1))
            x = x + layer.mlp(layer.post_attention_layernorm(x))
        return self.trunk.norm(x[:, -1])


def sampled(logits, random):
    """[rows] by the inverse of the distribution function."""
    mass = logits.softmax(-1).cumsum(-1)
    at = torch.rand(len(logits), 1, generator=random).to(logits.device) * mass[:, -1:]
    return torch.searchsorted(mass, at).clamp(max=logits.shape[-1] - 1)


def continued(target, prompts, random):
    decoder = Decoder(target.model, len(prompts), LENGTH)
    ids, read = prompts, prompts
    while ids.shape[1] < LENGTH:
        hidden = decoder.read(read)
        read = sampled(F.linear(hidden, target.model.embed_tokens.weight), random)
        ids = torch.cat((ids, read), dim=1)
    return ids


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    arguments.add_argument("--work", type=Path, required=True)
    arguments.add_argument("--target", type=Path, default=MODELS / "target")
    arguments.add_argument("--tokens", type=int, default=260_000)
    arguments.add_argument("--part", choices=("train", "validation"), default="train")
    options = arguments.parse_args()

    target = checkpoint.load(options.target, options.work / "tokenizer.model").to(training.device())
    rows = ROWS[options.part]
    texts = sorted((options.work / "tokens" / options.part).glob("*.int32"))
    folder = options.work / "tokens" / ("generated" if options.part == "train" else "generated_validation")
    folder.mkdir(exist_ok=True)
    files = [folder / path.name for path in texts]
    streams = [np.fromfile(path, np.int32) for path in texts]
    for file in files:
        file.touch()
    while True:
        batch = min(file.stat().st_size for file in files) // (2 * rows * LENGTH)
        if batch * rows * LENGTH * len(files) >= options.tokens:
            return
        random = np.random.default_rng((training.SEED, batch))
        prompts = [stream[i:i + PROMPT] for stream in streams
                   for i in random.integers(len(stream) - PROMPT, size=rows)]
        seed = torch.Generator().manual_seed(training.SEED + batch)
        ids = continued(target, torch.from_numpy(np.stack(prompts).astype(np.int64)).to(training.device()), seed)
        for file, text in zip(files, ids.cpu().numpy().astype(np.int32).reshape(len(files), -1)):
            with file.open("r+b") as f:  # what an interruption left is written again
                f.seek(2 * batch * rows * LENGTH)
                text.tofile(f)


if __name__ == "__main__":
    with torch.inference_mode():
        main()
