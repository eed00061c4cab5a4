#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Says which kernel bodies of the headers the compile gate does not have.

    bodies.py HEADERS GATE

A body is a struct with a call operator of a team and an index. GATE is the folder of the gate's
files; there its name must stand behind the executor's way to launch it.
"""

import pathlib
import re
import sys

# What is no kernel by itself, and why.
NO_KERNEL = {
    "any_body": "asks what an executor can do",
    "plan_head": "prepare_head runs it",
    "look_ahead": "of ranks that have parts of a row, on the host",
}

CALL = re.compile(
    r"HUNCH_HOST_DEVICE(?: HUNCH_INLINE_ON_DEVICE)?\s+void operator\(\)\(\s*T& team,\s*std::int32_t\b"
    r"|HUNCH_HOST_DEVICE(?: HUNCH_INLINE_ON_DEVICE)?\s+void operator\(\)\(\s*T&,\s*std::int32_t\b"
)
STRUCT = re.compile(r"^(?:struct|class) (\w+)(?: final)?(?: :[^{;]*)? \{", re.MULTILINE)


def bodies_in(text: str) -> dict[str, str]:
    """The structs of a header, not indented, that a call operator stands in, with their text up to
    it."""
    found = {}
    for call in CALL.finditer(text):
        structs = list(STRUCT.finditer(text, 0, call.start()))
        if structs:
            found[structs[-1].group(1)] = text[structs[-1].start() : call.start()]
    return found


def bodies_of(headers: pathlib.Path) -> dict[str, tuple[pathlib.Path, str]]:
    """The header and the text of every body. They are known by their names without namespaces, so
    no two have the same."""
    bodies = {}
    for header in sorted(headers.rglob("*.hpp")):
        for name, text in bodies_in(header.read_text()).items():
            if name in bodies:
                sys.exit(f"{header}: a body {name} is in {bodies[name][0]}, too; rename one")
            bodies[name] = (header, text)
    return bodies


def main() -> int:
    headers, gate = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
    bodies = bodies_of(headers)
    launched = "".join(f.read_text() for f in sorted(gate.glob("*.cu")))
    missing = [
        name
        for name in sorted(bodies)
        if name not in NO_KERNEL and not re.search(rf"(?:::|\W){name}[<>,]", launched)
    ]
    # A check that cannot fail is none: there are bodies, and one that is nowhere is missed.
    if len(bodies) < 50 or re.search(r"(?:::|\W)no_such_body[<>,]", launched):
        print(f"only {len(bodies)} bodies were found")
        return 1
    for name in missing:
        print(f"{bodies[name][0]}: the body {name} is in no file of {gate}")
    print(f"{len(bodies)} bodies, {len(missing)} are not compiled for a device")
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main())
