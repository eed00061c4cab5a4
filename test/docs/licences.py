#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Every source file says under which licence it is.

    licences.py check ROOT      the files without the line, in the first lines
    licences.py control ROOT    the check finds a copy from which the line is gone

Left out: pages, data, and the texts of others in examples/models/heldout.
"""

import pathlib
import shutil
import sys
import tempfile

LINE = "SPDX-License-Identifier: Apache-2.0"
FIRST = 4  # lines in which it stands
FOLDERS = (".ci", ".cmake", "bench", "docs", "examples", "include", "test")
FILES = (".clang-format", ".gitignore", "CMakeLists.txt")
SOURCES = {".cmake", ".cpp", ".cu", ".cuh", ".hpp", ".in", ".map", ".py", ".sh"}
NAMES = {"CMakeLists.txt", "requirements.txt", "run"}


def sources(root):
    yield from (root / name for name in FILES if (root / name).exists())
    for folder in FOLDERS:
        for path in sorted((root / folder).rglob("*")):
            if path.is_file() and (path.suffix in SOURCES or path.name in NAMES):
                yield path


def without(root):
    files = list(sources(root))
    return files, [path for path in files
                   if not any(LINE in line for line in path.read_text(encoding="utf-8").splitlines()[:FIRST])]


def check(root):
    files, faults = without(root)
    print(f"{len(files)} files, {len(faults)} without a licence", *faults, sep="\n")
    return 1 if faults or len(files) < 500 else 0


def control(root):
    with tempfile.TemporaryDirectory() as folder:
        copy = pathlib.Path(folder)
        (copy / "include").mkdir()
        for name in ("with", "without"):
            shutil.copy(root / "include" / "hunch" / "hunch.hpp", copy / "include" / f"{name}.hpp")
        bare = copy / "include" / "without.hpp"
        bare.write_text(bare.read_text().replace(LINE, ""))
        return 0 if without(copy)[1] == [bare] else 1


if __name__ == "__main__":
    if len(sys.argv) != 3 or sys.argv[1] not in ("check", "control"):
        sys.exit(__doc__)
    sys.exit({"check": check, "control": control}[sys.argv[1]](pathlib.Path(sys.argv[2]).resolve()))
