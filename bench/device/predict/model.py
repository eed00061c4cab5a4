# SPDX-License-Identifier: Apache-2.0
"""How long a launch takes: the slowest of its bytes, its instructions, and what one team does after
each other, and what a launch costs anyhow."""

import dataclasses
import json
import math
import pathlib
import re
import subprocess
import sys

from gpu import THREADS, WARPS
from listing import kernels_in

MARGIN = 1.15
TILE = 4096
CREWS = 4  # of a block
BESIDES = 0.1  # what the executor takes a body for beside its rows, as a share of a block's time


class Gate:
    """What the compile gate left."""

    def __init__(self, folder, nvdisasm):
        sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3] / "test" / "device"))
        from compile import kernel_name  # the names by which the gate knows its kernels
        self.usage, self.kernels, self.release = {}, {}, None
        self.arguments = {}  # bytes, of each kernel
        self._folder, self._nvdisasm, self._name = pathlib.Path(folder), nvdisasm, kernel_name

    def read(self, file):
        usage = json.loads((self._folder / f"{file}.json").read_text())
        self.usage.update(usage["kernels"])
        self.release = usage["nvcc"]
        text = subprocess.run([self._nvdisasm, "-c", str(self._folder / f"{file}.cubin")],
                              capture_output=True, text=True, check=True).stdout
        self.kernels.update(kernels_in(text, self._name))
        ptx = (self._folder / f"{file}.ptx").read_text()
        self.arguments.update((self._name(kernel), int(size)) for kernel, size in
                              re.findall(r"\.param [^\n]*\b(\w+)_param_0\[(\d+)\]", ptx))

    def streams(self, kernel, least):
        """Its loops with at least so many loads of a thread."""
        found = [loop for loop in self.kernels[kernel].loops if loop.loads >= least]
        assert found, f"no loop of {kernel} has {least} loads: {self.kernels[kernel].loops}"
        return found


@dataclasses.dataclass
class Pass:
    """A read of rows of `elements`, `rows` at a time, by a loop; from `source`."""
    loop: object
    elements: int
    rows: int
    size: int  # bytes of an element
    source: str = "memory"

    def elements_of_loop(self):
        return self.loop.loads / self.rows


@dataclasses.dataclass
class Launch:
    """Bodies that read rows by whole teams."""
    kernel: str
    bodies: int
    passes: list
    chain: float = 0.0  # what one body does besides, one thing after the other
    sums: int = 1  # of which each ends with a barrier of the team; another one hides behind its loads
    alone: bool = False  # by one block each, whatever a cluster would take


@dataclasses.dataclass
class Stream:
    """Pieces of memory that the warps of a launch read, each one after the other."""
    kernel: str  # by blocks
    blocks: int
    loop: object
    lane: int  # bytes of a piece that a thread has under way in the loop
    pieces: int
    piece: int  # bytes
    times: int = 1  # that each is read
    is_ahead: bool = False  # whether the next bytes are under way while a thread computes


@dataclasses.dataclass
class Small:
    """Bodies that read little: what they wait for is all that they take."""
    kernel: str  # by blocks
    bodies: int
    trips: int = 0  # 0: as many as the listing says
    host: int = 0  # of them to the host's memory
    more: float = 0.0  # what one body does besides
    size: int = 0  # bytes of weights that all bodies read together, under way before they wait
    again: tuple = ()  # pointers that stand in its argument before: see `trips_of`


class Model:
    """`steps` has the launches of each composition: body, count, whether beside the draft model."""

    def __init__(self, gpu, gate, steps=None):
        self.gpu, self.gate, self.steps = gpu, gate, steps

    def time(self, launch, node=None):
        """Microseconds, and what they are bound by. `node` is what the launch itself costs."""
        run = {Launch: self.launch, Stream: self.stream, Small: self.small}[type(launch)]
        return run(launch, self.gpu.node if node is None else node)

    def total(self, launches):
        """Of launches of one stream, of which each overlaps with the one before it."""
        times = [self.time(each, self.gpu.follow if i > 0 else None)
                 for i, each in enumerate(launches)]
        return sum(t for t, _ in times), max(times)[1]

    def at_copy(self, size):
        return size / self.gpu.copy

    def resident(self, kernel):
        """Blocks of a multiprocessor."""
        use = self.gate.usage[kernel]
        registers = math.ceil(use["registers"] / 8) * 8 * THREADS
        return max(1, min(self.gpu.registers // registers, self.gpu.shared // use["shared"],
                          2048 // THREADS))

    def team(self, launch):
        """Blocks of a body: with which all are soonest done, as the executor chooses."""
        if launch.alone or f"{launch.kernel} cluster" not in self.gate.usage:
            return 1

        def time(size):
            kernel = f"{launch.kernel} {'cluster' if size > 1 else 'block'}"
            at_once = self.gpu.processors * self.resident(kernel) // size
            return math.ceil(launch.bodies / at_once) * (1 / size + BESIDES)

        return min((1, 2, 4, 8), key=time)

    def launch(self, launch, node):
        gpu, team = self.gpu, self.team(launch)
        kernel = f"{launch.kernel} {'cluster' if team > 1 else 'block'}"
        blocks = launch.bodies * team
        busy = min(gpu.processors, blocks)
        resident = min(self.resident(kernel), math.ceil(blocks / gpu.processors))
        waves = math.ceil(blocks / (busy * resident))
        issue = bytes_read = 0.0
        chain = launch.chain
        chain += launch.sums * (gpu.cluster_barrier if team > 1 else 2 * gpu.barrier)
        for each in launch.passes:
            tiles = math.ceil(math.ceil(each.elements / TILE) / (CREWS * team))
            threads = each.elements / each.elements_of_loop()  # that go through the loop
            cycles = threads / 32 * each.loop.cycles()
            issue += launch.bodies * cycles / busy / gpu.clock
            if each.source == "memory":
                bytes_read += launch.bodies * each.elements * each.rows * each.size
            trips = tiles * TILE / 128 / each.elements_of_loop()
            wait = {"memory": gpu.memory, "cache": gpu.cache, "near": gpu.near}[each.source]
            # Of one crew, four warps of which each has a scheduler for itself.
            work = each.loop.cycles() * 4 / gpu.clock
            chain += trips * (wait + work) + tiles * 4 * gpu.barrier
        under_way = resident * THREADS * max(
            [each.loop.loads * each.size for each in launch.passes], default=4)
        bandwidth = self.bandwidth(busy, under_way)
        times = {"bytes": bytes_read / bandwidth, "issue": issue, "chain": chain * waves}
        bound = max(times, key=times.get)
        # Before the first element is there, and after the last one, nothing overlaps.
        ends = gpu.memory if launch.passes and bound != "chain" else 0.0
        return node + ends + times[bound], bound

    def stream(self, stream, node):
        gpu = self.gpu
        resident = self.resident(stream.kernel)
        busy = min(gpu.processors, stream.blocks)
        at_once = min(resident, math.ceil(stream.blocks / gpu.processors))
        warps = min(stream.blocks, busy * at_once) * WARPS
        trips = stream.times * stream.piece / (32 * stream.lane)  # of one warp for one piece
        cycles = stream.loop.cycles()
        rounds = math.ceil(stream.pieces / warps)
        both = max if stream.is_ahead else lambda wait, work: wait + work
        # Warps of a multiprocessor take turns to compute; those without a piece are not there.
        turns = min(at_once * WARPS, math.ceil(stream.pieces / busy))
        times = {
            "bytes": stream.pieces * stream.piece * stream.times /
                     self.bandwidth(busy, turns * 32 * stream.lane),
            "issue": stream.pieces * trips * cycles / busy / gpu.clock,
            "chain": rounds * trips * both(gpu.memory, cycles * 4 / gpu.clock)}
        bound = max(times, key=times.get)
        return node + gpu.memory + times[bound], bound

    def small(self, small, node):
        gpu = self.gpu
        kernel = self.gate.kernels[small.kernel]
        at_once = gpu.processors * self.resident(small.kernel)
        trips = small.trips if small.trips > 0 else kernel.trips(small.again)
        chain = ((trips - small.host) * gpu.cache + small.host * gpu.host +
                 kernel.barriers * gpu.barrier + small.more)
        wait = math.ceil(small.bodies / at_once) * chain + self.at_copy(small.size)
        return node + wait, "launches" if node > wait else "chain"

    def bandwidth(self, busy, under_way):
        """Of so many multiprocessors, each with so many bytes under way."""
        gpu = self.gpu
        return min(gpu.copy, busy * min(under_way / gpu.memory, gpu.per_processor * gpu.clock))


@dataclasses.dataclass
class Row:
    """A line of the table. Its goal is None, or a sense and a value: see `met`."""
    name: str
    unit: str
    value: float
    bound: str = ""
    goal: tuple = None

    def met(self):
        """With the margin. A share of a bandwidth cannot be above 1: of such a goal the margin is of
        what is lost."""
        sense, wanted = self.goal
        if sense == "at most":
            return self.value * MARGIN <= wanted
        if sense == "at least":
            return self.value >= wanted * MARGIN
        assert sense == "share"
        return (1.0 / self.value - 1.0) * MARGIN <= 1.0 / wanted - 1.0


def at_most(value):
    return ("at most", value)


def at_least(value):
    return ("at least", value)


def share(value):
    return ("share", value)
