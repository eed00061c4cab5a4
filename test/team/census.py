#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Says which kernel bodies of the headers no team of threads has run under the race check.

    census.py HEADERS CENSUS... [--without BODY]

A CENSUS is what a program of the race check writes (support/body_census.hpp). Every body has to be
there by a block, and one that reads whole rows, which a device may run by a cluster, by a cluster
as well. With --without BODY that body is taken out of what was run, to see that it is missed.
"""

import argparse
import pathlib
import re
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "device"))
import bodies

# Bodies that the library launches as part of another one only.
PART_OF = {
    "choose_unmaskings": "draft_next",
    "expand_dynamic": "end_level",
    "keep_best": "finish_dynamic",
}

# A body of the library: its type, up to the arguments of its template.
TYPE = re.compile(r"(block|cluster) (?:\w+::)*(\w+)(?:<|$)")


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("headers", type=pathlib.Path)
    parser.add_argument("census", type=pathlib.Path, nargs="+")
    parser.add_argument("--without", default="")
    options = parser.parse_args()
    ran = set()
    for census in options.census:
        for line in census.read_text().splitlines():
            if found := TYPE.match(line):
                ran.add(found.groups())
    ran = {(team, name) for team, name in ran if name != options.without}
    missing = 0
    known = bodies.bodies_of(options.headers)
    for name, (header, text) in known.items():
        if name in bodies.NO_KERNEL:
            continue
        teams = ["block", "cluster"] if "bool reads_rows = true" in text else ["block"]
        for team in teams:
            if (team, PART_OF.get(name, name)) not in ran:
                print(f"{header}: no {team} of threads has run the body {name}")
                missing += 1
    print(f"{len(known)} bodies, {missing} are missing")
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main())
