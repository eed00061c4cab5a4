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

    def learn(self, drafted: int, accepted: list[int], seconds: float, drafting: float = 0.0):
        """Nothing: the numbers were given."""


class Mean:
    """A mean in which what is long past counts little. `first` counts as `weight` values."""

    def __init__(self, first: float, decay: float, weight: float = 1.0):
        self.sum, self.weight, self.decay = first * weight, weight, decay

    def add(self, value: float, weight: float = 1.0):
        self.sum = self.decay * self.sum + value
        self.weight = self.decay * self.weight + weight

    @property
    def value(self) -> float:
        return self.sum / self.weight if self.weight > 0 else 0.0


class Times:
    """The least of the last times of passes by their size: what else the machine does only adds."""

    KEPT = 9

    def __init__(self):
        self.of: dict[int, list[float]] = {}

    def add(self, size: int, seconds: float):
        self.of.setdefault(size, []).append(seconds)
        del self.of[size][: -self.KEPT]

    def __call__(self, size: int) -> float:
        """Measured, or on the line through the nearest sizes that were."""
        known = sorted((n, min(t)) for n, t in self.of.items())
        for n, t in known:
            if n == size:
                return t
        if len(known) == 1:
            return known[0][1]
        below = [k for k in known if k[0] < size]
        above = [k for k in known if k[0] > size]
        (n0, t0), (n1, t1) = (below[-1], above[0]) if below and above else (known[:2] if above else known[-2:])
        return max(t0 + (t1 - t0) * (size - n0) / (n1 - n0), 1e-9)

    def slope(self) -> float:
        """What one more takes, by the line that fits sizes from 1 on: a second row may take longer than several."""
        known = [(n, min(t)) for n, t in self.of.items() if n > 0]
        middle = sum(n for n, _ in known) / max(len(known), 1)
        spread = sum((n - middle) ** 2 for n, _ in known)
        return max(sum((n - middle) * t for n, t in known) / spread, 0.0) if spread > 0 else 0.0


class AdaptiveLength:
    """The draft length that gives most tokens in a second, by measured acceptance and time; 0 where drafts do not pay.

    Keep one for a pair of models, a size of batch and a kind of text, and hand it to every call as num_draft_tokens.

    Of one text by rejection, the assistant is asked in front of each draft how sure it is of its best token: the step
    ends, or drafts nothing, where the draft is worth less than its time. (What it asks for are laws, and not the tokens
    that are drawn from them, so that sampled texts keep the law.) Where asking does not pay either, it asks now and
    then. Of a batch all texts have the length that is best on the mean; it begins by trying a few, and tries others now
    and then.

    Since times decide, a seed does not give the same text twice at temperatures above 0; the law is the same.
    """

    FIRST = (4, 0, 1, 4, 0)  # of a batch: tried at the beginning
    PERIOD = 16  # steps between two trials
    BINS = 8  # of how sure the assistant is
    SECOND, AGAIN = 4, 64  # steps without drafts, whatever pays: the first one, this one, then each so many steps
    FIRST_DRAFT = 0.3  # of the time of a step without drafts: what a draft takes, until one was timed
    WAITS = (1, 8)  # steps without asking, where that has not paid: at first, at most

    def __init__(self, most: int = 20):
        if most < 1:
            raise ValueError(f"hunch.transformers: AdaptiveLength needs most >= 1, not {most}")
        self.most, self.steps = most, 0
        self.times = Times()  # of steps by their drafts
        self.reached, self.passed = [1.0] * most, [0.6] * most  # of each position, with a first guess
        self.reads, self.draft = Times(), Mean(0.0, 0.9, 0.0)  # of the model's passes by their drafts; of one draft
        sure = [(i + 0.5) / self.BINS for i in range(self.BINS)]
        self.taken = [Mean(0.0, 0.95, 0.0) for _ in sure]  # accepted drafts, of those of which it was so sure
        self.sure, self.accepted = sure, Mean(0.5, 0.95, 2.0)  # and of all
        self.hopes = [c / (1 - c) for c in sure]
        self.gains = [Mean(hope, 0.9) for hope in self.hopes]  # accepted drafts of steps that began so
        self.spent = [Mean(0.0, 0.9, 0.0) for _ in sure]  # and their seconds beyond the first draft
        self.rate = Mean(0.0, 0.9, 0.0)  # tokens per second
        self.worth = Mean(1.0, 0.7)  # of asking, in tokens
        self.wait, self.waited = self.WAITS[0], 0
        self.path, self.bins, self.asked = 1.0, [], 0  # of this step: how often the assistant was asked

    def next(self, by_confidence: bool = False) -> int:
        """The length of the next step; the longest one, where `goes_on` will be asked."""
        self.path, self.bins, self.asked = 1.0, [], 0
        if by_confidence:
            # What a step takes without drafts: the first one may be slow, and later all may be.
            if self.steps == self.SECOND or self.steps % self.AGAIN == 0:
                return 0
            return self.most if self.worth.value > 0 or self.waited >= self.wait else 0
        if self.steps < len(self.FIRST):
            return min(self.FIRST[self.steps], self.most)
        best = self.best()
        turn, since = divmod(self.steps, self.PERIOD)
        if since == 0:
            return min(best + 1, self.most) if turn % 2 or best == 0 else best - 1
        return best

    def goes_on(self, sure: float) -> bool:
        """Whether a draft pays, of a token of whose law the assistant has found the largest probability."""
        self.asked += 1
        if not sure >= 0:
            return False  # the assistant's row holds no law
        index = min(int(sure * self.BINS), self.BINS - 1)
        path = self.path * self.chance(index)
        if not self.bins:
            pays = self.gains[index].value > self.spent[index].value * self.pace()
            if not pays:  # what is not tried is forgiven
                self.gains[index].add(0.1 * self.hopes[index], 0.1)
        else:
            pays = path > self.price()
        if pays:
            self.path = path
            self.bins.append(index)
        return pays

    def chance(self, index: int) -> float:
        """That a draft of which the assistant is so sure is accepted: without experience as sure as it is, or as often
        as drafts are, for sampled ones are accepted more often than their laws are peaked."""
        first = max(self.sure[index], self.accepted.value)
        return (self.taken[index].sum + 2 * first) / (self.taken[index].weight + 2)

    def may_go_on(self) -> bool:
        """Whether the next draft could pay, however sure the assistant were of it."""
        return self.path > self.price()

    def price(self) -> float:
        """The time of another draft, in tokens."""
        draft = self.draft.value or self.FIRST_DRAFT * self.reads(0)
        return (draft + self.reads.slope()) * self.pace()

    def pace(self) -> float:
        """Tokens per second, of late; what plain decoding gives at least."""
        plain = 1 / self.reads(0)
        return max(self.rate.value, plain)

    def learn(self, drafted: int, accepted: list[int], seconds: float, drafting: float = 0.0):
        """What a step did: its length, the accepted drafts of each text, the time, and of it before the model's
        pass."""
        self.steps += 1
        self.times.add(drafted, seconds)
        for n in accepted:
            for i in range(min(drafted, n + 1)):
                self.reached[i] = 0.99 * self.reached[i] + 1
                self.passed[i] = 0.99 * self.passed[i] + (i < n)
        self.reads.add(drafted, seconds - drafting)
        if len(accepted) == 1:
            self._learn_sureness(drafted, accepted[0], seconds, drafting)

    def _learn_sureness(self, drafted, accepted, seconds, drafting):
        self.rate.add(accepted + 1, seconds)
        self.waited += 1
        if self.asked == 0:
            return
        self.draft.add(drafting, self.asked)
        for i, index in enumerate(self.bins[: accepted + 1]):
            self.taken[index].add(i < accepted)
            self.accepted.add(i < accepted)
        plain = self.reads(0)
        if drafted > 0:
            self.gains[self.bins[0]].add(accepted)
            self.spent[self.bins[0]].add(seconds - self.draft.value - plain)
        # One step says little of those that were accepted where it was not: it counts as one token at most.
        self.worth.add(max(accepted - (seconds - plain) / plain, -1.0))
        self.wait = self.WAITS[0] if self.worth.value > 0 else min(2 * self.wait, self.WAITS[1])
        self.waited = 0

    def tokens(self, length: int) -> float:
        """Tokens that a step with so many drafts emits, on the mean."""
        total, path = 1.0, 1.0
        for i in range(length):
            path *= self.passed[i] / self.reached[i]
            total += path
        return total

    def best(self) -> int:
        return max(range(self.most + 1), key=lambda n: self.tokens(n) / self.times(n))


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
