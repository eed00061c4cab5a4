# SPDX-License-Identifier: Apache-2.0
"""Rows of heads over shortlists."""

from model import Launch, Pass, Row, Small, Stream, at_most, share

FILES = ("head",)
VOCAB = 128256
WIDTH = 4096
LISTED = 27008  # rows of 211 clusters
STRIP = 16  # rows that a warp multiplies
SEGMENT = 512  # strips that a team plans
TOGETHER = {1: 4, 3: 12}  # states that a loop multiplies at once, by its products of a fragment
DENSE = 0.92  # of the bandwidth of a copy that a dense product reaches
TILE = 4096


class Products:
    """Launches of the product of some states with rows of a head of bfloat16."""

    def __init__(self, model):
        self.model = model
        self.kernel = "strips_of_bfloats block"
        self.loops = model.gate.products(self.kernel)

    def lane(self, loop):
        """Bytes of weights that a thread loads in it: the states are half as much as the products
        want, and are read beside them."""
        return loop.wide - 8 * loop.counts["tensor"]

    def of(self, rows, width, states, of_rows=None):
        """Of lists with so many `rows`, of a head with `of_rows`."""
        strips = -(-rows // STRIP)
        segments = -(-(of_rows or rows) // STRIP // SEGMENT)
        blocks = self.model.gpu.processors * self.model.resident(self.kernel)

        def products_of_a_fragment(loop):
            return round(16 * loop.counts["tensor"] / self.lane(loop))

        few = min(self.loops, key=products_of_a_fragment)
        many = max(self.loops, key=products_of_a_fragment)
        loop = few if states <= TOGETHER[1] else many
        times = -(-states // TOGETHER[min(3, products_of_a_fragment(loop))])
        return [Small("plan_of_a_head block", segments + states),
                Stream(self.kernel, blocks, loop, self.lane(loop), strips,
                       STRIP * width * 2, times)]


def rows(model):
    products = Products(model)
    found = []

    def add(name, rows, states, wanted):
        launches = products.of(rows, WIDTH, states, VOCAB)
        time, bound = model.total(launches)
        floor = model.at_copy(rows * WIDTH * 2)
        found.append(Row(name, "us", time, bound))
        found.append(Row(f"{name}: weights at copy bandwidth / time", "", floor / time, bound,
                         share(wanted)))
        return time

    add("head of 128256 x 4096 bf16, 1 hidden state", VOCAB, 1, 0.90)
    listed = [add(f"head, 27008 rows in 211 clusters, {states} hidden state{'s' * (states > 1)}",
                  LISTED, states, wanted) for states, wanted in ((1, 0.85), (10, 0.75))]

    # The epilogue reads the logits that have just been written, a tile each, once more for the sum.
    # What it costs to rank the best children is that of its barriers.
    loops = model.gate.streams("summary_of_rows block", 8)
    barriers = model.gate.kernels["summary_of_rows block"].barriers
    for states, without in zip((1, 10), listed):
        tiles = -(-LISTED // TILE)
        summary = Launch("summary_of_rows", states * tiles,
                         [Pass(loops[0], TILE, 1, 4, "cache"), Pass(loops[1], TILE, 1, 4, "near"),
                          Pass(loops[1], TILE, 1, 4, "near")], barriers * model.gpu.barrier)
        time = without + model.time(summary)[0]
        found.append(Row("with laws and 10 best children / without, "
                         f"{states} hidden state{'s' * (states > 1)}", "", time / without, "chain"))

    time, bound = model.total(products.of(VOCAB, WIDTH, 64))
    size = VOCAB * WIDTH * 2
    dense = model.gpu.node + model.at_copy(size) / DENSE + model.at_copy(64 * VOCAB * 4)
    found.append(Row("head of 128256 x 4096 bf16, 64 hidden states", "us", time, bound))
    found.append(Row("head of 128256 x 4096 bf16, 64 hidden states: time / a dense product's", "",
                     time / dense, bound, at_most(1.2)))
    return found
