# SPDX-License-Identifier: Apache-2.0
"""Draws speed-up and acceptance length of streams and of Medusa's heads, and of streams of other sizes, of the suite
`streaming`.

    bench/run.sh streaming --json streaming.json
    python3 bench/streaming/plot.py streaming.json docs/images/streams.svg

HUNCH_BENCH_STREAMS=DIR:DIR adds streams of other sizes (streams/train.py --layers ... --name ...,
export.py --name ...), HUNCH_BENCH_SHARED=DIR targets that were trained with theirs (--model shared).
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
import svg  # noqa: E402

SHAPES = ["one token", "two tokens", "three tokens", "four tokens", "two at one depth", "three at one depth",
          "five at one depth", "four in two levels", "four in three levels"]
SIZED = ["one token", "three at one depth"]
OF = [("streaming", "#d62728"), ("Medusa", "#1f77b4")]
BAR, GROUP = 9, 25
LEFT, TOP, WIDTH, GAP = 140, 40, 300, 220


def bars(values, place, title, rows, height):
    """rows: (label, [(name in the table, colour)]); a bar is a speed-up, with the acceptance length beside it."""
    left = LEFT + (WIDTH + GAP) * place
    panel = svg.Panel(left, TOP, WIDTH, height, (0.6, 1.7), (height, 0))
    panel.titles(title, "speed-up; beside it the acceptance length")
    panel.ticks([0.6, 0.8, 1, 1.2, 1.4, 1.6], ())
    for i, (label, of) in enumerate(rows):
        y = TOP + GROUP * i + 3
        panel.parts.append(svg.text(left - 8, y + BAR + 4, label, "end"))
        for j, (name, colour) in enumerate(of):
            if f"{name}: speed-up" not in values:
                continue
            speed_up, length = values[f"{name}: speed-up"], values[f"{name}: mean acceptance length"]
            right = panel.x(speed_up)
            panel.parts.append(f'<rect x="{left}" y="{y + BAR * j}" width="{right - left:.1f}" height="{BAR}" '
                               f'fill="{colour}"/>')
            panel.parts.append(svg.text(right + 4, y + BAR * (j + 1) - 1, f"{speed_up:.2f} ({length:.2f})", "start",
                                        size=9))
    one = panel.x(1)
    panel.parts.append(svg.line(one, TOP, one, TOP + height, "#333", 1, "3 3"))
    return panel


def sizes_of(values):
    """What was measured besides the shipped streams, in the order of the table."""
    end = f", {SIZED[0]}, T = 0: speed-up"
    return ["streaming", *(name.removesuffix(end) for name in values
                           if name.startswith("streaming, ") and name.endswith(end) and name != f"streaming{end}")]


def main():
    values = svg.values_of(sys.argv[1])
    sizes = sizes_of(values)
    heights = GROUP * len(SHAPES), GROUP * len(sizes) * len(SIZED)
    parts = []
    for place, t in enumerate((0, 1)):
        rows = [(shape, [(f"{name}, {shape}, T = {t}", colour) for name, colour in OF]) for shape in SHAPES]
        panel = bars(values, place, f"drafts, T = {t}", rows, heights[0])
        panel.legend([(name, colour, "") for name, colour in OF], panel.left + WIDTH + 10, TOP + heights[0] - 12)
        parts += panel.parts
    rows = [(f"{size.removeprefix('streaming, ')}: {shape}" if size != "streaming" else f"as shipped: {shape}",
             [(f"{size}, {shape}, T = 0", "#d62728"), (f"{size}, {shape}, T = 1", "#ff9896")])
            for shape in SIZED for size in sizes]
    panel = bars(values, 2, "streams of other sizes", rows, heights[1])
    panel.legend([("T = 0", "#d62728", ""), ("T = 1", "#ff9896", "")], panel.left + WIDTH + 34, TOP + heights[1] - 12)
    svg.write(sys.argv[2], LEFT + 3 * WIDTH + 2 * GAP + 20, TOP + max(heights) + 55, parts + panel.parts)


if __name__ == "__main__":
    main()
