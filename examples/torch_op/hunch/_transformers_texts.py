# SPDX-License-Identifier: Apache-2.0
"""The texts of a batch: what was emitted, where each stands, and when it ends."""
from __future__ import annotations

import torch
from transformers import EosTokenCriteria, MaxLengthCriteria


FIRST_ROOM = 512  # tokens behind a prompt that there is memory for at first; it grows


class Texts:
    """ids [B, columns] as `model.generate` lays them out: padding, prompt, emitted tokens; `sizes` the columns in use,
    `padding` those at the left. Columns of no token hold `pad`."""

    def __init__(self, input_ids, attention_mask, criteria, pad: int):
        batch, prompt = input_ids.shape
        self.prompt, self.sizes, self.done = prompt, [prompt] * batch, [False] * batch
        self.padding = [0] * batch
        if attention_mask is not None:
            present = attention_mask.bool()
            self.padding = (~present).sum(1).tolist()
            if bool((present[:, 1:] < present[:, :-1]).any()):
                raise ValueError("hunch.transformers: prompts must be padded on the left, "
                                 "and attention_mask has a 0 after a 1")
        if prompt == 0 or max(self.padding) == prompt:
            raise ValueError("hunch.transformers: a prompt needs one token or more")
        # Classes derived from these may stop by other rules, and are asked like any others.
        self.limit = min(c.max_length for c in criteria if type(c) is MaxLengthCriteria)
        self.eos = {t for c in criteria if type(c) is EosTokenCriteria for t in c.eos_token_id.tolist()}
        self.others = [c for c in criteria if type(c) not in (MaxLengthCriteria, EosTokenCriteria)]
        self.ids, self.pad = input_ids, pad
        self._make_room(prompt + min(FIRST_ROOM, max(self.limit - prompt, 0)))
        if prompt >= self.limit:
            self.done = [True] * batch

    @property
    def lengths(self) -> list[int]:
        """Tokens of each text, without padding."""
        return [size - pad for size, pad in zip(self.sizes, self.padding)]

    @property
    def room(self) -> int:
        """Tokens that the text with most of it may still get."""
        return max(self.limit - size for size, done in zip(self.sizes, self.done) if not done)

    def tokens(self, begins: list[int], ends: list[int]) -> torch.Tensor:
        """Tokens begins[b] to ends[b] of each text without its padding, aligned left, as [B, most]; then whatever."""
        if len(begins) == 1:
            pad = self.padding[0]
            return self.ids[:, pad + begins[0] : pad + ends[0]]
        width = max(end - begin for begin, end in zip(begins, ends))
        first = torch.tensor([b + pad for b, pad in zip(begins, self.padding)], device=self.ids.device)
        columns = first[:, None] + torch.arange(width, device=self.ids.device)
        return self.ids.gather(1, columns.clamp(max=self.ids.shape[1] - 1))

    def prefix(self, row: int) -> torch.Tensor:
        """A text with its padding, [size]."""
        return self.ids[row, : self.sizes[row]]

    def _make_room(self, columns: int):
        old, self.ids = self.ids, self.ids.new_full((len(self.ids), columns), self.pad)
        self.ids[:, : old.shape[1]] = old

    def emit(self, row: int, tokens: list[int]) -> list[int]:
        """Appends tokens until one ends the text; what was appended."""
        if self.done[row]:
            return []
        size = self.sizes[row]
        tokens = tokens[: self.limit - size]
        for i, token in enumerate(tokens):
            if token in self.eos:
                self.done[row], tokens = True, tokens[: i + 1]
                break
        if size + len(tokens) > self.ids.shape[1]:
            self._make_room(max(size + len(tokens), min(2 * self.ids.shape[1], self.limit)))
        self.ids[row, size : size + len(tokens)] = torch.tensor(tokens, device=self.ids.device)
        if self.others:
            for i in range(1, len(tokens) + 1):
                text = self.ids[row : row + 1, : size + i]
                if any(bool(c(text, None)) for c in self.others):
                    self.ids[row, size + i : size + len(tokens)] = self.pad
                    self.done[row], tokens = True, tokens[:i]
                    break
        self.sizes[row] = size + len(tokens)
        self.done[row] |= self.sizes[row] >= self.limit
        return tokens

    def result(self) -> torch.Tensor:
        return self.ids[:, : max(self.sizes)].clone()
