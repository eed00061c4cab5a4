# SPDX-License-Identifier: Apache-2.0
"""Which rows may miss their goals: those of a list, for the reason that stands there."""

import re


def read_list(path):
    """The compiler that it is of, and names of rows, a line each; # begins a comment."""
    text = path.read_text()
    lines = (line.strip() for line in text.splitlines())
    return (re.search(r"by nvcc ([\d.]+\d)", text).group(1),
            [line for line in lines if line and not line.startswith("#")])


def faults(rows, known):
    """A goal that is missed and not in the list, and a row of the list that is not missed."""
    with_goals = {row.name: row for row in rows if row.goal is not None}
    for name, row in with_goals.items():
        if not row.met() and name not in known:
            yield f"misses its goal with the margin: {name}"
        if row.met() and name in known:
            yield f"meets its goal, take it off the list: {name}"
    for name in known:
        if name not in with_goals:
            yield f"in the list, and no row with a goal: {name}"
