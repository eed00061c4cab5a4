#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Turns the ```cpp blocks of the documentation into programs, and checks its links.

    documentation.py extract ROOT OUT    one C++ file per group of pages, and main.cpp
    documentation.py check ROOT          relative links, anchors, the paths that pages name, fences; of the
                                         pages in examples, too

A page reads as one program: its `#include` lines go to the top of the file; blocks whose first
line begins with namespace, template, struct, class or enum are declarations; all other blocks are
statements and follow each other in one function, which main.cpp runs.
"""

import os
import pathlib
import re
import sys

DECLARATION = re.compile(r"(namespace\b(?!.*=)|template\b|struct\b|class\b|enum\b)")
FENCE = re.compile(r"^(```+|~~~+)\s*([\w+-]*)\s*$")
LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)\)|\b(?:src|href)=\"([^\"]+)\"")
PATH = re.compile(r"`((?:include|examples|test|bench|docs)/[\w./-]+)`")
# What a fence may say: with another word for C++ a block would go untested.
LANGUAGES = ("cpp", "cuda", "text", "sh", "cmake", "json", "mermaid")
GROUPS = ("readme", "docs", "concepts", "engines", "policies")


def pages(root):
    return [root / "README.md"] + sorted((root / "docs").rglob("*.md"))


def group_of(root, page):
    folder = page.parent
    if folder == root:
        return "readme"
    return "docs" if folder == root / "docs" else folder.name


def split(page):
    """The lines of a page outside of fences, and its fenced blocks as (line, language, lines)."""
    prose, blocks, fence = [], [], None
    for number, line in enumerate(page.read_text(encoding="utf-8").splitlines(), 1):
        match = FENCE.match(line.strip())
        if fence is None and match:
            fence = match.group(1)
            blocks.append((number + 1, match.group(2), []))
        elif fence is not None and match and match.group(1) == fence and not match.group(2):
            fence = None
        elif fence is not None:
            blocks[-1][2].append(line)
        else:
            prose.append((number, line))
    if fence is not None:
        raise SystemExit(f"{page}: the block that begins before line {blocks[-1][0]} does not end")
    return prose, blocks


def name_of(root, page):
    return re.sub(r"\W", "_", str(page.relative_to(root).with_suffix("")))


def program(root, page):
    """The includes of a page, and its namespace with declarations and run()."""
    includes, declarations, statements = [], [], []
    for first, language, lines in split(page)[1]:
        if language != "cpp":
            continue
        code = []
        for line in lines:
            include = line.startswith("#include")
            if include:
                includes.append(line)
            code.append("" if include else line)
        significant = [l for l in code if l.strip() and not l.lstrip().startswith("//")]
        if not significant:
            continue
        into = declarations if DECLARATION.match(significant[0]) else statements
        into.append(f'#line {first} "{page.relative_to(root)}"')
        into.extend(code)
    if not declarations and not statements:
        return includes, None
    body = [f"namespace {name_of(root, page)} {{", *declarations, "void run() {", *statements, "}",
            "}"]
    return includes, body


def write(path, lines):
    """Writes a file unless it holds these lines already, so that its object stays up to date."""
    text = "\n".join(lines) + "\n"
    if not path.exists() or path.read_text(encoding="utf-8") != text:
        path.write_text(text, encoding="utf-8")


def extract(root, out):
    out.mkdir(parents=True, exist_ok=True)
    files = {group: ([], []) for group in GROUPS}
    ran = []
    for page in pages(root):
        includes, body = program(root, page)
        if not includes and body is None:
            continue
        group = group_of(root, page)
        if group not in files:
            raise SystemExit(f"{page}: no group for this folder: add it to GROUPS")
        files[group][0].extend(includes)
        if body is not None:
            files[group][1].extend(body)
            ran.append((name_of(root, page), str(page.relative_to(root))))
    for group, (includes, bodies) in files.items():
        write(out / f"{group}.cpp", ['#include "prelude.hpp"', *dict.fromkeys(includes), *bodies])
    main = ["#include <cstdio>", "#include <exception>"]
    main += [f"namespace {name} {{ void run(); }}" for name, _ in ran]
    main += ["int main() {"]
    for name, page in ran:
        main += [f'  std::printf("== {page}\\n");',
                 f"  try {{ {name}::run(); }} catch (const std::exception& e) {{",
                 f'    std::printf("\\n{page}: %s\\n", e.what()); return 1;', "  }",
                 '  std::printf("\\n");']
    main += ["}"]
    write(out / "main.cpp", main)


def anchors(page):
    found = set()
    for _, line in split(page)[0]:
        if re.match(r"#{1,6} ", line):
            title = re.sub(r"[^\w\- ]", "", line.lstrip("#").strip().lower())
            found.add(title.replace(" ", "-"))
    return found


def check(root):
    faults, links, paths = [], 0, 0
    for page in pages(root) + sorted((root / "examples").rglob("*.md")):
        prose, blocks = split(page)
        for number, language, _ in blocks:
            python = any(page.is_relative_to(root / folder) for folder in ("examples", "docs/engines"))
            if language not in LANGUAGES + (("python",) if python else ()):
                faults.append(f"{page.relative_to(root)}:{number}: unknown language '{language}'")
        for number, line in prose:
            where = f"{page.relative_to(root)}:{number}"
            for match in LINK.finditer(re.sub(r"`[^`]*`", "", line)):
                link = match.group(1) or match.group(2)
                if re.match(r"[a-z]+:", link):
                    continue
                links += 1
                target, _, anchor = link.partition("#")
                file = pathlib.Path(os.path.normpath(page.parent / target)) if target else page
                if not file.exists():
                    faults.append(f"{where}: there is no {target}")
                elif root not in file.parents:
                    faults.append(f"{where}: {target} is outside of the project")
                elif anchor and file.suffix == ".md" and anchor not in anchors(file):
                    faults.append(f"{where}: {file.name} has no heading #{anchor}")
            for match in PATH.finditer(line):
                paths += 1
                if not (root / match.group(1)).exists():
                    faults.append(f"{where}: there is no {match.group(1)}")
    print(f"{links} links, {paths} paths, {len(faults)} faults", *faults, sep="\n")
    return 1 if faults else 0


def main(arguments):
    if len(arguments) == 3 and arguments[0] == "extract":
        extract(pathlib.Path(arguments[1]).resolve(), pathlib.Path(arguments[2]))
        return 0
    if len(arguments) == 2 and arguments[0] == "check":
        return check(pathlib.Path(arguments[1]).resolve())
    print(__doc__, file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
