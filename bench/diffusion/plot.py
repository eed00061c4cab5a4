# SPDX-License-Identifier: Apache-2.0
"""Draws passes and canvases over the number of drafts, and what lossy verification saves and changes, of the suite
`diffusion`.

    bench/run.sh diffusion --json diffusion.json
    python3 bench/diffusion/plot.py diffusion.json docs/images/diffusion.svg
"""

import re
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
import svg  # noqa: E402

COLOURS = {"0": "#1f77b4", "0.5": "#2ca02c", "1": "#d62728"}
HEAD, CHAIN = "7 3", "1 3"  # dashes
LEFT, TOP, WIDTH, HEIGHT, GAP = 70, 40, 330, 260, 90


def by_drafts(values, temperature, what, drafter=""):
    """[(N, mean over the domains)]"""
    pattern = re.compile(rf"{drafter}N = (\d+), T = {re.escape(temperature)}: {re.escape(what)}")
    found = ((pattern.fullmatch(name), value) for name, value in values.items())
    return sorted((int(match[1]), value) for match, value in found if match)


def lossy(values, temperature):
    """[(passes, tokens that differ, which drafts are taken)]"""
    pattern = re.compile(rf"lossy, (.+), N = 4, T = {re.escape(temperature)}: passes / one token a pass")
    rows = []
    for name, value in values.items():
        match = pattern.fullmatch(name)
        if match:
            rows.append((value, values[f"lossy, {match[1]}, N = 4, T = {temperature}: tokens that differ"], match[1]))
    return rows


def main():
    values = svg.values_of(sys.argv[1])
    temperatures = [t for t in COLOURS if by_drafts(values, t, "passes / one token a pass")]
    lefts = [LEFT + (WIDTH + GAP) * i for i in range(3)]

    passes = svg.Panel(lefts[0], TOP, WIDTH, HEIGHT, (0.5, 8.5), (0, 1))
    passes.titles("lossless", "drafts N", "passes / one token a pass")
    passes.ticks(range(1, 9), [0, 0.2, 0.4, 0.6, 0.8, 1])
    canvases = svg.Panel(lefts[1], TOP, WIDTH, HEIGHT, (0.5, 8.5), (1, 6))
    canvases.titles("what it costs", "drafts N", "canvases / one token a pass")
    canvases.ticks(range(1, 9), [1, 2, 3, 4, 5, 6])
    changed = svg.Panel(lefts[2], TOP, WIDTH, HEIGHT, (0.15, 0.7), (0, 1.05))
    changed.titles("four drafts, unmasked if among the k best", "passes / one token a pass", "tokens that differ")
    changed.ticks([0.2, 0.3, 0.4, 0.5, 0.6, 0.7], [0, 0.2, 0.4, 0.6, 0.8, 1])
    for t in temperatures:
        for drafter, dashes in (("", ""), ("head, ", HEAD)):
            passes.curve(by_drafts(values, t, "passes / one token a pass", drafter), COLOURS[t], dashes)
            canvases.curve(by_drafts(values, t, "canvases / one token a pass", drafter), COLOURS[t], dashes)
        passes.curve(by_drafts(values, t, "passes / one token a pass", "chain, "), COLOURS[t], CHAIN)
        of_t = lossy(values, t)
        exact = dict(by_drafts(values, t, "passes / one token a pass"))[4]
        changed.curve(sorted((x, y) for x, y, _ in of_t), COLOURS[t])
        changed.curve([(exact, 0.0)], COLOURS[t])
    for x, y, name in lossy(values, temperatures[-1]):
        changed.parts.append(svg.text(changed.x(x), changed.y(y) + 18, name, "middle", size=9))
    changed.parts.append(svg.text(changed.x(exact) - 8, changed.y(0.0) - 8, "lossless", "end", size=9))
    bound = by_drafts(values, temperatures[0], "if every draft were unmasked")
    passes.curve(bound, "#999", "2 3")
    head = [("by a head", "#555", HEAD)] if by_drafts(values, temperatures[0], "tokens per second", "head, ") else []
    legend = [*((f"T = {t}", COLOURS[t], "") for t in temperatures), ("in a chain", "#555", CHAIN), *head,
              ("1 / (N + 1)", "#999", "2 3")]
    passes.legend(legend, lefts[0] + WIDTH - 10, TOP + 4 + 16 * len(legend))
    canvases.legend([(f"T = {t}", COLOURS[t], "") for t in temperatures],
                    lefts[1] + WIDTH - 10, TOP + HEIGHT - 12)
    svg.write(sys.argv[2], lefts[2] + WIDTH + 30, TOP + HEIGHT + 60, passes.parts + canvases.parts + changed.parts)


if __name__ == "__main__":
    main()
