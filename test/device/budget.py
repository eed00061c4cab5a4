# SPDX-License-Identifier: Apache-2.0
"""What the kernels of the gate may use, and whether they read rows 16 bytes at a time.

    budget.py usage BUDGET FOLDER     the kernels are those of the budget, and none needs more
    budget.py update BUDGET FOLDER    writes the budget anew; reasons are kept
    budget.py loads FOLDER            streaming kernels have 128-bit loads, the control has none

A line of the budget: kernel, team, registers, bytes of shared memory, bytes of stack, and behind a
# the reason for a stack, without which none is allowed. Spills count as stack.
"""

import json
import pathlib
import re
import sys

SKIPPED = 77
HEAD = """# What each kernel of the gate may use, compiled for sm_90 by nvcc {}. Written by
# `test/device/budget.py update`; see there.
#
# kernel, team, registers, bytes of shared memory, bytes of stack and spills  # why there is a stack
"""

STREAMING = [
    "law_of_a_row block",
    "law_of_a_row cluster",
    "law_of_a_row_in_double block",
    "argmax_of_a_row block",
    "draw_of_a_child block",
    "residual_sum block",
    "residual_sum cluster",
    "verify_by_rejection block",
    "verify_by_rejection cluster",
    "rejection_on_probabilities block",
    "count_at_least block",
    "weight_at_least block",
    "law_through_all_stages block",
    "law_through_all_stages cluster",
]
SCALAR = "residual_sum_of_scalars block"


def kernels_of(folder):
    kernels, releases = {}, set()
    for path in sorted(pathlib.Path(folder).glob("*.json")):
        part = json.loads(path.read_text())
        releases.add(part["nvcc"])
        kernels.update(part["kernels"])
    assert kernels and len(releases) == 1, f"no usage, or of several compilers, in {folder}"
    return kernels, releases.pop()


def stack_of(usage):
    return max(usage["stack"], usage["spills"])


def read(path):
    release, lines = None, {}
    for line in pathlib.Path(path).read_text().splitlines():
        if found := re.search(r"by nvcc ([\d.]+\d)", line):
            release = found.group(1)
        if line.startswith("#") or not line.strip():
            continue
        fields, _, reason = line.partition("#")
        name, team, registers, shared, stack = fields.split()
        lines[f"{name} {team}"] = (int(registers), int(shared), int(stack), reason.strip())
    return release, lines


def faults_of(kernels, budget):
    for name in sorted(budget.keys() - kernels.keys()):
        yield f"{name}: in the budget, and not compiled"
    for name, usage in sorted(kernels.items()):
        if name not in budget:
            yield f"{name}: not in the budget"
            continue
        registers, shared, stack, reason = budget[name]
        for what, uses, may in [("registers", usage["registers"], registers),
                                ("bytes of shared memory", usage["shared"], shared),
                                ("bytes of stack or spills", stack_of(usage), stack)]:
            if uses > may:
                yield f"{name}: {uses} {what}, and may use {may}"
        if stack > 0 and not reason:
            yield f"{name}: a stack without a reason"


def usage(path, folder):
    kernels, release = kernels_of(folder)
    of, budget = read(path)
    if of != release:
        print(f"SKIPPED: the budget is that of nvcc {of}, this is {release}")
        return SKIPPED
    # What these lines are there to find must be found.
    one = {"k block": {"registers": 9, "shared": 0, "stack": 8, "spills": 0}}
    for wrong in [{}, {"k block": (8, 0, 8, "why")}, {"k block": (9, 0, 0, "")},
                  {"k block": (9, 0, 8, "")}, {"k block": (9, 0, 8, "why"), "l block": (1, 0, 0, "")}]:
        assert list(faults_of(one, wrong)), f"not found: {wrong}"
    assert not list(faults_of(one, {"k block": (9, 0, 8, "why")}))
    faults = list(faults_of(kernels, budget))
    print("\n".join(faults) or f"{len(kernels)} kernels within their budget")
    return 1 if faults else 0


def update(path, folder):
    kernels, release = kernels_of(folder)
    old = read(path)[1] if pathlib.Path(path).exists() else {}
    text = HEAD.format(release)
    for name, needs in sorted(kernels.items()):
        stack = stack_of(needs)
        reason = old.get(name, (0, 0, 0, ""))[3]
        line = f"{name:<42} {needs['registers']:>4} {needs['shared']:>6} {stack:>5}"
        text += line + (f"  # {reason}".rstrip() if stack > 0 else "") + "\n"
    pathlib.Path(path).write_text(text)
    return 0


def loads(folder):
    kernels, _ = kernels_of(folder)
    faults = [f"{name}: no 128-bit load" for name in STREAMING
              if not kernels.get(name, {}).get("wide_loads")]
    if kernels[SCALAR]["wide_loads"] != 0:
        faults.append(f"{SCALAR}: has 128-bit loads, so that this test shows nothing")
    print("\n".join(faults) or f"{len(STREAMING)} streaming kernels have 128-bit loads")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit({"usage": usage, "update": update, "loads": loads}[sys.argv[1]](*sys.argv[2:]))
