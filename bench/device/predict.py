#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How long rows of the device suites would take, read off the compiled kernels.

    predict.py FOLDER [--gpu NAME] [--json FILE]

FOLDER is that of the compile gate for sm_90. A kernel is disassembled, and the loops that stream
rows are found in it: how many instructions an element costs, of which kind, and how many loads a
thread has under way. A launch then takes as long as the slowest of

    bytes    what it reads, at the bandwidth of a copy, or of as many multiprocessors as it has
    issue    its instructions, all multiprocessors busy
    chain    what one team does after each other: trips to memory, instructions, barriers

and what a launch costs anyhow. A row with a goal must be predicted to meet it with MARGIN to spare.

Needs nvdisasm, of a CUDA toolkit or of the package nvidia-cuda-nvdisasm of PyPI; exits with 77
where there is none, and with 1 if a row misses its goal.
"""

import argparse
import dataclasses
import glob
import importlib.util
import json
import math
import pathlib
import re
import shutil
import subprocess
import sys

NOT_RUN = 77
MARGIN = 1.15
VOCAB = 128256
TILE = 4096
THREADS = 512
CREWS = 4  # of a block
CHAIN = 5  # drafts


@dataclasses.dataclass(frozen=True)
class Gpu:
    """Times in microseconds. Those of memory are of one trip of a warp that waits for nothing else."""
    processors: int
    clock: float  # cycles in a microsecond
    copy: float  # bytes in a microsecond
    memory: float
    cache: float  # L2
    near: float  # L1
    node: float  # from the end of a kernel of a graph to the first instruction of the next
    cluster_barrier: float
    barrier: float
    registers: int = 65536
    shared: int = 233472
    per_processor: float = 64.0  # bytes in a cycle that a multiprocessor takes from L2


# Copy: measured by others on H200 and H100 SXM. Latencies: microbenchmarks of Hopper (arXiv:
# 2402.13499); of a graph's node and of barriers, the manufacturer's examples. What a device
# measures replaces them.
GPUS = {
    "h200": Gpu(132, 1830.0, 4.3e6, 0.65, 0.27, 0.035, 1.3, 0.5, 0.03),
    "h100": Gpu(132, 1755.0, 3.0e6, 0.65, 0.27, 0.035, 1.3, 0.5, 0.03),
}

# Warp instructions that a multiprocessor begins in a cycle, by the pipe that they need.
ISSUE = 4.0
PIPES = {"fma": 4.0, "alu": 2.0, "double": 2.0, "memory": 1.0, "special": 0.5, "other": 4.0}
PIPE_OF = {
    "fma": r"FFMA|FADD|FMUL|IMAD|HFMA2|HADD2|HMUL2",
    "alu": r"FMNMX|FSETP|FSEL|FSET|ISETP|IADD3|VIADD|LOP3|SHF|PRMT|SEL|LEA|VIMNMX|VIMNMX3|IMNMX|"
           r"MOV|PLOP3|IABS|SGXT|BMSK",
    "double": r"DFMA|DADD|DMUL|DSETP|DMNMX",
    "memory": r"LDG|LD|LDS|STS|STG|ST|SHFL|ATOM\w*|RED|LDSM|LDGSTS|REDUX",
    "special": r"MUFU|F2F|F2I|I2F|POPC|FLO|BREV",
}


def pipe_of(opcode):
    for pipe, names in PIPE_OF.items():
        if re.fullmatch(names, opcode):
            return pipe
    return "other"


@dataclasses.dataclass
class Loop:
    """The innermost loop of a kernel that loads."""
    loads: int  # of a thread, in one run through it
    counts: dict  # warp instructions, by pipe

    def cycles(self):
        """Of a multiprocessor, for one warp that goes through it once."""
        total = sum(self.counts.values()) / ISSUE
        return max([total] + [n / PIPES[pipe] for pipe, n in self.counts.items()])


def disassembler():
    for found in [shutil.which("nvdisasm"), *sorted(glob.glob("/usr/local/cuda*/bin/nvdisasm"))]:
        if found:
            return found
    package = importlib.util.find_spec("nvidia")
    for folder in package.submodule_search_locations if package else []:
        for found in pathlib.Path(folder).glob("cu*/bin/nvdisasm"):
            return str(found)
    return None


def kernels_in(text, kernel_name):
    """Of each kernel its innermost loops with loads, in the order of the code."""
    found = {}
    for section in re.split(r"^\.text\.", text, flags=re.MULTILINE)[1:]:
        mangled = section.split(":", 1)[0]
        place, code = {}, []
        for line in section.splitlines():
            if label := re.match(r"(\.L_x_\d+):", line.strip()):
                place[label.group(1)] = len(code)
            elif re.match(r"\s*//-+ ", line):
                break
            elif (op := re.match(r"\s*/\*[0-9a-f]{4,}\*/\s+(?:@!?U?P\w+\s+)?([A-Z]\w*)([\w.]*)(.*)", line)):
                code.append(op.groups())
        ranges = []
        for at, (opcode, _, rest) in enumerate(code):
            target = re.search(r"\(?(\.L_x_\d+)", rest)
            if opcode == "BRA" and target and place.get(target.group(1), len(code)) <= at:
                ranges.append((place[target.group(1)], at))
        loops = []
        for begin, end in sorted(ranges):
            if any(b >= begin and e <= end and (b, e) != (begin, end) for b, e in ranges):
                continue
            counts, loads = {}, 0
            for opcode, _, _ in code[begin:end + 1]:
                counts[pipe_of(opcode)] = counts.get(pipe_of(opcode), 0) + 1
                loads += opcode in ("LDG", "LD")
            if loads > 0:
                loops.append(Loop(loads, counts))
        found[kernel_name(mangled)] = loops
    return found


class Gate:
    """What the compile gate left."""

    def __init__(self, folder, nvdisasm):
        sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "test" / "device"))
        from compile import kernel_name  # the names by which the gate knows its kernels
        self.usage, self.loops = {}, {}
        self._folder, self._nvdisasm, self._name = pathlib.Path(folder), nvdisasm, kernel_name

    def read(self, file):
        self.usage.update(json.loads((self._folder / f"{file}.json").read_text())["kernels"])
        text = subprocess.run([self._nvdisasm, "-c", str(self._folder / f"{file}.cubin")],
                              capture_output=True, text=True, check=True).stdout
        self.loops.update(kernels_in(text, self._name))

    def streams(self, kernel, least):
        """Its loops with at least so many loads of a thread."""
        found = [loop for loop in self.loops[kernel] if loop.loads >= least]
        assert found, f"no loop of {kernel} has {least} loads: {self.loops[kernel]}"
        return found


@dataclasses.dataclass
class Pass:
    """A read of rows of `elements`, `rows` at a time, by a loop; from `source`."""
    loop: Loop
    elements: int
    rows: int
    size: int  # bytes of an element
    source: str = "memory"

    def elements_of_loop(self):
        return self.loop.loads / self.rows


@dataclasses.dataclass
class Launch:
    kernel: str
    bodies: int
    passes: list
    chain: float = 0.0  # what one body does besides, one thing after the other


class Model:
    def __init__(self, gpu, gate):
        self.gpu, self.gate = gpu, gate

    def resident(self, kernel):
        """Blocks of a multiprocessor."""
        use = self.gate.usage[kernel]
        registers = math.ceil(use["registers"] / 8) * 8 * THREADS
        return max(1, min(self.gpu.registers // registers, self.gpu.shared // use["shared"],
                          2048 // THREADS))

    def team(self, launch):
        """Blocks of a body: the largest cluster with which all fit, as the executor chooses."""
        if f"{launch.kernel} cluster" not in self.gate.usage:
            return 1
        room = self.gpu.processors * self.resident(f"{launch.kernel} cluster")
        return next((size for size in (8, 4, 2) if launch.bodies * size <= room), 1)

    def launch(self, launch):
        gpu, team = self.gpu, self.team(launch)
        kernel = f"{launch.kernel} {'cluster' if team > 1 else 'block'}"
        blocks = launch.bodies * team
        busy = min(gpu.processors, blocks)
        resident = min(self.resident(kernel), math.ceil(blocks / gpu.processors))
        waves = math.ceil(blocks / (busy * resident))
        issue = bytes_read = 0.0
        chain = launch.chain
        for each in launch.passes:
            threads = each.elements / each.elements_of_loop()  # that go through the loop
            cycles = threads / 32 * each.loop.cycles()
            issue += launch.bodies * cycles / busy / gpu.clock
            if each.source == "memory":
                bytes_read += launch.bodies * each.elements * each.rows * each.size
            tiles = math.ceil(math.ceil(each.elements / TILE) / (CREWS * team))
            trips = tiles * TILE / 128 / each.elements_of_loop()
            wait = {"memory": gpu.memory, "near": gpu.near}[each.source]
            # Of one crew, four warps of which each has a scheduler for itself.
            work = each.loop.cycles() * 4 / gpu.clock
            chain += trips * (wait + work) + tiles * 4 * gpu.barrier
            chain += 2 * (gpu.cluster_barrier if team > 1 else gpu.barrier)
        under_way = resident * THREADS * max(
            [each.loop.loads * each.size for each in launch.passes], default=4)
        bandwidth = min(gpu.copy, busy * min(under_way / gpu.memory, gpu.per_processor * gpu.clock))
        times = {"bytes": bytes_read / bandwidth, "issue": issue, "chain": chain * waves}
        bound = max(times, key=times.get)
        # Before the first element is there, and after the last one, nothing overlaps.
        ends = gpu.memory if launch.passes and bound != "chain" else 0.0
        return gpu.node + ends + times[bound], bound


def rows_of(model, gate):
    """(name, unit, value, bound, goal): rows of the suites, by their names there."""
    laws = gate.streams("law_of_a_row block", 8)
    of_bfloats = gate.streams("law_of_bfloats block", 8)
    residual = gate.streams("residual_sum block", 8)[-1]

    def law_passes(loops, size):
        # The first finds the largest of a tile, the second adds weights and comes to the cache.
        return [Pass(loops[0], VOCAB, 1, size), Pass(loops[1], VOCAB, 1, size, "near")]

    def law(bodies, kernel="law_of_a_row", loops=laws, size=4):
        return Launch(kernel, bodies, law_passes(loops, size))

    gpu = model.gpu
    # The tests of a chain are made side by side, the one that refuses once more: laws and children,
    # then both rows at a token. A draw walks along groups, lanes and a lane by differences of
    # doubles, and reads a tile twice that has been read just now.
    test = 3.0 * gpu.cache + 8.0 * gpu.near
    draw = (64 + 128 + 128 + 32) * 10.0 / gpu.clock + 2.0 * gpu.cache
    decide = 2.0 * test + draw

    def verify(batch, lazily=False):
        passes = [Pass(residual, VOCAB, 2, 4)]
        if not lazily:
            return [law(batch * (CHAIN + 1)),
                    Launch("verify_by_rejection", batch, passes, decide)]
        return [Launch("verify_by_rejection", batch, law_passes(laws, 4) * CHAIN + passes,
                       CHAIN * test + draw)]

    def total(launches):
        times = [model.launch(each) for each in launches]
        return sum(t for t, _ in times), max(times)[1]

    def at_copy(rows, size=4):
        return rows * VOCAB * size / gpu.copy

    found = []

    def add(name, launches, goal=None, floor=None):
        time, bound = total(launches)
        found.append((name, "us", time, bound, goal if floor is None else None))
        if floor is not None:
            found.append((f"{name}: time / the rows at copy bandwidth", "", time / floor, bound, goal))
        return time

    add("law of a row", [law(1)], floor=at_copy(1))
    wide = add("laws of 64 rows", [law(64)], floor=at_copy(64))
    narrow = add("laws of 64 rows in bfloat16", [law(64, "law_of_bfloats", of_bfloats, 2)])
    found.append(("laws of 64 rows: bfloat16 / float", "", narrow / wide, "", 0.6))
    add("verify in a graph, 5 drafts, B = 1, rows in memory", verify(1), goal=12.0)
    for batch in (64, 256):
        for lazily in (False, True):
            add(f"verify, 5 drafts, B = {batch}, laws {'when asked for' if lazily else 'side by side'}",
                verify(batch, lazily), goal=1.4, floor=at_copy((CHAIN + 2) * batch))
    # All rows of target and draft for their laws, and at a refusal one of each again.
    of_requests = gate.streams("vllm_laws block", 8)
    rows = 2 * CHAIN + 1
    for batch in (32, 64):
        add(f"requests on logits in a graph, 5 drafts, B = {batch}",
            [law(batch * rows, "vllm_laws", of_requests),
             Launch("vllm_logits", batch, [Pass(residual, VOCAB, 2, 4)], decide)])
    return found


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder")
    parser.add_argument("--gpu", choices=GPUS, default="h200")
    parser.add_argument("--json", type=pathlib.Path)
    args = parser.parse_args()
    nvdisasm = disassembler()
    if nvdisasm is None:
        print("SKIPPED: no nvdisasm")
        return NOT_RUN
    gate = Gate(args.folder, nvdisasm)
    for file in ("laws", "halves", "rejection", "adapters_on_logits"):
        gate.read(file)
    rows = rows_of(Model(GPUS[args.gpu], gate), gate)
    missed = 0
    for name, unit, value, bound, goal in rows:
        verdict = ""
        if goal is not None:
            met = value * MARGIN <= goal
            missed += not met
            verdict = f"goal {goal:g}{'' if met else ', MISSED with the margin'}"
        print(f"{name:<80} {value:8.2f} {unit:<3} {bound:<6} {verdict}")
    if args.json:
        args.json.write_text(json.dumps(
            {"gpu": args.gpu,
             "rows": [{"name": n, "unit": u, "predicted": v, "bound": b, "goal": g}
                      for n, u, v, b, g in rows]}, indent=1) + "\n")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
