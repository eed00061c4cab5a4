#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs two programs, which have to print the same, and something.

    same_output.py PROGRAM PROGRAM
"""
import subprocess
import sys

texts = [subprocess.run([program], check=True, capture_output=True, text=True).stdout for program in sys.argv[1:3]]
print(texts[0], end="")
if texts[0] != texts[1]:
    print("but", sys.argv[2], "says", texts[1], sep="\n", end="")
sys.exit(0 if texts[0] and texts[0] == texts[1] else 1)
