# SPDX-License-Identifier: Apache-2.0
"""Compiles a file of the gate for one architecture, and notes what each of its kernels needs.

Writes OUT/NAME.json: for every kernel its registers, bytes of shared memory, of stack and of
spills, and how many loads its PTX has that are not of shared memory, at most, in a row without a branch.
"""

import argparse
import json
import pathlib
import re
import subprocess
import sys


def kernel_name(mangled):
    """The name that gate.cuh gave it, and the team that runs it. In a program, where it gave none:
    that of the body, whatever it is composed of."""
    team = " cluster" if "run_body_by_cluster" in mangled else " block"
    if found := re.search(r"5names(\d+)", mangled):
        return mangled[found.end():found.end() + int(found.group(1))] + team
    found = (re.search(r"(?:run_body|run_body_by_cluster)IN(?:S\d*_)?", mangled)
             or re.match(r"_ZN", mangled))
    name, rest = "", mangled[found.end():]
    while part := re.match(r"\d+", rest):
        end = part.end() + int(part.group())
        name, rest = rest[part.end():end], rest[end:]
    return "composed:" + name + team


def usage_of(log):
    """Of kernels that have the same name, the most of each, and the sum of spills."""
    kernels = {}
    current = None
    for line in log.splitlines():
        if found := re.search(r"Compiling entry function '(\w+)'", line):
            current = kernels.setdefault(kernel_name(found.group(1)),
                                         {"registers": 0, "shared": 0, "stack": 0, "spills": 0})
        elif found := re.search(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+)", line):
            # Of the kernel, and of each function that it calls.
            current["stack"] = max(current["stack"], int(found.group(1)))
            current["spills"] += int(found.group(2)) + int(found.group(3))
        elif found := re.search(r"Used (\d+) registers", line):
            current["registers"] = max(current["registers"], int(found.group(1)))
            if stack := re.search(r"(\d+) bytes cumulative stack", line):
                current["stack"] = max(current["stack"], int(stack.group(1)))
            if shared := re.search(r"(\d+) bytes smem", line):
                current["shared"] = max(current["shared"], int(shared.group(1)))
    return kernels


def loads_of(ptx):
    """Of each kernel, those of the functions that it calls included."""
    bodies, kernels = {}, []
    for part in re.split(r"^(?=\.visible|\.weak|\.entry|\.func)", ptx, flags=re.MULTILINE):
        head = re.match(r"[^(]*\.(entry|func)\s+(?:\([^)]*\)\s*)?(\w+)", part)
        if head and "{" in part:
            bodies[head.group(2)] = part
            if head.group(1) == "entry":
                kernels.append(head.group(2))

    def closure(name, seen):
        if name not in seen and name in bodies:
            seen.add(name)
            for called in set(re.findall(r"^\s*(\w+),?\s*$", bodies[name], flags=re.MULTILINE)):
                closure(called, seen)
        return seen

    def in_a_row(body):
        pieces = re.split(r"^\$\w+:|\bbra\b|\bbar(?:rier)?\.", body, flags=re.MULTILINE)
        return max(len(re.findall(r"\bld\.(?!param|shared|local|const)", piece)) for piece in pieces)

    most = {}
    for k in kernels:
        of_k = max(in_a_row(bodies[f]) for f in closure(k, set()))
        most[kernel_name(k)] = {"loads": max(of_k, most.get(kernel_name(k), {}).get("loads", 0))}
    return most


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--nvcc", required=True)
    parser.add_argument("--arch", required=True)
    parser.add_argument("--include", required=True)
    parser.add_argument("--also", action="append", default=[], help="one more folder of headers")
    parser.add_argument("--out", required=True, type=pathlib.Path)
    parser.add_argument("source", type=pathlib.Path)
    args = parser.parse_args()
    name = args.source.stem
    args.out.mkdir(parents=True, exist_ok=True)
    result = args.out / (name + ".json")
    run = subprocess.run(
        [args.nvcc, "-std=c++20", "-Werror=all-warnings", "-I", args.include,
         *(part for folder in args.also for part in ("-I", folder)), "-cubin",
         "-arch=" + args.arch, "-Xptxas", "-v", "--keep", "--keep-dir", str(args.out),
         "-MD", "-MF", str(args.out / (name + ".d")), "-MT", str(result),
         "-o", str(args.out / (name + ".cubin")), str(args.source)],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    if run.returncode != 0:
        sys.exit(run.stdout)
    kernels = usage_of(run.stdout)
    for kernel, loads in loads_of((args.out / (name + ".ptx")).read_text()).items():
        kernels[kernel].update(loads)
    version = subprocess.run([args.nvcc, "--version"], capture_output=True, text=True, check=True)
    release = re.search(r"release ([\d.]+)", version.stdout).group(1)
    result.write_text(json.dumps({"nvcc": release, "kernels": kernels}, indent=1))


if __name__ == "__main__":
    main()
