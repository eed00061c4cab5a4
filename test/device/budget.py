# SPDX-License-Identifier: Apache-2.0
"""What the kernels of the gate may use, and whether they have many loads of a row under way.

    budget.py usage BUDGET FOLDER     the kernels are those of the budget, none needs more, and none
                                      has a stack or spills
    budget.py update BUDGET FOLDER    writes the budget anew
    budget.py stack FOLDER...         no kernel has a stack or spills
    budget.py loads FOLDER            streaming kernels have loads of many elements under way, the
                                      control has not

A line of the budget: kernel, team, registers, bytes of shared memory.
"""

import json
import pathlib
import re
import sys

SKIPPED = 77
HEAD = """# What each kernel of the gate may use, compiled for sm_90 by nvcc {}. Written by
# `test/device/budget.py update`; see there.
#
# kernel, team, registers, bytes of shared memory
"""

STREAMING = [
    "law_of_a_row block",
    "law_of_a_row cluster",
    "law_of_a_row_in_double block",
    "argmax_of_a_row block",
    "summary_of_rows block",
    "digest_of_a_position block",
    "draw_of_a_child block",
    "residual_sum block",
    "residual_sum cluster",
    "verify_by_rejection block",
    "verify_by_rejection cluster",
    "rejection_on_probabilities block",
    "count_at_least block",
    "weight_at_least block",
    "evidence_of_a_draw block",
    "law_through_all_stages block",
    "law_through_all_stages cluster",
    "strips_of_bfloats block",
    "strips_of_bfloats_by_2 block",
    "strips_of_halves block",
    "strips_of_bytes block",
    "strips_to_bfloats block",
    "hidden_layer block",
    "hidden_layer_in_floats block",
    "hidden_layer_in_halves block",
    "hidden_layer_in_bytes block",
    "scores_and_choice block",
    "law_of_bfloats block",
    "law_of_bfloats cluster",
    "law_of_halves block",
    "argmax_of_bfloats block",
    "children_of_bfloats block",
    "residual_sum_of_bfloats block",
    "residual_sum_of_bfloats cluster",
    "rejection_on_bfloats block",
    "rejection_on_bfloats cluster",
    "rejection_on_halves block",
    "evidence_of_bfloats block",
    "law_of_bfloats_through_all_stages block",
    "law_of_bfloats_through_all_stages cluster",
    "law_of_halves_through_all_stages block",
    "vllm_laws block",
    "vllm_laws cluster",
    "vllm_laws_of_bfloats block",
    "vllm_laws_through_stages block",
    "vllm_laws_through_stages cluster",
    "vllm_logits block",
    "vllm_logits_on_demand block",
    "vllm_logits_on_demand cluster",
    "vllm_logits_of_bfloats_on_demand block",
    "flashinfer_chain block",
]
CONTROL = "residual_sum_of_a_choice block"
LOADS = 8


def kernels_of(folder):
    kernels, releases = {}, set()
    for path in sorted(pathlib.Path(folder).glob("*.json")):
        part = json.loads(path.read_text())
        releases.add(part["nvcc"])
        kernels.update(part["kernels"])
    assert kernels and len(releases) == 1, f"no usage, or of several compilers, in {folder}"
    return kernels, releases.pop()


def read(path):
    release, lines = None, {}
    for line in pathlib.Path(path).read_text().splitlines():
        if found := re.search(r"by nvcc ([\d.]+\d)", line):
            release = found.group(1)
        if line.startswith("#") or not line.strip():
            continue
        name, team, registers, shared = line.split()
        lines[f"{name} {team}"] = (int(registers), int(shared))
    return release, lines


def stacks_of(kernels):
    for name, usage in sorted(kernels.items()):
        for what in ["stack", "spills"]:
            if usage[what] > 0:
                yield f"{name}: {usage[what]} bytes of {what}, and none is allowed"


def faults_of(kernels, budget):
    for name in sorted(budget.keys() - kernels.keys()):
        yield f"{name}: in the budget, and not compiled"
    for name, usage in sorted(kernels.items()):
        if name not in budget:
            yield f"{name}: not in the budget"
            continue
        registers, shared = budget[name]
        for what, uses, may in [("registers", usage["registers"], registers),
                                ("bytes of shared memory", usage["shared"], shared)]:
            if uses > may:
                yield f"{name}: {uses} {what}, and may use {may}"
    yield from stacks_of(kernels)


def find_what_is_wrong():
    """What these lines are there to find must be found."""
    right = {"registers": 9, "shared": 8, "stack": 0, "spills": 0}
    fits = {"k block": (9, 8)}
    for wrong in [{}, {"k block": (8, 8)}, {"k block": (9, 7)}, fits | {"l block": (1, 0)}]:
        assert list(faults_of({"k block": right}, wrong)), f"not found: {wrong}"
    for wrong in [{"stack": 8}, {"spills": 4}]:
        assert list(faults_of({"k block": right | wrong}, fits)), f"not found: {wrong}"
    assert not list(faults_of({"k block": right}, fits))


def report(faults, success):
    faults = list(faults)
    print("\n".join(faults) or success)
    return 1 if faults else 0


def usage(path, folder):
    find_what_is_wrong()
    kernels, release = kernels_of(folder)
    of, budget = read(path)
    if of != release:
        print(f"SKIPPED: the budget is that of nvcc {of}, this is {release}")
        return SKIPPED
    return report(faults_of(kernels, budget), f"{len(kernels)} kernels within their budget")


def update(path, folder):
    kernels, release = kernels_of(folder)
    text = HEAD.format(release)
    for name, needs in sorted(kernels.items()):
        text += f"{name:<42} {needs['registers']:>4} {needs['shared']:>6}\n"
    pathlib.Path(path).write_text(text)
    return 0


def stack(*folders):
    find_what_is_wrong()
    of_all = [(folder, kernels_of(folder)[0]) for folder in folders]
    return report((f"{folder}: {fault}" for folder, kernels in of_all for fault in stacks_of(kernels)),
                  f"{sum(len(kernels) for _, kernels in of_all)} kernels without a stack")


def loads(folder):
    kernels, _ = kernels_of(folder)
    found = {name: kernels.get(name, {}).get("loads", 0) for name in [*STREAMING, CONTROL]}
    faults = [f"{name}: {found[name]} loads in a row, and {LOADS} are wanted" for name in STREAMING
              if found[name] < LOADS]
    if found[CONTROL] >= LOADS:
        faults.append(f"{CONTROL}: {found[CONTROL]} loads in a row, so that this test shows nothing")
    return report(faults, f"{len(STREAMING)} streaming kernels have {LOADS} loads under way or more")


if __name__ == "__main__":
    commands = {"usage": usage, "update": update, "stack": stack, "loads": loads}
    sys.exit(commands[sys.argv[1]](*sys.argv[2:]))
