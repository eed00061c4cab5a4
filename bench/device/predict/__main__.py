# SPDX-License-Identifier: Apache-2.0
"""How long rows of the device suites would take, read off the compiled kernels.

    predict FOLDER STEPS [--gpu NAME] [--json FILE] [--table] [--misses FILE]

FOLDER is that of the compile gate for sm_90. A kernel is disassembled, and the loops that stream
rows are found in it: how many instructions an element costs, of which kind, and how many loads a
thread has under way. A launch then takes as long as the slowest of

    bytes    what it reads, at the bandwidth of a copy, or of as many multiprocessors as it has
    issue    its instructions, all multiprocessors busy
    chain    what one team does after each other: trips to memory, instructions, barriers

and what a launch costs anyhow. STEPS has the launches of whole steps, as the program step_launches
prints them. A row with a goal must be predicted to meet it with a margin to spare, or be named in
the list of those that are known to miss, which names no others.

Needs nvdisasm, of a CUDA toolkit or of the package nvidia-cuda-nvdisasm of PyPI. Exits with 77
where there is none, or the list is that of another compiler, and with 1 if a row misses its goal, or
meets it against the list.
"""

import argparse
import json
import pathlib
import sys

import adapters
import heads
import laws
import routers
import shards
import steps
from gpu import GPUS
from listing import disassembler
from misses import faults, read_list
from model import Gate, Model

NOT_RUN = 77
HERE = pathlib.Path(__file__).resolve().parent


def goal_of(row):
    sense, wanted = row.goal
    return f"{'≤' if sense == 'at most' else '≥'} {wanted:g}"


def verdict_of(row):
    if row.goal is None:
        return ""
    return f"{goal_of(row)}, {'met' if row.met() else 'missed'}"


def main():
    parser = argparse.ArgumentParser(prog="predict", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder")
    parser.add_argument("steps", type=pathlib.Path)
    parser.add_argument("--gpu", choices=GPUS, default="h200")
    parser.add_argument("--json", type=pathlib.Path)
    parser.add_argument("--table", action="store_true", help="print the rows as a page has them")
    parser.add_argument("--misses", type=pathlib.Path, default=HERE / "known_misses.txt")
    args = parser.parse_args()
    nvdisasm = disassembler()
    if nvdisasm is None:
        print("SKIPPED: no nvdisasm")
        return NOT_RUN
    gate = Gate(args.folder, nvdisasm)
    parts = [laws, heads, routers, steps, adapters, shards]
    for file in dict.fromkeys(file for part in parts for file in part.FILES):
        gate.read(file)
    model = Model(GPUS[args.gpu], gate, json.loads(args.steps.read_text()))
    rows = [row for part in parts for row in part.rows(model)]
    for row in rows:
        if args.table:
            unit = f" {row.unit.replace('us', 'µs')}" if row.unit else ""
            value = row.value if isinstance(row.value, int) else f"{row.value:.2f}"
            print(f"| {row.name} | {value}{unit} | {row.bound} | {verdict_of(row)} |")
        else:
            print(f"{row.name:<84} {row.value:8.2f} {row.unit:<3} {row.bound:<8} {verdict_of(row)}")
    if args.json:
        args.json.write_text(json.dumps(
            {"gpu": args.gpu,
             "rows": [{"name": r.name, "unit": r.unit, "predicted": r.value, "bound": r.bound,
                       "goal": None if r.goal is None else r.goal[1],
                       "met": None if r.goal is None else r.met()} for r in rows]},
            indent=1) + "\n")
    release, known = read_list(args.misses)
    if release != gate.release:
        print(f"SKIPPED: the list of misses is that of nvcc {release}, this is {gate.release}")
        return NOT_RUN
    found = list(faults(rows, known))
    print("\n".join(found))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
