# SPDX-License-Identifier: Apache-2.0
"""Draws what selectors keep of the acceptance length, from the rows of the suite `vocab`.

    bench/run.sh vocab --json vocab.json && python3 bench/vocab/plot.py vocab.json docs/images/vocab.svg
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
import svg  # noqa: E402

CURVES = [
    ("oracle", "oracle", "#7f7f7f", "4 3"),
    ("DynaSpec fixed", "DynaSpec", "#d62728", ""),
    ("FR-Spec", "FR-Spec", "#1f77b4", ""),
    ("VocabTrim", "VocabTrim", "#2ca02c", ""),
]
SHARES = (5, 10, 20)
VOCABULARY = 32000
WIDTH, HEIGHT = 330, 230
LEFT, TOP, GAP = 60, 40, 60


def panel_of(values, temperature):
    left = LEFT + temperature * (WIDTH + GAP)
    panel = svg.Panel(left, TOP, WIDTH, HEIGHT, (0, 22), (0.65, 1.02))
    panel.titles(f"T = {temperature}", "rows of the draft head, % of the vocabulary",
                 "" if temperature else "(acceptance length − 1) / that of the full head")
    panel.ticks(SHARES, (0.7, 0.8, 0.9, 1.0), y_format="{:.1f}")
    for name, _, colour, dash in CURVES:
        of = [f"EAGLE, mean, T = {temperature}, {name} {share} %: " for share in SHARES]
        panel.curve([(100 * values[row + "rows"] / VOCABULARY, values[row + "(length - 1) / full"])
                     for row in of], colour, dash)
    panel.legend([curve[1:] for curve in CURVES], left + WIDTH, TOP + HEIGHT - 16)
    return panel.parts


def main():
    values = svg.values_of(sys.argv[1])
    svg.write(sys.argv[2], LEFT + 2 * WIDTH + GAP + 20, TOP + HEIGHT + 55,
              panel_of(values, 0) + panel_of(values, 1))


if __name__ == "__main__":
    main()
