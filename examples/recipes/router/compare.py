# SPDX-License-Identifier: Apache-2.0
"""Trains routers that differ in one thing each, and prints what they keep: the table of
docs/policies/selectors.md.

    python -m router.record --work DIR --drafter eagle
    python -m router.compare --work DIR [--minutes N] [--only NAME ...] [--out FILE]

Every variant has the same time to learn and is measured as router/evaluate.py does, the mean over the
held-out domains, and beside it a static list and the best choice of its clusters. Layouts are made by
`make_layout`, on the path or named by MAKE_LAYOUT. Files stay in DIR/compare, and what is there already is not
made again.
"""
import argparse
import json
import os
import subprocess
import sys
from pathlib import Path

from shipped import MODELS

CORE = 300
# name: what differs from the first one. `core` 0 and `reads` before are the paper's.
VARIANTS = {
    "shipped": {},
    "reads before, width 256": {"reads": "before"},
    "reads before, width 512": {"reads": "before", "width": 512},
    "width 32": {"width": 32},
    "width 64": {"width": 64},
    "width 128": {"width": 128},
    "width 512": {"width": 512},
    "128 clusters": {"clusters": 128},
    "512 clusters": {"clusters": 512},
    "1,024 clusters": {"clusters": 1024},
    "64 clusters": {"clusters": 64},
    "64 clusters: eight parts of each domain": {"clusters": "domains"},
    "no core": {"core": 0},
    "core of 1,000": {"core": 1000},
    "labels: the target's mass": {"labels": "mass"},
    "labels: the target's ten best": {"labels": "top"},
    "loss: one for each cluster": {"loss": "each"},
    "labels: ten best, loss: one for each": {"labels": "top", "loss": "each"},
    "as published, labels: overlap, loss: law": {"reads": "before", "core": 0},
    "as published, labels: mass, loss: law": {"reads": "before", "core": 0, "labels": "mass"},
    "as published, labels: ten best, loss: each": {"reads": "before", "core": 0, "labels": "top", "loss": "each"},
}


def module(name, *arguments):
    subprocess.run([sys.executable, "-m", name, *map(str, arguments)], check=True)


def layout_of(folder, work, clusters, core):
    file = folder / f"layout-{clusters}-{core}.safetensors"
    if not file.exists() and clusters == "domains":
        module("text.domains", "--work", work, "--core", core, "--out", file)
    if not file.exists():
        frequent = () if core == 0 else ("--core", core, "--rare", "3:259", "--frequency", MODELS / "frequency.safetensors")
        subprocess.run([os.environ.get("MAKE_LAYOUT", "make_layout"), "--model", MODELS / "target", "--clusters",
                        str(clusters), *map(str, frequent), "--out", file], check=True)
    return file


def measured(folder, work, variant, minutes):
    """What router/evaluate.py says of a variant."""
    settings = {"clusters": 256, "core": CORE, "reads": "state", "width": 256, "labels": "overlap", "loss": "law", **variant}
    layout = layout_of(folder, work, settings.pop("clusters"), settings.pop("core"))
    name = "-".join([layout.stem, *(str(v) for v in settings.values()), f"{minutes:g}"])
    router, result = folder / f"{name}.safetensors", folder / f"{name}.json"
    if not router.exists():
        flags = [word for key, value in settings.items() for word in (f"--{key}", value)]
        module("router.train", "--work", work, "--drafter", "eagle", "--layout", layout, "--out", router,
               "--minutes", minutes, *flags)
    if not result.exists():
        module("router.evaluate", "--depths", 4, "--windows", 2, "--context", 260, "--layout", layout, "--router", router,
               "--json", result)
    return json.loads(result.read_text())


def cell(of, by):
    """Per cent kept, a number for each share of the rows."""
    return " / ".join(f"{100 * of[share][by]:.1f}" for share in of)


def line(*cells):
    print("| " + " | ".join(cells) + " |", flush=True)


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    arguments.add_argument("--work", type=Path, required=True)
    arguments.add_argument("--minutes", type=float, default=3)
    arguments.add_argument("--only", nargs="+", choices=VARIANTS, default=list(VARIANTS))
    arguments.add_argument("--out", type=Path, help="the rows as JSON")
    options = arguments.parse_args()
    folder = options.work / "compare"
    folder.mkdir(exist_ok=True)
    rows = {}
    print("| | T = 1 | best choice | T = 0 | best choice |\n|---|---|---|---|---|", flush=True)
    for name in options.only:
        rows[name] = measured(folder, options.work, VARIANTS[name], options.minutes)
        line(name, *(cell(rows[name][t], by) for t in ("1", "0") for by in ("routed", "oracle")))
    any_of = next(iter(rows.values()))  # of a list that no variant changes
    line("static list", cell(any_of["1"], "listed"), "", cell(any_of["0"], "listed"), "")
    if options.out:
        options.out.write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
