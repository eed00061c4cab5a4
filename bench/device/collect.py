#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Joins the rows of several suites, and says where they come from.

    collect.py OUT PARTS SUITE.json ... -- KEY=VALUE ...

PARTS has a line for each part of the run: name, state, seconds and a remark, between tabs. Suites
that have written nothing are left out.
"""

import json
import pathlib
import sys


def main():
    words = sys.argv[1:]
    end = words.index("--")
    out, parts, *suites = map(pathlib.Path, words[:end])
    result = dict(word.split("=", 1) for word in words[end + 1:])
    names = ("name", "state", "seconds", "remark")
    result["parts"] = [dict(zip(names, line.split("\t")))
                       for line in parts.read_text(encoding="utf-8").splitlines()]
    for part in result["parts"]:
        part["seconds"] = int(part["seconds"])
    result["rows"] = [row for suite in suites if suite.exists()
                      for row in json.loads(suite.read_text(encoding="utf-8"))["rows"]]
    out.write_text(json.dumps(result, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
