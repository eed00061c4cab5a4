# SPDX-License-Identifier: Apache-2.0
"""Draws what selectors keep of the acceptance length, from the rows of the suite `vocab`.

    bench/run.sh vocab --json vocab.json && python3 bench/vocab/plot.py vocab.json docs/images/vocab.svg
"""

import json
import sys

CURVES = [
    ("oracle", "oracle", "#7f7f7f", "4 3"),
    ("DynaSpec fixed", "DynaSpec", "#d62728", ""),
    ("FR-Spec", "FR-Spec", "#1f77b4", ""),
    ("VocabTrim", "VocabTrim", "#2ca02c", ""),
]
SHARES = (5, 10, 20)
WIDTH, HEIGHT = 330, 230
LEFT, TOP, GAP = 60, 40, 60
LOW, HIGH = 0.70, 1.02


def x_of(panel, share):
    return LEFT + panel * (WIDTH + GAP) + WIDTH * share / 22


def y_of(value):
    return TOP + HEIGHT * (HIGH - value) / (HIGH - LOW)


def text(x, y, words, anchor="middle", size=12, colour="#333", turn=""):
    return (f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-size="{size}" '
            f'fill="{colour}"{turn}>{words}</text>')


def panel_of(values, panel):
    left, right = x_of(panel, 0), x_of(panel, 22)
    out = [f'<rect x="{left:.1f}" y="{TOP}" width="{WIDTH}" height="{HEIGHT}" fill="none" stroke="#999"/>',
           text((left + right) / 2, TOP - 12, f"T = {panel}", size=14),
           text((left + right) / 2, TOP + HEIGHT + 38, "rows of the draft head, % of the vocabulary")]
    for share in SHARES:
        out.append(text(x_of(panel, share), TOP + HEIGHT + 18, str(share)))
    for tick in (0.7, 0.8, 0.9, 1.0):
        y = y_of(tick)
        out.append(f'<line x1="{left:.1f}" y1="{y:.1f}" x2="{right:.1f}" y2="{y:.1f}" stroke="#ddd"/>')
        out.append(text(left - 8, y + 4, f"{tick:.1f}", "end"))
    for name, label, colour, dash in CURVES:
        points = []
        for share in SHARES:
            of = f"EAGLE, mean, T = {panel}, {name} {share} %: "
            points.append((100 * values[of + "rows"] / 32000, values[of + "(length - 1) / full"]))
        path = " ".join(f"{x_of(panel, x):.1f},{y_of(y):.1f}" for x, y in points)
        out.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2" '
                   f'stroke-dasharray="{dash}"/>')
        out += [f'<circle cx="{x_of(panel, x):.1f}" cy="{y_of(y):.1f}" r="3.5" fill="{colour}"/>'
                for x, y in points]
        row = TOP + HEIGHT - 16 * (len(CURVES) - CURVES.index((name, label, colour, dash)))
        out.append(f'<line x1="{right - 104:.1f}" y1="{row - 4}" x2="{right - 82:.1f}" y2="{row - 4}" '
                   f'stroke="{colour}" stroke-width="2" stroke-dasharray="{dash}"/>')
        out.append(text(right - 76, row, label, "start"))
    return out


def main():
    with open(sys.argv[1], encoding="utf-8") as file:
        values = {row["name"]: row["value"] for row in json.load(file)["rows"]}
    width, height = LEFT + 2 * WIDTH + GAP + 20, TOP + HEIGHT + 55
    turn = f' transform="rotate(-90 16 {TOP + HEIGHT / 2})"'
    body = [f'<rect width="{width}" height="{height}" fill="white"/>',
            text(16, TOP + HEIGHT / 2, "(acceptance length − 1) / that of the full head", turn=turn)]
    body += panel_of(values, 0) + panel_of(values, 1)
    with open(sys.argv[2], "w", encoding="utf-8") as file:
        file.write(f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
                   'font-family="sans-serif">\n' + "\n".join(body) + "\n</svg>\n")


if __name__ == "__main__":
    main()
