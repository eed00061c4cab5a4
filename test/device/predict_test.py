# SPDX-License-Identifier: Apache-2.0
"""Does the cost model read a listing as it is, and compute what its page says?

On listings that are made up, of kernels that differ in one thing each.
"""

import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "bench" / "device" / "predict"))

from gpu import Gpu, ISSUE, NEAR, PIPES, pipe_of  # noqa: E402
from listing import kernels_in  # noqa: E402
from misses import faults  # noqa: E402
from model import (Launch, Model, Pass, Row, Small, Stream, at_least, at_most, share)  # noqa: E402

GPU = Gpu(processors=10, clock=1000.0, copy=2e5, memory=0.5, cache=0.2, near=0.05, host=1.0, node=1.0,
          follow=0.6, cluster_barrier=0.4, barrier=0.02)


def listing(name, *lines):
    """As nvdisasm writes it: a label, or an instruction."""
    text, address = f".text.{name}:\n", 0
    for line in lines:
        if line.startswith("."):
            text += f"{line}:\n"
        else:
            text += f"        /*{address:04x}*/                   {line} ;\n"
            address += 16
    return text


def streaming(name, loads, wide=True):
    """A kernel with one loop of so many loads, each with an addition."""
    width = ".128" if wide else ""
    body = [f"LDG.E{width} R{8 + 4 * i}, [R2.64]" for i in range(loads)]
    body += [f"FADD R4, R4, R{8 + 4 * i}" for i in range(loads)]
    return listing(name, "MOV R4, RZ", ".L_x_0", *body, "@!P0 BRA `(.L_x_0)", "EXIT")


def kernels(*texts):
    return kernels_in("".join(texts), lambda mangled: mangled)


class gate_of:
    """A gate that was made up."""

    def __init__(self, found, registers=64):
        self.kernels = found
        self.usage = {name: {"registers": registers, "shared": 20000} for name in found}


class listings(unittest.TestCase):
    def test_a_loop(self):
        loop, = kernels(streaming("k block", 4))["k block"].loops
        self.assertEqual((loop.loads, loop.size, loop.wide), (4, 64, 64))
        self.assertEqual(loop.counts, {"memory": 4, "fma": 4, "other": 1})
        # Of all pipes the loads' is the slowest: one begins in a cycle.
        self.assertEqual(loop.cycles(), 4 / PIPES["memory"])

    def test_only_innermost_loops_that_load(self):
        text = listing("k block", ".L_x_0", "LDG.E R4, [R2.64]", ".L_x_1", "LDG.E.64 R6, [R2.64]",
                       "@P0 BRA `(.L_x_1)", "@P1 BRA `(.L_x_0)", ".L_x_2", "FADD R4, R4, R6",
                       "@P0 BRA `(.L_x_2)", "EXIT")
        loop, = kernels(text)["k block"].loops
        self.assertEqual((loop.loads, loop.size, loop.wide), (1, 8, 0))

    def test_a_branch_forward_is_no_loop(self):
        text = listing("k block", "@P0 BRA `(.L_x_0)", "LDG.E R4, [R2.64]", ".L_x_0", "EXIT")
        self.assertEqual(kernels(text)["k block"].loops, [])

    def test_several_kernels(self):
        found = kernels(streaming("a block", 2), streaming("b block", 8))
        self.assertEqual([found[k].loops[0].loads for k in ("a block", "b block")], [2, 8])

    def trips(self, *lines):
        return kernels(listing("k block", *lines))["k block"].trips()

    def test_trips(self):
        side_by_side = ("LDG.E R4, [R2.64]", "LDG.E R5, [R2.64+0x4]")
        self.assertEqual(self.trips(*side_by_side, "EXIT"), 1)
        self.assertEqual(self.trips("LDG.E.64 R4, [R2.64]", "LDG.E R6, [R4.64]", "EXIT"), 2)
        # The second half of a wide load, and what is computed from it.
        self.assertEqual(
            self.trips("LDG.E.64 R4, [R2.64]", "IMAD R8, R5, R9, R10", "LDG.E R6, [R8.64]"), 2)
        # What is written anew forgets it.
        self.assertEqual(self.trips("LDG.E R4, [R2.64]", "MOV R4, R9", "LDG.E R6, [R4.64]"), 1)
        # A branch looks at it, a barrier waits for all.
        self.assertEqual(self.trips("LDG.E R4, [R2.64]", "ISETP.NE P0, PT, R4, RZ, PT", "@P0 EXIT",
                                    "LDG.E R5, [R2.64]"), 2)
        self.assertEqual(self.trips("LDG.E R4, [R2.64]", "BAR.SYNC 0x0", "LDG.E R5, [R2.64]"), 2)

    def test_trips_to_what_was_asked_for(self):
        array = ("LDC.64 R2, c[0x0][0x210]", "IMAD.WIDE R4, R0, 0x4, R2")
        ask = ("LOP3.LUT R6, R4, 0xffffff80, RZ, 0xc0, !PT", "CCTL.E.PF1 [R6]")
        chased = ("LDG.E R8, desc[UR6][R4.64]", "IMAD.WIDE R10, R8, 0x4, R2",
                  "LDG.E R12, desc[UR6][R10.64]", "EXIT")
        self.assertEqual(self.trips(*array, *chased), 2)
        # It comes as soon as one trip takes, and then everything of this array is near.
        self.assertAlmostEqual(self.trips(*array, *ask, *chased), 1 + 2 * NEAR)
        # Another array is not, nor where a pointer leads that was loaded; a number does not hide it.
        other = ("LDC.64 R2, c[0x0][0x218]",)
        self.assertAlmostEqual(self.trips(*array, *ask, *other, "IMAD.WIDE R10, R0, 0x4, R2",
                                          "LDG.E R12, [R10.64]", "EXIT"), 1)
        self.assertAlmostEqual(self.trips(*array, *ask, "LDG.E.64 R8, [R4.64]",
                                          "LDG.E R12, [R8.64]", "EXIT"), 1 + NEAR + 1)
        # One that stands in the argument twice is the same; it is known by both.
        again = kernels(listing("k block", *array, *ask, "LDC.64 R2, c[0x0][0x240]",
                                "IMAD.WIDE R10, R0, 0x4, R2", "LDG.E R12, [R10.64]", "EXIT"))["k block"]
        self.assertAlmostEqual(again.trips([(0x30, 0x0)]), 1 + NEAR)
        self.assertAlmostEqual(again.trips([(0x30, 0x8)]), 1)
        self.assertAlmostEqual(again.trips(), 1)
        # A fence that empties the cache takes it away; a prefetch into the far one brings nothing.
        self.assertEqual(self.trips(*array, *ask, "CCTL.IVALL", *chased), 2)
        self.assertEqual(self.trips(*array, ask[0], "CCTL.E.PF2 [R6]", *chased), 2)
        # The descriptor of a load is no part of its address.
        self.assertEqual(self.trips("ULDC.64 UR6, c[0x0][0x208]", *array, "CCTL.E.PF1 [UR6]", *chased), 2)

    def test_pipes(self):
        self.assertEqual([pipe_of(o) for o in ("FFMA", "LOP3", "LDG", "MUFU", "HMMA", "BRA")],
                         ["fma", "alu", "memory", "special", "tensor", "other"])
        self.assertLessEqual(max(PIPES.values()), ISSUE)


class times(unittest.TestCase):
    def model(self, loads, registers=64, teams=("block",)):
        found = {f"k {team}": k for team in teams
                 for k in kernels(streaming(f"k {team}", loads, wide=False)).values()}
        return Model(GPU, gate_of(found, registers))

    def law(self, loads, bodies, elements=128000, **gate):
        model = self.model(loads, **gate)
        loop, = model.gate.kernels["k block"].loops
        return model.time(Launch("k", bodies, [Pass(loop, elements, 1, 4)]))

    def test_one_team_is_bound_by_its_chain(self):
        time, bound = self.law(8, 1)
        # Eight tiles for each of four crews, four trips of eight loads for a tile, and barriers.
        trips = 8 * 4096 / 128 / 8
        work = 4 * 8 / 1000.0
        self.assertEqual(bound, "chain")
        self.assertAlmostEqual(time, 1.0 + trips * (0.5 + work) + 8 * 4 * 0.02 + 2 * 0.02)

    def test_fewer_loads_are_slower(self):
        times = [self.law(loads, bodies)[0] for bodies in (1, 64) for loads in (16, 8, 4, 2)]
        self.assertEqual(times[:4], sorted(times[:4]))
        self.assertEqual(times[4:], sorted(times[4:]))
        self.assertLess(1.5 * times[0], times[2])  # else the test above shows nothing

    def test_many_teams_are_bound_by_bytes(self):
        time, bound = self.law(16, 2000)
        self.assertEqual(bound, "bytes")
        self.assertAlmostEqual(time, 1.0 + 0.5 + 2000 * 128000 * 4 / 2e5)

    def test_clusters_where_they_are_sooner(self):
        model = self.model(8, teams=("block", "cluster"))
        sizes = [model.team(Launch("k", bodies, [])) for bodies in (1, 2, 3, 5, 6, 10, 11, 40)]
        # Two blocks are on each multiprocessor. Of 11 bodies a block each keeps half of them busy.
        self.assertEqual(sizes, [8, 8, 4, 4, 2, 2, 4, 1])
        self.assertLess(self.law(8, 1, teams=("block", "cluster"))[0], self.law(8, 1)[0])
        self.assertEqual(model.team(Launch("k", 1, [], alone=True)), 1)

    def test_registers_bound_what_is_resident(self):
        self.assertEqual([self.model(8, registers).resident("k block") for registers in (32, 64, 128)],
                         [4, 2, 1])

    def stream(self, loads, pieces, times=1):
        model = self.model(8)
        model.gate.kernels.update(kernels(streaming("s block", loads)))
        model.gate.usage["s block"] = {"registers": 128, "shared": 20000}
        loop, = model.gate.kernels["s block"].loops
        return model.time(Stream("s block", 10, loop, 16 * loads, pieces, 65536, times))

    def test_streams(self):
        time, bound = self.stream(8, 10000)
        self.assertEqual(bound, "bytes")
        self.assertAlmostEqual(time, 1.0 + 0.5 + 10000 * 65536 / 2e5)
        self.assertLess(1.9 * (time - 1.5), self.stream(8, 10000, times=2)[0] - 1.5)
        # One piece for a warp, or less than one for each of them: what one takes.
        one, bound = self.stream(8, 1)
        self.assertEqual(bound, "chain")
        self.assertEqual(one, self.stream(8, 10)[0])
        self.assertLess(one, self.stream(2, 1)[0])

    def test_small_bodies(self):
        text = listing("w block", "LDG.E.64 R4, [R2.64]", "LDG.E R6, [R4.64]", "BAR.SYNC 0x0", "EXIT")
        model = Model(GPU, gate_of(kernels(text)))
        self.assertAlmostEqual(model.time(Small("w block", 1))[0], 1.0 + 2 * 0.2 + 0.02)
        self.assertAlmostEqual(model.time(Small("w block", 1, host=1))[0], 1.0 + 0.2 + 1.0 + 0.02)
        self.assertEqual(model.time(Small("w block", 1))[1], "launches")
        self.assertAlmostEqual(model.time(Small("w block", 21))[0], 1.0 + 2 * (2 * 0.2 + 0.02))


class goals(unittest.TestCase):
    def test_margins(self):
        def met(goal, value):
            return Row("", "", value, goal=goal).met()

        self.assertTrue(met(at_most(10.0), 8.6))
        self.assertFalse(met(at_most(10.0), 8.8))
        self.assertTrue(met(at_least(10.0), 11.6))
        self.assertFalse(met(at_least(10.0), 11.4))
        # A share of 0.9 loses a ninth, of which 15 % are to spare.
        self.assertTrue(met(share(0.9), 0.92))
        self.assertFalse(met(share(0.9), 0.91))

    def test_known_misses(self):
        missed, fulfilled = Row("a", "", 2.0, goal=at_most(1.0)), Row("b", "", 1.0, goal=at_most(2.0))
        rows = [missed, fulfilled, Row("c", "", 1.0)]
        self.assertEqual(list(faults(rows, ["a"])), [])
        self.assertEqual(len(list(faults(rows, []))), 1)
        self.assertEqual(len(list(faults(rows, ["a", "b"]))), 1)
        self.assertEqual(len(list(faults(rows, ["a", "c"]))), 1)
        self.assertEqual(len(list(faults(rows, ["a", "d"]))), 1)


if __name__ == "__main__":
    unittest.main()
