# SPDX-License-Identifier: Apache-2.0
"""Where the time of a step goes: by `perf`, of a preset of `generate` at a temperature.

    python3 bench/tune/profile.py build-bench/examples/generate --preset eagle --temperature 1 --threads 1

Prints a table of shares: what the models compute, the head over shortlists, the router and the choice of clusters, laws,
drawing and verification, and the rest. A plain run and a speculative one take turns, and what only loading does is left
out.
"""
import re
import subprocess
import sys
import tempfile
from pathlib import Path

# The first one whose pattern a symbol has.
GROUPS = (("loading", r"packed_matrix::|fingerprint|draft_head::draft_head|basic_string|sentencepiece|ld-linux|istream"),
          ("models: layers and heads", r"engine::"),
          ("head over shortlists", r"head_product|dot_rows|prepare_head|multiply_strips|logits_of"),
          ("router and choice of clusters", r"sliced_rows|dense_layer|choose_clusters|router|layout_view|selector"),
          ("laws, drawing, verification", r"hunch::"),
          ("copies and fills", r"mem(move|cpy|set)|clear_page|page_fault|\[k\]"))


def shares(program, flags, seconds=12):
    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder) / "perf.data"
        # More rounds than there is time for.
        command = ["timeout", str(seconds), program, *flags, "--rounds", "1000", "--max-new-tokens", "96", "--color", "never",
                   "--ignore-end"]
        subprocess.run(["perf", "record", "-F", "2000", "-o", data, "--", *command], capture_output=True, check=False)
        said = subprocess.run(["perf", "report", "-i", data, "--no-children", "--stdio", "-F", "overhead,sym"],
                              capture_output=True, text=True, check=True).stdout
    found, rest = dict.fromkeys((name for name, _ in GROUPS), 0.0), 0.0
    for line in said.splitlines():
        match = re.match(r"\s*([\d.]+)%\s+(.*)", line)
        if not match:
            continue
        share, symbol = float(match[1]), match[2]
        name = next((name for name, pattern in GROUPS if re.search(pattern, symbol)), None)
        if name:
            found[name] += share
        else:
            rest += share
    return {**found, "rest": rest}


def main():
    program, *flags = sys.argv[1:]
    found = shares(program, flags)
    found.pop("loading")
    total = sum(found.values())
    for name, share in found.items():
        print(f"| {name} | {100 * share / total:.1f} % |")


if __name__ == "__main__":
    main()
