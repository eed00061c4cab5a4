# SPDX-License-Identifier: Apache-2.0
"""Rows of a router and the choice of clusters: what a step launches between the contexts of a level
and its shortlists."""

import steps
from model import Row, at_most

FILES = steps.FILES
BEFORE, AFTER = "ask_level", "list_level"


def part_of(step):
    """The launches of the first level's router."""
    names = [each["body"] for each in step]
    return step[names.index(BEFORE) + 1:names.index(AFTER)]


def rows(model):
    found = []
    for name, contexts, goal in (("routed chain of 1", 1, at_most(10.0)),
                                 (steps.TREE, 10, None)):
        launches = steps.Bodies(model).launches(part_of(model.steps[name]), name)
        time, bound = model.total(launches)
        found.append(Row(f"router of 8192 x 1024 x 1008 bf16 and its choice, {contexts} "
                         f"context{'s' * (contexts > 1)}", "us", time, bound, goal))
    return found
