# SPDX-License-Identifier: Apache-2.0
"""Rows of verification by GPUs of which each has a part of the vocabulary, and of gathering the
logits first. Of a launch there, block i exchanges with blocks i of the other GPUs while it runs; a
launch has no more blocks than a GPU has multiprocessors."""

import math

from gpu import NVLINK
from laws import CHAIN, Laws, VOCAB
from model import Launch, Pass, Row, TILE

FILES = ("laws", "rejection")
NODES = CHAIN + 1
RANKS = 8
EAGER = 512  # rows up to which their laws are made side by side
DRAW = 2  # exchanges of a draw: of the sums of tiles, and of the token
MOST = 4096  # sequences that are looked at


class Shards:
    def __init__(self, model):
        self.model, self.laws, self.links = model, Laws(model), NVLINK
        tiles = math.ceil(VOCAB / TILE)
        self.part = math.ceil(tiles / RANKS) * TILE

    def launches(self, batch, exchange):
        """Of a step whose exchanges take so long, and how many of them follow each other."""
        laws, part = self.laws, self.part
        residual = [Pass(laws.residual, part, 2, 4)]
        found, exchanges = [], 0

        def add(kernel, bodies, passes, chain, count, sums):
            nonlocal exchanges
            most = self.model.gpu.processors
            for first in range(0, bodies, most):
                found.append(Launch(kernel, min(most, bodies - first), passes,
                                    chain + count * exchange, sums, alone=True))
                exchanges += count

        if batch * NODES <= EAGER:
            add("law_of_a_row", batch * NODES, laws.passes(part), 0.0, 1, 1)
            add("verify_by_rejection", batch, residual, laws.decide, DRAW, 1)
        else:
            add("verify_by_rejection", batch, laws.passes(part) * CHAIN + residual,
                CHAIN * laws.test + laws.draw, CHAIN + DRAW, NODES)
        return found, exchanges

    def verify(self, batch, exchange=None):
        found, exchanges = self.launches(batch, self.links.exchange if exchange is None else exchange)
        time, bound = self.model.total(found)
        return time, bound, exchanges

    def gather(self, batch):
        """All GPUs get all rows, and each verifies all of them."""
        links = self.links
        arrives = (RANKS - 1) / RANKS * batch * NODES * VOCAB * 4
        verify = min(self.model.total(self.laws.verify(batch, lazily))[0] for lazily in (False, True))
        return links.gather + arrives / links.bandwidth + verify


def rows(model):
    shards = Shards(model)
    found = []
    for batch in (1, 8, 64, 256):
        name = f"verify over {RANKS} GPUs, 5 drafts, B = {batch}"
        time, bound, exchanges = shards.verify(batch)
        found.append(Row(name, "us", time, bound))
        gathered = shards.gather(batch)
        found.append(Row(f"gathering the logits and verifying / {name}", "", gathered / time, bound))
        # The rest of such a step does not depend on what an exchange takes.
        rest = shards.verify(batch, 0.0)[0]
        found.append(Row(f"{name}: an exchange with which gathering is as fast", "us",
                         (gathered - rest) / exchanges))
    # Each exchange a kernel of a collective of its own.
    kernel = shards.links.reduce
    sooner = next((b for b in range(1, MOST) if shards.verify(b, kernel)[0] < shards.gather(b)), MOST)
    found.append(Row(f"sequences from which {RANKS} GPUs with a collective's kernel for each exchange "
                     "are as fast as gathering, 5 drafts", "", sooner))
    return found
