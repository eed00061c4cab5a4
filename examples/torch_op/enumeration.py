# SPDX-License-Identifier: Apache-2.0
"""Exact laws by enumeration.

Probabilities are sixteenths and uniforms are the middles of equal cells. Where the number of cells is a multiple of
every denominator that a rule meets, counting cells integrates over the uniforms without an error.
"""
import torch

V, CELLS = 4, 80
WHOLE = (1, 2, 4, 5, 8, 10, 16)  # sixteenths that may be left to draw from: CELLS is a multiple of each


def middles(cells):
    return (torch.arange(cells) + 0.5) / cells


def sixteenths(*shape):
    """Random laws, all positive."""
    cuts = torch.rand(*shape, 15).argsort(-1)[..., :V - 1].sort(-1).values + 1
    ends = torch.cat([torch.zeros_like(cuts[..., :1]), cuts, torch.full_like(cuts[..., :1], 16)], -1)
    return ends.diff(dim=-1) / 16


def redraw(draw, wanted):
    """Repeats a draw until `wanted` holds for it."""
    while True:
        drawn = draw()
        if wanted(drawn):
            return drawn


def continued(tokens, count, weights, p1, p2):
    """The law of three tokens: those emitted, [N, 3] with `count` valid, then plain decoding by p1, p2."""
    law = torch.zeros(V, V, V, dtype=torch.double)
    p1, p2 = p1.double(), p2.double()
    for (a, b, c), m, w in zip(tokens.tolist(), count.tolist(), weights.tolist()):
        if m == 1:
            law[a] += w * p1[a][:, None] * p2[a]
        elif m == 2:
            law[a, b] += w * p2[a, b]
        else:
            law[a, b, c] += w
    return law


def grouped(tokens, count, weights):
    """Adds up the weights of equal rows."""
    tokens = torch.where(torch.arange(3) < count[:, None], tokens, 0)
    rows, where = torch.cat([tokens, count[:, None]], 1).unique(dim=0, return_inverse=True)
    return rows[:, :3], rows[:, 3], torch.zeros(len(rows), dtype=torch.double).index_add(0, where, weights.double())


def gap(law, p0, p1, p2):
    """The distance in total variation from plain decoding."""
    plain = p0.double()[:, None, None] * p1.double()[:, :, None] * p2.double()
    return (law - plain).abs().sum().item() / 2
