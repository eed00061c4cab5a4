# SPDX-License-Identifier: Apache-2.0
"""What a list of logits processors makes of rows of logits, split into what the verifier does and what is done before.

A processor is a function of one row's tokens and scores, or it is refused: for drafts it is asked several times about
texts that may never be, and about rows of a batch that have different lengths.
"""
from __future__ import annotations

import math
from typing import NamedTuple

import torch
from transformers.generation import logits_process as known

#: Temperature and cuts, which the verifier makes itself in the order min_p, top_k, top_p.
CUTS = {
    known.TemperatureLogitsWarper: "temperature",
    known.TopKLogitsWarper: "top_k",
    known.TopPLogitsWarper: "top_p",
    known.MinPLogitsWarper: "min_p",
}
#: Processors that depend on nothing but the tokens and the scores of a row.
OF_A_ROW = (
    *CUTS,
    known.RepetitionPenaltyLogitsProcessor,
    known.NoRepeatNGramLogitsProcessor,
    known.SequenceBiasLogitsProcessor,
    known.NoBadWordsLogitsProcessor,
    known.MinLengthLogitsProcessor,
    known.MinNewTokensLengthLogitsProcessor,
    known.ForcedBOSTokenLogitsProcessor,
    known.ForcedEOSTokenLogitsProcessor,
    known.InfNanRemoveLogitsProcessor,
    known.ExponentialDecayLengthPenalty,
    known.SuppressTokensLogitsProcessor,
    known.SuppressTokensAtBeginLogitsProcessor,
    known.TypicalLogitsWarper,
    known.TopHLogitsWarper,
    known.EpsilonLogitsWarper,
    known.EtaLogitsWarper,
    known.LogitNormalization,
)
#: Rows of a draft are cut by top-p only if so many tokens hold the mass: a sort of a row costs more than it gains.
NUCLEUS = 256


class Sampling(NamedTuple):
    """Parameters of the verifier. temperature 0: greedy."""

    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0


def split(processors, do_sample: bool):
    """The processors that come before, and the Sampling that is what the others do.

    A list that ends otherwise than temperature, top_k, top_p or temperature, top_k, min_p stays whole: cuts in another
    order give another law.
    """
    if not do_sample:
        return list(processors), Sampling(temperature=0.0)
    count = len(processors)
    while count > 0 and type(processors[count - 1]) in CUTS:
        count -= 1
    tail = [CUTS[type(p)] for p in processors[count:]]
    order = list(CUTS.values())
    in_order = tail == sorted(set(tail), key=order.index)
    if not in_order or ("top_p" in tail and "min_p" in tail):
        return list(processors), Sampling()
    found = {}
    for name, p in zip(tail, processors[count:]):
        if name != "temperature" and (p.filter_value != -math.inf or (name != "top_k" and p.min_tokens_to_keep != 1)):
            return list(processors), Sampling()
        found[name] = getattr(p, name)
    if not 0 < found.get("top_p", 1.0) <= 1:
        return list(processors), Sampling()
    return list(processors[:count]), Sampling(**found)


class Laws:
    """The laws of a batch: `processors` edit logits row by row, the rest is `sampling`, for the verifier."""

    def __init__(self, processors, do_sample: bool, batch: int, stateless: tuple[type, ...] = ()):
        for p in processors:
            if type(p) not in OF_A_ROW and not isinstance(p, stateless):
                raise NotImplementedError(
                    f"hunch.transformers: the logits processor {type(p).__name__} is not known to depend on the tokens "
                    "and scores of one row alone; if it does, name its type in stateless_processors")
        before, self.sampling = split(processors, do_sample)
        self.of_row = [[self._for_row(p, row) for p in before] for row in range(batch)]

    @staticmethod
    def _for_row(p, row):
        # The only one that holds something for each row of its batch.
        if type(p) is known.RepetitionPenaltyLogitsProcessor and isinstance(p.prompt_ignore_length, torch.Tensor):
            ignored = int(p.prompt_ignore_length[row])
            return known.RepetitionPenaltyLogitsProcessor(p.penalty, prompt_ignore_length=ignored)
        return p

    @property
    def edits(self) -> bool:
        return bool(self.of_row[0])

    def edited(self, logits: torch.Tensor, texts: list[list[torch.Tensor]]) -> torch.Tensor:
        """Logits [B, m, V] as the processors leave them, in float32. texts[b][i]: the tokens [length] before row i,
        as `model.generate` would have them: padding, prompt, what was emitted, and what was drafted."""
        out = logits.float().clone()
        for row, (processors, prefixes) in enumerate(zip(self.of_row, texts)):
            for i, text in enumerate(prefixes):
                scores = out[row, i][None]
                for p in processors:
                    scores = p(text[None], scores)
                out[row, i] = scores[0]
        return out

    def cut_draft(self, logits: torch.Tensor) -> torch.Tensor:
        """Logits [..., V] of a draft without the tokens that the target's cuts would leave out if it gave the same:
        drafted, they would be refused. Any cut is exact, since drafts are drawn from what is left."""
        s = self.sampling
        if s.temperature == 0 or (s.top_k == 0 and s.top_p == 1 and s.min_p == 0):
            return logits
        best = logits.topk(min(s.top_k or NUCLEUS, logits.shape[-1]), -1).values.float() / s.temperature
        lowest = best[..., -1:] if s.top_k else torch.full_like(best[..., :1], -math.inf)
        if s.min_p > 0:
            lowest = torch.maximum(lowest, best[..., :1] + math.log(s.min_p))
        if s.top_p < 1:
            whole = best if s.top_k else logits.float() / s.temperature
            upto = (best - whole.logsumexp(-1, keepdim=True)).exp().cumsum(-1)
            inside = (upto < s.top_p).sum(-1, keepdim=True)
            cut = best.gather(-1, inside.clamp(max=best.shape[-1] - 1))
            lowest = torch.where(inside < best.shape[-1], torch.maximum(lowest, cut), lowest)
        lowest = lowest * s.temperature  # and less, lest rounding leaves out the token that the cut is
        return logits.masked_fill(logits.float() < lowest - 1e-6 * lowest.abs(), -math.inf)
