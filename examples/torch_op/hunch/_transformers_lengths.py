# SPDX-License-Identifier: Apache-2.0
"""How many tokens the next step drafts. Any rule that looks only at what is past keeps texts exact."""
from __future__ import annotations

from numbers import Integral
from typing import Iterable


class Given:
    """A number, or numbers in turn of which the last stays."""

    def __init__(self, lengths: int | Iterable[int]):
        self.lengths = [lengths] if isinstance(lengths, Integral) else list(lengths)
        wrong = [n for n in self.lengths if not isinstance(n, Integral) or isinstance(n, bool) or n < 0]
        if wrong or not self.lengths:
            raise ValueError(f"hunch.transformers: num_draft_tokens must be numbers from 0 on, not {lengths!r}")
        self.step = 0

    def next(self, by_confidence: bool = False) -> int:
        n = self.lengths[min(self.step, len(self.lengths) - 1)]
        self.step += 1
        return n

    def goes_on(self, probability: float) -> bool:
        return True

    def learn(self, drafted: int, accepted: list[int], seconds: float):
        """Nothing: the numbers were given."""


class AdaptiveLength:
    """The draft length that gives most tokens in a second, by measured acceptance and time; 0 where drafts do not pay.

    Keep one for a pair of models, a size of batch and a kind of text, and hand it to every call as num_draft_tokens: it
    begins by trying a few lengths, and tries others now and then.

    Of one text by rejection, each draft is asked how sure the assistant was of it: the step ends where the next one is
    worth less than the time that it takes. Of a batch all texts have the length that is best on the mean.

    Since times decide, a seed does not give the same text twice at temperatures above 0; the law is the same.
    """

    FIRST = (4, 0, 1, 4, 0)  # tried at the beginning
    PERIOD = 16  # steps between two trials
    KEPT = 9  # times of each length that are remembered
    BINS = 8  # of the assistant's probability of a draft

    def __init__(self, most: int = 20):
        if most < 1:
            raise ValueError(f"hunch.transformers: AdaptiveLength needs most >= 1, not {most}")
        self.most, self.steps = most, 0
        self.times: dict[int, list[float]] = {}
        self.reached, self.passed = [1.0] * most, [0.6] * most  # of each position, with a first guess
        self.asked = [2.0] * self.BINS  # likewise of each bin: a draft is accepted as often as it is sure
        self.taken = [2.0 * (i + 0.5) / self.BINS for i in range(self.BINS)]
        self.rate = 0.0  # tokens per second of steps that ended by confidence
        self.trial, self.path, self.bins = False, 1.0, []

    def next(self, by_confidence: bool = False) -> int:
        """The length of the next step; the longest one, where `goes_on` will be asked."""
        self.path, self.bins = 1.0, []
        self.trial = self.steps < len(self.FIRST)
        if self.trial:
            return min(self.FIRST[self.steps], self.most)
        best = self.best()
        turn, since = divmod(self.steps, self.PERIOD)
        if by_confidence:
            pays = self.rate == 0 or self.rate * self.seconds(0) > 1
            if since == 0 and pays and turn % 4 == 0:
                return 0
            return self.most if pays or since == 0 else 0
        if since == 0:
            return min(best + 1, self.most) if turn % 2 or best == 0 else best - 1
        return best

    def goes_on(self, probability: float) -> bool:
        """Whether another draft pays, after one of which the assistant was so sure."""
        if not probability >= 0:
            return False  # the assistant's row holds no law
        index = min(int(probability * self.BINS), self.BINS - 1)
        self.bins.append(index)
        self.path *= self.taken[index] / self.asked[index]
        chance = sum(self.passed) / sum(self.reached)
        return self.trial or self.path * chance > self.price()

    def price(self) -> float:
        """The time of another draft, in tokens."""
        one, more = self.seconds(1), self.seconds(4)
        return (more - one) / 3 * max(self.rate, 1 / self.seconds(0))

    def learn(self, drafted: int, accepted: list[int], seconds: float):
        """What a step did: its length, the accepted drafts of each text, the time."""
        self.steps += 1
        self.times.setdefault(drafted, []).append(seconds)
        del self.times[drafted][: -self.KEPT]
        for n in accepted:
            for i in range(min(drafted, n + 1)):
                self.reached[i] = 0.99 * self.reached[i] + 1
                self.passed[i] = 0.99 * self.passed[i] + (i < n)
            for i, index in enumerate(self.bins[: n + 1]):
                self.asked[index] = 0.99 * self.asked[index] + 1
                self.taken[index] = 0.99 * self.taken[index] + (i < n)
            if self.bins and not self.trial:
                first = self.rate == 0
                pace = (self.tokens(drafted) if first else n + 1) / self.seconds(drafted)
                self.rate = pace if first else 0.95 * self.rate + 0.05 * pace

    def seconds(self, length: int) -> float:
        """A step's time: measured, or on the line through the nearest lengths that were. The least of the last ones:
        what else the machine does only adds."""
        known = sorted((n, min(t)) for n, t in self.times.items())
        for n, t in known:
            if n == length:
                return t
        if len(known) == 1:
            return known[0][1]
        below = [k for k in known if k[0] < length]
        above = [k for k in known if k[0] > length]
        (n0, t0), (n1, t1) = (below[-1], above[0]) if below and above else (known[:2] if above else known[-2:])
        return max(t0 + (t1 - t0) * (length - n0) / (n1 - n0), 1e-9)

    def tokens(self, length: int) -> float:
        """Tokens that a step with so many drafts emits, on the mean."""
        total, path = 1.0, 1.0
        for i in range(length):
            path *= self.passed[i] / self.reached[i]
            total += path
        return total

    def best(self) -> int:
        return max(range(self.most + 1), key=lambda n: self.tokens(n) / self.seconds(n))


def lasting(lengths):
    """num_draft_tokens as `schedule` takes it in each call: an iterator would be used up in the first one."""
    if isinstance(lengths, str) and lengths != "auto":
        raise ValueError(f"hunch.transformers: num_draft_tokens must be a number, numbers or 'auto', not {lengths!r}")
    is_kept = isinstance(lengths, str) or (hasattr(lengths, "next") and hasattr(lengths, "learn"))
    return lengths if is_kept else Given(lengths).lengths


def schedule(lengths):
    """num_draft_tokens of a call, as an object with `next`, `goes_on` and `learn`."""
    if isinstance(lengths, str):
        return AdaptiveLength()
    return Given(lengths) if isinstance(lengths, list) else lengths
