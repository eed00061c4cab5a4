#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Holds the rooms of the library to their order.

    levels.py check ROOT      no header includes one of a room that comes after its own
    levels.py control ROOT    the same check sees what is planted: an arrow upwards, a private header
                              that an example includes, a room that the table does not know

The order is that of the table in docs/architecture.md. A room is a folder of include/hunch; what
lies in a folder `detail` of it belongs to it, and is private to the library and its own tests.
"""

import pathlib
import re
import sys

INCLUDE = re.compile(r'^\s*#\s*include\s*[<"](hunch/[^>"]+)[>"]', re.MULTILINE)
ROW = re.compile(r"^\| `([a-z_/]+)` \|", re.MULTILINE)
SOURCES = {".hpp", ".cuh", ".cpp", ".cu"}


def order_of(page):
    section = page.split("## Rooms", 1)[1].split("\n## ", 1)[0]
    return ROW.findall(section)


def room_of(header):
    """Of a path below include/, such as hunch/head/detail/row_dots.hpp."""
    parts = header.split("/")[1:-1]
    return "/".join(part for part in parts if part != "detail")


def includes(path):
    return INCLUDE.findall(path.read_text(encoding="utf-8"))


def files_of(folder):
    return sorted(path for path in folder.rglob("*") if path.suffix in SOURCES)


def faults(order, headers, users):
    """What is wrong with headers, {path below include/: what it includes}, and with programs."""
    found = []
    level = {room: i for i, room in enumerate(order)}
    for header, included in headers.items():
        room = room_of(header)
        if header == "hunch/hunch.hpp":
            found += [f"{header} includes {to}, which is private" for to in included if "/detail/" in to]
            continue
        if room not in level:
            found.append(f"{header}: docs/architecture.md knows no room '{room}'")
            continue
        for to in included:
            if to not in headers:
                found.append(f"{header} includes {to}, which does not exist")
            elif room_of(to) not in level:
                found.append(f"{header} includes {to}, which is in no room")
            elif level[room_of(to)] > level[room]:
                found.append(f"{header} includes {to}: {room_of(to)} comes after {room} in the table")
    rooms = {room_of(header) for header in headers}
    found += [f"docs/architecture.md names a room '{room}' without headers" for room in order if room not in rooms]
    for user, included in users.items():
        found += [f"{user} includes {to}, which is private" for to in included if "/detail/" in to]
    return found


def read(root):
    include = root / "include"
    headers = {path.relative_to(include).as_posix(): includes(path) for path in files_of(include)}
    users = {
        path.relative_to(root).as_posix(): includes(path)
        for folder in ("examples", "bench")
        for path in files_of(root / folder)
    }
    pages = list((root / "docs").rglob("*.md")) + [root / "README.md"]
    users.update((page.relative_to(root).as_posix(), includes(page)) for page in pages)
    return order_of((root / "docs/architecture.md").read_text(encoding="utf-8")), headers, users


def control(root):
    order, headers, users = read(root)
    planted = {
        "hunch/core/types.hpp includes hunch/decoder/decoder.hpp: decoder comes after core in the table": (
            order, {**headers, "hunch/core/types.hpp": ["hunch/decoder/decoder.hpp"]}, users),
        "examples/a.cpp includes hunch/head/detail/row_dots.hpp, which is private": (
            order, headers, {**users, "examples/a.cpp": ["hunch/head/detail/row_dots.hpp"]}),
        "hunch/attic/a.hpp: docs/architecture.md knows no room 'attic'": (
            order, {**headers, "hunch/attic/a.hpp": []}, users),
        "hunch/core/types.hpp includes hunch/core/none.hpp, which does not exist": (
            order, {**headers, "hunch/core/types.hpp": ["hunch/core/none.hpp"]}, users),
        "docs/architecture.md names a room 'attic' without headers": (
            [*order, "attic"], headers, users),
    }
    return [f"not seen: {fault}" for fault, tree in planted.items() if faults(*tree) != [fault]]


def main():
    if len(sys.argv) != 3 or sys.argv[1] not in ("check", "control"):
        sys.exit(__doc__)
    root = pathlib.Path(sys.argv[2])
    found = control(root) if sys.argv[1] == "control" else faults(*read(root))
    for fault in found:
        print(fault)
    sys.exit(1 if found else 0)


main()
