#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Whether every refusal of the library is met by a wrong composition.

    coverage.py check ROOT      every message of a static_assert in include/hunch is pinned by lines
                                "// expect: TEXT" of files here, by one for each place that says it
    coverage.py control ROOT    the same check sees what is planted: a message that nothing pins, a
                                pin that could mean another message, an exception that is none

A pin counts for a message that contains it, if no other message does: which of two was printed, a
pin that is part of both does not say.
"""

import pathlib
import re
import sys

# Messages that no composition of a user's can meet, and why. A part of each.
EXCEPTIONS = {
    "the children of a dynamic tree are ranked": "tree::dynamic says so itself; the policy and the tests are made of it",
    "a node has at most 64 drawn children": "tree::sampled refuses more before; for bodies that are called directly",
    "tensors are stored as they lie in memory": "about the machine that it is compiled for",
}

ASSERT = re.compile(r"\bstatic_assert\s*\(")
LITERAL = re.compile(r'"((?:[^"\\]|\\.)*)"')
PIN = re.compile(r"^// expect: (.*)$", re.MULTILINE)


def messages_of(text):
    """The messages of the static_asserts of a header that say who refuses."""
    found = []
    for start in ASSERT.finditer(text):
        depth, at, message = 1, start.end(), ""
        while depth > 0:
            literal = LITERAL.match(text, at)
            if literal:
                message += literal[1]
                at = literal.end()
                continue
            depth += {"(": 1, ")": -1}.get(text[at], 0)
            if depth == 1 and text[at] == ",":
                message = ""  # what came before is part of the condition
            at += 1
        if message.startswith("hunch:"):
            found.append(message)
    return found


def faults(messages, pins, exceptions):
    found = []
    distinct = sorted(set(messages))
    means = {pin: [message for message in distinct if pin in message] for pin in pins}
    found += [f"'{pin}' is in {len(of)} messages" for pin, of in sorted(means.items()) if len(of) > 1]
    excepted = {message for part in exceptions for message in distinct if part in message}
    found += [f"no message has '{part}'" for part in exceptions if not any(part in m for m in distinct)]
    for message in distinct:
        wanted = 0 if message in excepted else messages.count(message)
        pinned = sum(means[pin] == [message] for pin in pins)
        if pinned < wanted:
            found.append(f"pinned by {pinned} of {wanted}: {message}")
        if pinned > 0 and message in excepted:
            found.append(f"an exception, and pinned: {message}")
    return found


def read(root):
    headers = sorted((root / "include/hunch").rglob("*.hpp"))
    here = sorted((root / "test/compile_fail").glob("*.cpp"))
    messages = [m for path in headers for m in messages_of(path.read_text(encoding="utf-8"))]
    pins = [p for path in here for p in PIN.findall(path.read_text(encoding="utf-8"))]
    return messages, pins, EXCEPTIONS


def control(root):
    messages, pins, exceptions = read(root)
    planted = 'static_assert(of("(") > 0, "hunch: a"\n " \\"new\\" one");'
    new = messages_of(planted)[0]
    twice = next(m for m in messages if any(pin in m for pin in pins))
    other = twice + ", too"
    pin = next(p for p in pins if p in twice)
    trees = {
        f"pinned by 0 of 1: {new}": ([*messages, new], pins, exceptions),
        f"'{pin}' is in 2 messages": ([*messages, other], [*pins, other], exceptions),
        "no message has 'magic'": (messages, pins, {**exceptions, "magic": "none"}),
        f"an exception, and pinned: {twice}": (messages, pins, {**exceptions, twice: "none"}),
    }
    missed = [f"not seen: {fault}" for fault, tree in trees.items() if fault not in faults(*tree)]
    return missed if len(messages) > 50 else [*missed, f"only {len(messages)} messages"]


def main():
    if len(sys.argv) != 3 or sys.argv[1] not in ("check", "control"):
        sys.exit(__doc__)
    root = pathlib.Path(sys.argv[2])
    found = control(root) if sys.argv[1] == "control" else faults(*read(root))
    for fault in found:
        print(fault)
    sys.exit(1 if found else 0)


main()
