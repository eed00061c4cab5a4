#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Inputs that the fuzzers begin with, kept as text: one line of hexadecimal digits each.

    corpus.py unpack FILE FOLDER   writes every line of FILE as a file into FOLDER
    corpus.py pack FOLDER FILE     writes every file of FOLDER as a line of FILE

To renew a corpus, run a fuzzer on its folder, merge what it found with libFuzzer's -merge=1 into an
empty folder, and pack that.
"""
import hashlib
import pathlib
import sys


def unpack(source, folder):
    folder.mkdir(parents=True, exist_ok=True)
    for line in source.read_text().split():
        data = bytes.fromhex(line)
        (folder / hashlib.sha1(data).hexdigest()).write_bytes(data)


def pack(folder, target):
    inputs = {path.read_bytes() for path in folder.iterdir() if path.is_file()}
    lines = [data.hex() for data in sorted(inputs, key=lambda data: (len(data), data)) if data]
    target.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    commands = {"unpack": unpack, "pack": pack}
    if len(sys.argv) != 4 or sys.argv[1] not in commands:
        sys.exit(__doc__)
    commands[sys.argv[1]](pathlib.Path(sys.argv[2]), pathlib.Path(sys.argv[3]))
