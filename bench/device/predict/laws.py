# SPDX-License-Identifier: Apache-2.0
"""Rows of laws and of verification."""

from model import Launch, Pass, Row, at_most

FILES = ("laws", "halves", "rejection")
VOCAB = 128256
CHAIN = 5  # drafts


class Laws:
    """Launches that make laws of rows and verify by them; rows of the steps are made of them, too."""

    def __init__(self, model):
        gate, gpu = model.gate, model.gpu
        self.loops = gate.streams("law_of_a_row block", 8)
        self.of_bfloats = gate.streams("law_of_bfloats block", 8)
        self.residual = gate.streams("residual_sum block", 8)[-1]
        # The tests of a chain are made side by side, the one that refuses once more: laws and
        # children, then both rows at a token. A draw walks along groups, lanes and a lane by
        # differences of doubles, and reads a tile twice that has been read just now.
        self.test = 3.0 * gpu.cache + 8.0 * gpu.near
        self.draw = (64 + 128 + 128 + 32) * 10.0 / gpu.clock + 2.0 * gpu.cache
        self.decide = 2.0 * self.test + self.draw

    def passes(self, elements=VOCAB, loops=None, size=4):
        # The first finds the largest of a tile, the second adds weights and comes to the cache.
        first, second = (loops or self.loops)[:2]
        return [Pass(first, elements, 1, size), Pass(second, elements, 1, size, "near")]

    def law(self, bodies, kernel="law_of_a_row", loops=None, size=4):
        return Launch(kernel, bodies, self.passes(VOCAB, loops, size))

    def verify(self, batch, lazily=False):
        passes = [Pass(self.residual, VOCAB, 2, 4)]
        if not lazily:
            return [self.law(batch * (CHAIN + 1)),
                    Launch("verify_by_rejection", batch, passes, self.decide)]
        return [Launch("verify_by_rejection", batch, self.passes() * CHAIN + passes,
                       CHAIN * self.test + self.draw)]


def rows(model):
    laws = Laws(model)
    found = []

    def add(name, launches, goal=None, floor=None):
        time, bound = model.total(launches)
        found.append(Row(name, "us", time, bound, goal if floor is None else None))
        if floor is not None:
            found.append(Row(f"{name}: time / the rows at copy bandwidth", "", time / floor, bound,
                             goal))
        return time

    def at_copy(count):
        return model.at_copy(count * VOCAB * 4)

    add("law of a row", [laws.law(1)], floor=at_copy(1))
    wide = add("laws of 64 rows", [laws.law(64)], floor=at_copy(64))
    narrow = add("laws of 64 rows in bfloat16", [laws.law(64, "law_of_bfloats", laws.of_bfloats, 2)])
    found.append(Row("laws of 64 rows: bfloat16 / float", "", narrow / wide, "", at_most(0.6)))
    add("verify in a graph, 5 drafts, B = 1, rows in memory", laws.verify(1), at_most(12.0))
    for batch in (64, 256):
        for lazily in (False, True):
            add(f"verify, 5 drafts, B = {batch}, laws {'when asked for' if lazily else 'side by side'}",
                laws.verify(batch, lazily), at_most(1.4), at_copy((CHAIN + 2) * batch))
    return found
