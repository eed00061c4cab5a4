# SPDX-License-Identifier: Apache-2.0
"""What the listing of a kernel's instructions says, as nvdisasm writes it: the loops that stream,
and how often a thread waits for memory, one time after the other."""

import dataclasses
import glob
import importlib.util
import pathlib
import re
import shutil

from gpu import ISSUE, NEAR, PIPES, pipe_of

LOADS = ("LDG", "LD")
ARGUMENTS = 0x210  # of a kernel, in its constants: of sm_90


@dataclasses.dataclass
class Loop:
    """An innermost loop of a kernel that loads."""
    loads: int  # of a thread, in one run through it
    counts: dict  # warp instructions, by pipe
    size: int = 0  # bytes of the loads
    wide: int = 0  # bytes of those that take 16 at once: of rows that come in long pieces

    def cycles(self):
        """Of a multiprocessor, for one warp that goes through it once."""
        total = sum(self.counts.values()) / ISSUE
        return max([total] + [n / PIPES[pipe] for pipe, n in self.counts.items()])


@dataclasses.dataclass
class Instruction:
    guard: str  # the predicate that it hangs on, or None
    opcode: str
    modifiers: str  # as in ".E.128"
    operands: str

    def is_load(self):
        return self.opcode in LOADS

    def size(self):
        """Bytes of a load."""
        found = re.search(r"\.(128|64|[US](?:16|8))\b", self.modifiers)
        return {"128": 16, "64": 8, "U16": 2, "S16": 2, "U8": 1, "S8": 1}[found.group(1)] if found else 4


@dataclasses.dataclass
class Kernel:
    loops: list  # its innermost loops with loads, in the order of the code
    code: list
    barriers: int
    products: Loop = None  # what stands between two branches and multiplies most by tensor cores

    def trips(self, again=()):
        """To memory, one after the other: see `trips_of`."""
        return trips_of(self.code, again)


def disassembler():
    for found in [shutil.which("nvdisasm"), *sorted(glob.glob("/usr/local/cuda*/bin/nvdisasm"))]:
        if found:
            return found
    package = importlib.util.find_spec("nvidia")
    for folder in package.submodule_search_locations if package else []:
        for found in pathlib.Path(folder).glob("cu*/bin/nvdisasm"):
            return str(found)
    return None


def trips_of(code, again=()):
    """Loads of which each waits for the one before it, in the order of the code: because its address
    comes from what that one brought, because a branch before it looks at that, or because a barrier
    lies between them. A loop counts once, and code that is seldom reached as any other. A load by
    an address that a prefetch into the nearest cache was given, too, goes there. `again` has pairs of
    bytes of the argument: what stands there is a pointer that stands at the other place as well."""
    first = {ARGUMENTS + at: ARGUMENTS + before for at, before in again}
    depth, waited, longest = {}, 0, 0
    arrays = {}  # of a register: those of the kernel's arguments that its address comes from
    nearby = {}  # of these, when what was asked for there
    for each in code:
        if each.opcode == "BAR":
            waited = longest
            continue
        if "IVALL" in each.modifiers:
            nearby = {}
            continue
        operands = re.sub(r"desc\[UR\d+\]", "", each.operands)
        names = re.findall(r"\b(U?R(?:\d+|Z)|U?P(?:\d|T))\b", operands)
        writes = not re.match(r"ST|RED$|BRA|EXIT", each.opcode)
        results = 0 if not writes else 2 if "SETP" in each.opcode else 1
        used = max([waited, *(depth.get(n, 0) for n in [each.guard, *names[results:]])])
        origins = set().union(*(arrays.get(n, ()) for n in names[results:]))
        if each.opcode == "CCTL" and "PF1" in each.modifiers:
            origins = set().union(*(arrays.get(n, ()) for n in names))
            nearby.update({origin: min(used, nearby.get(origin, used)) + 1 for origin in origins})
        elif each.opcode in ("BRA", "EXIT"):
            waited = max(waited, used)
        elif each.is_load() and names:
            there = [nearby[origin] for origin in origins if origin in nearby]
            done = max(used, min(there)) + NEAR if there else used + 1
            longest = max(longest, done)
            if result := re.fullmatch(r"(U?R)(\d+)", names[0]):
                for i in range(max(1, each.size() // 4)):
                    depth[f"{result.group(1)}{int(result.group(2)) + i}"] = done
                    arrays.pop(f"{result.group(1)}{int(result.group(2)) + i}", None)
        else:
            if each.opcode in ("LDC", "ULDC") and ".64" in each.modifiers or "WIDE" in each.modifiers:
                constants = [int(at, 16) for at in re.findall(r"c\[0x0\]\[(0x[0-9a-f]+)\]", operands)]
                origins.update(first.get(at, at) for at in constants)
            for name in names[:results]:
                depth[name] = 0 if name[-1] in "ZT" else used  # of these nothing is kept
                arrays[name] = () if name[-1] in "ZT" else origins
    return longest


def loop_of(code):
    """What a thread does in some instructions."""
    counts, loads, size, wide = {}, 0, 0, 0
    for each in code:
        counts[pipe_of(each.opcode)] = counts.get(pipe_of(each.opcode), 0) + 1
        if each.is_load():
            loads += 1
            size += each.size()
            wide += each.size() if each.size() == 16 else 0
    return Loop(loads, counts, size, wide)


def products_of(code, targets):
    """The piece without a branch that has the most products by tensor cores, if there are any."""
    pieces, piece = [], []
    for at, each in enumerate(code):
        if at in targets:
            pieces.append(piece)
            piece = []
        piece.append(each)
        if each.opcode in ("BRA", "EXIT"):
            pieces.append(piece)
            piece = []
    most = max((loop_of(piece) for piece in [*pieces, piece]),
               key=lambda found: found.counts.get("tensor", 0))
    return most if most.counts.get("tensor", 0) > 0 else None


def kernels_in(text, kernel_name):
    """Of each kernel what a listing says."""
    found = {}
    for section in re.split(r"^\.text\.", text, flags=re.MULTILINE)[1:]:
        mangled = section.split(":", 1)[0]
        place, code = {}, []
        for line in section.splitlines():
            if label := re.match(r"(\.L_x_\d+):", line.strip()):
                place[label.group(1)] = len(code)
            elif re.match(r"\s*//-+ ", line):
                break
            elif (op := re.match(r"\s*/\*[0-9a-f]{4,}\*/\s+(?:@!?(U?P\w+)\s+)?([A-Z]\w*)([\w.]*)(.*)", line)):
                code.append(Instruction(*op.groups()))
        ranges = []
        for at, each in enumerate(code):
            target = re.search(r"\(?(\.L_x_\d+)", each.operands)
            if each.opcode == "BRA" and target and place.get(target.group(1), len(code)) <= at:
                ranges.append((place[target.group(1)], at))
        loops = []
        for begin, end in sorted(ranges):
            if any(b >= begin and e <= end and (b, e) != (begin, end) for b, e in ranges):
                continue
            loop = loop_of(code[begin:end + 1])
            if loop.loads > 0:
                loops.append(loop)
        found[kernel_name(mangled)] = Kernel(loops, code,
                                             sum(each.opcode == "BAR" for each in code),
                                             products_of(code, set(place.values())))
    return found
