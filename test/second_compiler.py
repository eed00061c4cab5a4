#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Lets another compiler read every C++ file of a build, warnings as errors.

    second_compiler.py BUILD COMPILER

BUILD holds the compile_commands.json of CMake. Templates are instantiated, no code is made: that
takes a small part of the time of a build. Whether a header includes what it needs is asked of the
first compiler only (the folder test/headers of the build): both have the same standard library, and
what is in the headers is read here with the programs that include them. A file that is compiled both
with a sanitizer and without is read without; where the build reads several files at a time, so does it. What the build precompiles is precompiled here, too,
for files that are read alike.
"""

import collections

import concurrent.futures
import json
import os
import pathlib
import shlex
import subprocess
import sys
import tempfile

FEW = 4  # files: to precompile for fewer does not pay


def translated(command: str, compiler: str) -> list[str]:
    """The command without what it reads and writes, what only GCC knows, and what it has compiled before."""
    words = shlex.split(command)[1:]
    out = [compiler, "-fsyntax-only", "-Werror", "-Wno-unknown-warning-option"]
    skip = False
    for word in words:
        if skip or word.startswith("--param="):
            skip = False
        elif word in ("-o", "-include"):
            skip = True
        elif word != "-c":
            out.append(word)
    return out[:-1]  # the file comes last


def precompiled(command: str) -> str | None:
    """The header that GCC has compiled before, if there is one."""
    words = shlex.split(command)
    return words[words.index("-include") + 1] if "-include" in words else None


def to_read(build: pathlib.Path) -> list[dict]:
    """Entries of the compile commands that another compiler is to read."""
    alone = (build / "test" / "headers").resolve()
    entries = [
        e
        for e in json.loads((build / "compile_commands.json").read_text())
        if e["file"].endswith((".cpp", ".cxx")) and pathlib.Path(e["file"]).parent != alone
    ]
    plain = {e["file"] for e in entries if "-fsanitize=" not in e["command"]}
    return [e for e in entries if "-fsanitize=" not in e["command"] or e["file"] not in plain]


def main() -> int:
    build, compiler = pathlib.Path(sys.argv[1]), sys.argv[2]
    entries = to_read(build)
    if not entries:
        print(f"{build}: no C++ files")
        return 1

    groups = collections.defaultdict(list)
    for entry in entries:
        groups[precompiled(entry["command"]), *translated(entry["command"], compiler)].append(entry)

    def run(command: list[str], entry: dict) -> subprocess.CompletedProcess:
        return subprocess.run(command, cwd=entry["directory"], capture_output=True, text=True, check=False)

    def read(entry: dict) -> tuple[str, subprocess.CompletedProcess]:
        _, *command = key = (precompiled(entry["command"]), *translated(entry["command"], compiler))
        if key in made:
            command += ["-include-pch", str(made[key])]
        return entry["file"], run([*command, entry["file"]], entry)

    def precompile(number: int, key: tuple) -> tuple[tuple, pathlib.Path, subprocess.CompletedProcess]:
        header, *command = key
        source, file = (pathlib.Path(folder) / f"{number}.{kind}" for kind in ("hpp", "pch"))
        # There it is a system's header, of which no compiler warns.
        source.write_text(pathlib.Path(header).read_text().replace("#pragma GCC system_header", ""))
        command = [word for word in command if word != "-fsyntax-only"]
        return key, file, run([*command, "-x", "c++-header", str(source), "-o", str(file)], groups[key][0])

    failed = 0
    made = {}
    worth = [key for key, files in groups.items() if key[0] and len(files) >= FEW]
    with tempfile.TemporaryDirectory() as folder, concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for key, file, result in pool.map(precompile, range(len(worth)), worth):
            if result.returncode != 0:
                print(f"{key[0]}:\n{result.stderr}")
                failed += 1
            else:
                made[key] = file
        for file, result in pool.map(read, entries):
            if result.returncode != 0:
                print(f"{file}:\n{result.stderr}")
                failed += 1
    print(f"{compiler}: {len(entries)} files read, {failed} refused")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
