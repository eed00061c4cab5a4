# SPDX-License-Identifier: Apache-2.0
"""Draws the speed-up of every drafter, and tokens per second over the draft length, of the suite `drafters`.

    bench/run.sh drafters --json drafters.json
    python3 bench/drafters/plot.py drafters.json docs/images/drafters.svg

HUNCH_BENCH_DRAFTS=DIR:DIR adds draft models of other sizes (train_draft.py --size, export.py) to the second part.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
import svg  # noqa: E402

DRAFTERS = ["draft model", "EAGLE", "EAGLE, DynaSpec", "EAGLE-2", "EAGLE-2, DynaSpec", "Medusa",
            "Medusa, DynaSpec", "early exit", "early exit, DynaSpec", "int4", "int4, DynaSpec", "lookup"]
AT = [(1, "#d62728"), (0, "#1f77b4")]
SWEPT = [("EAGLE", "EAGLE", "#d62728"), ("draft model, d = 256", "draft, d = 256", "#9467bd"),
         ("draft model", "draft, d = 128", "#1f77b4"), ("draft model, d = 64", "draft, d = 64", "#2ca02c")]
LENGTHS = range(1, 7)
BAR, GROUP = 9, 25
LEFT, TOP, WIDTH, GAP = 150, 40, 330, 70


def bars(values):
    """A group of two bars for every drafter: its speed-up, and the acceptance length written beside it."""
    height = GROUP * len(DRAFTERS)
    top = max(values[f"{name}, T = {t}: speed-up"] for name in DRAFTERS for t, _ in AT)
    panel = svg.Panel(LEFT, TOP, WIDTH, height, (0, 1.35 * top), (height, 0))
    panel.titles("every drafter", "speed-up over plain decoding; beside it the acceptance length")
    panel.ticks([tick / 2 for tick in range(7) if tick / 2 <= 1.35 * top], ())
    for i, name in enumerate(DRAFTERS):
        y = TOP + GROUP * i + 3
        panel.parts.append(svg.text(LEFT - 8, y + BAR + 4, name, "end"))
        for j, (t, colour) in enumerate(AT):
            speed_up = values[f"{name}, T = {t}: speed-up"]
            length = values[f"{name}, T = {t}: mean acceptance length"]
            right = panel.x(speed_up)
            panel.parts.append(f'<rect x="{LEFT}" y="{y + BAR * j}" width="{right - LEFT:.1f}" '
                               f'height="{BAR}" fill="{colour}"/>')
            panel.parts.append(svg.text(right + 4, y + BAR * (j + 1) - 1, f"{speed_up:.2f} ({length:.2f})",
                                        "start", size=9))
    one = panel.x(1)
    panel.parts.append(svg.line(one, TOP, one, TOP + height, "#333", 1, "3 3"))
    panel.legend([(f"T = {t}", colour, "") for t, colour in AT], LEFT + WIDTH - 16, TOP + 7 * GROUP)
    return panel.parts, height


def lengths(values, temperature, place, height):
    swept = [entry for entry in SWEPT if f"{entry[0]}, drafts of 1, T = 1: tokens per second" in values]
    left = LEFT + (WIDTH + GAP) * place
    rows = {name: [values[f"{name}, drafts of {n}, T = {temperature}: tokens per second"] for n in LENGTHS]
            for name, _, _ in swept}
    by_cost = {name: values[f"{name}, drafts by cost, T = {temperature}: tokens per second"] for name, _, _ in swept}
    rates = [rate for of in rows.values() for rate in of] + list(by_cost.values())
    low, high = 200 * int(min(rates) / 200), 200 * (int(max(rates) / 200) + 1)
    panel = svg.Panel(left, TOP, WIDTH, height, (0.5, 6.5), (low, high))
    panel.titles(f"T = {temperature}", "draft length; dashed: as long as pays", "tokens per second")
    panel.ticks(LENGTHS, range(low, high + 1, 200))
    for name, _, colour in swept:
        panel.curve(list(zip(LENGTHS, rows[name])), colour)
        y = panel.y(by_cost[name])
        panel.parts.append(svg.line(left, y, left + WIDTH, y, colour, 1, "4 3"))
    if temperature == 1:  # where there is room
        panel.legend([(label, colour, "") for _, label, colour in swept], left + 150, TOP + height - 16)
    return panel.parts


def main():
    values = svg.values_of(sys.argv[1])
    parts, height = bars(values)
    for place, temperature in enumerate((0, 1), start=1):
        parts += lengths(values, temperature, place, height)
    svg.write(sys.argv[2], LEFT + 3 * WIDTH + 2 * GAP + 20, TOP + height + 55, parts)


if __name__ == "__main__":
    main()
