# SPDX-License-Identifier: Apache-2.0
"""Rows of heads over shortlists."""

import dataclasses

from gpu import WARPS
from model import Launch, Pass, Row, Small, Stream, at_most, share

FILES = ("head",)
VOCAB = 128256
WIDTH = 4096
LISTED = 27008  # rows of 211 clusters
STRIP = 16  # rows that a warp multiplies
TILES = {16: "", 32: "_by_2", 64: "_by_4"}  # states that are multiplied at once, and the kernel's name
PLANNED = 32  # strips of a list that a warp plans
HALVES = 64  # weights that a product of 16 states takes: each is multiplied with both halves of a state
DENSE = 0.92  # of the bandwidth of a copy that a dense product reaches
TILE = 4096


class Products:
    """Launches of the product of some states with rows of a head of bfloat16."""

    def __init__(self, model):
        self.model = model

    def of(self, rows, width, states, of_rows=None):
        """Of lists with so many `rows`, of a head with `of_rows`."""
        model = self.model
        strips = -(-rows // STRIP)
        planned = states * -(-(of_rows or rows) // STRIP // PLANNED)
        most = min(count for count in TILES if count >= states)
        kernel = f"strips_of_bfloats{TILES[most]} block"
        # Of the weights that a thread has under way while it multiplies those before, 16 bytes a load.
        lane = model.gate.usage[kernel]["loads"] * 16
        some = model.gate.kernels[kernel].products
        weights = some.counts["tensor"] * HALVES // (most // 16)
        step = dataclasses.replace(some, counts={pipe: n * 32 * lane / 2 / weights
                                                 for pipe, n in some.counts.items()})
        return [Small("plan_of_a_head block", -(-planned // WARPS)),
                Stream(kernel, model.gpu.processors * model.resident(kernel), step, lane, strips,
                       STRIP * width * 2, is_ahead=True)]


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
    reads = sorted(model.gate.streams("summary_of_rows block", 16), key=lambda loop: loop.cycles())
    largest, both = reads[0], reads[-1]
    barriers = model.gate.kernels["summary_of_rows block"].barriers
    for states, without in zip((1, 10), listed):
        tiles = -(-LISTED // TILE)
        summary = Launch("summary_of_rows", states * tiles,
                         [Pass(both, TILE, 1, 4, "cache"), Pass(largest, TILE, 1, 4, "near")],
                         barriers * model.gpu.barrier)
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
