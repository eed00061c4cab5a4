# SPDX-License-Identifier: Apache-2.0
"""Rows of laws and of verification."""

from model import Launch, Pass, Row, TILE, at_most

FILES = ("laws", "halves", "rejection")
VOCAB = 128256
CHAIN = 5  # drafts


def loop_of_a_law(gate, kernel):
    """The one that finds the largest of a tile and adds its weights: products by the dozen for each
    element, and as many loads under way as there are."""
    found = gate.streams(kernel, 16)
    return max((loop for loop in found if loop.counts.get("fma", 0) > 5 * loop.loads),
               key=lambda loop: loop.cycles())


class Laws:
    """Launches that make laws of rows and verify by them; rows of the steps are made of them, too."""

    def __init__(self, model):
        gate, gpu = model.gate, model.gpu
        self.loop = loop_of_a_law(gate, "law_of_a_row block")
        self.largest = min(gate.streams("law_of_a_row block", 16), key=lambda loop: loop.cycles())
        self.of_bfloats = loop_of_a_law(gate, "law_of_bfloats block")
        self.residual = self.residual_of(gate, "verify_by_rejection block")
        self.residual_of_bfloats = self.residual_of(gate, "rejection_on_bfloats block")
        # The tests of a chain are made side by side: laws and children, then both rows at a token.
        # What the residual needs of them has just been read.
        self.test = 3.0 * gpu.cache + 8.0 * gpu.near
        self.refused = 4.0 * gpu.near
        # A draw reads a tile again, half of it at a time, and walks along groups, strands, lanes and a
        # lane, which it reads once more, by differences of doubles.
        self.draw = self.draw_of(gpu, VOCAB)
        self.decide = self.test + self.refused + self.draw

    @staticmethod
    def draw_of(gpu, elements):
        groups = -(-elements // TILE)
        return (groups + 16 + 16 + 8 + 32) * 10.0 / gpu.clock + 3.0 * gpu.cache

    @staticmethod
    def residual_of(gate, kernel, loads=32):
        """The loop that reads the rows of a target and a draft side by side, half of the loads each:
        of those that do this much for an element, with comparisons as well as products."""
        return min((loop for loop in gate.streams(kernel, loads)
                    if loop.loads == loads and loop.counts["alu"] > 5 * loads
                    and loop.counts.get("fma", 0) > 5 * loads), key=lambda loop: loop.cycles())

    def passes(self, elements=VOCAB, loop=None, size=4, source="memory"):
        # Once: for the largest and, in the frame that is likely to be its, for the sum.
        return [Pass(loop or self.loop, elements, 1, size, source)]

    def law(self, bodies, kernel="law_of_a_row", loop=None, size=4):
        return Launch(kernel, bodies, self.passes(VOCAB, loop, size))

    def law_of_bfloats(self, bodies):
        return self.law(bodies, "law_of_bfloats", self.of_bfloats, 2)

    def verify_bfloats(self, batch):
        return [self.law_of_bfloats(batch * (CHAIN + 1)),
                Launch("rejection_on_bfloats", batch, [Pass(self.residual_of_bfloats, VOCAB, 2, 2)],
                       self.decide)]

    def verify(self, batch, lazily=False):
        passes = [Pass(self.residual, VOCAB, 2, 4)]
        if not lazily:
            return [self.law(batch * (CHAIN + 1)),
                    Launch("verify_by_rejection", batch, passes, self.decide)]
        # One law after the other, as the rule asks for them.
        return [Launch("verify_by_rejection", batch, self.passes() * CHAIN + passes,
                       CHAIN * self.test + self.draw, CHAIN + 1)]


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
    add("laws of 64 rows", [laws.law(64)], floor=at_copy(64))
    add("laws of 64 rows in bfloat16", [laws.law_of_bfloats(64)])
    add("verify in a graph, 5 drafts, B = 1, rows in memory", laws.verify(1), at_most(12.0))
    for batch in (64, 256):
        for lazily in (False, True):
            add(f"verify, 5 drafts, B = {batch}, laws {'when asked for' if lazily else 'side by side'}",
                laws.verify(batch, lazily), at_most(1.4), at_copy((CHAIN + 2) * batch))
    wide = model.total(laws.verify(64))[0]
    narrow = add("verify, 5 drafts, B = 64, laws side by side, bfloat16", laws.verify_bfloats(64))
    found.append(Row("verify, 5 drafts, B = 64: bfloat16 / float", "", narrow / wide, "",
                     at_most(0.6)))
    return found
