# SPDX-License-Identifier: Apache-2.0
"""Prints the rows of the suite `speculative_sampling` as tables: for each draft model, head and temperature one row per
draft length, with what was measured and what formulas predict of it.

    bench/run.sh speculative_sampling --json FILE
    python3 bench/speculative_sampling/table.py FILE
"""

import json
import re
import sys
from pathlib import Path

COLUMNS = [("tokens per step", "tokens"), ("tokens per step by alpha", "by α"),
           ("cost of the target's rows, r", "r(γ + 1)"), ("speed-up by alpha and c", "speed-up by α, c"),
           ("speed-up by alpha, c and r", "by α, c, r"), ("speed-up by position, c and r", "by position, c, r"),
           ("speed-up", "measured"), ("operations by alpha", "operations by α"), ("operations counted", "counted")]
SCALARS = ["acceptance in generation, alpha", "acceptance expected along text",
           "cost of a draft / of a target's row, c"]
CHOICES = ["alpha and c", "alpha, c and r", "position, c and r"]


def tables(values):
    """(what was measured, T) in the order of the rows."""
    found = [re.fullmatch(r"(.*, T = [01]): acceptance in generation, alpha", name) for name in values]
    return [match[1] for match in found if match]


def table(values, name):
    lengths = sorted(int(match[1]) for row in values
                     if (match := re.fullmatch(re.escape(name) + r", drafts of (\d+): speed-up", row)))
    alpha, along_text, c = (values[f"{name}: {row}"] for row in SCALARS)
    print(f"\n{name}: α = {alpha:.3f}, along text {along_text:.3f}, c = {c:.3f}\n")
    print("| γ | " + " | ".join(title for _, title in COLUMNS) + " |")
    print("|---" * (len(COLUMNS) + 1) + "|")
    for length in lengths:
        print(f"| {length} | " + " | ".join(f"{values[f'{name}, drafts of {length}: {row}']:.2f}"
                                            for row, _ in COLUMNS) + " |")
    best = values[f"{name}: best draft length measured"]
    print(f"\nBest: γ = {best:.0f}, {values[f'{name}: speed-up of that']:.2f}. Chosen " + "; ".join(
        f"by {by}: {values[f'{name}: draft length by {by}']:.0f}, which gives "
        f"{values[f'{name}: speed-up of that by {by} / best']:.2f} of it" for by in CHOICES) + ".")


def main():
    rows = json.loads(Path(sys.argv[1]).read_text())["rows"]
    values = {row["name"]: row["value"] for row in rows}
    for name in tables(values):
        table(values, name)


if __name__ == "__main__":
    main()
