# SPDX-License-Identifier: Apache-2.0
"""What is known of GPUs. All times are in microseconds, all sizes in bytes."""

import dataclasses
import re

THREADS = 512  # of a block
WARPS = THREADS // 32


@dataclasses.dataclass(frozen=True)
class Gpu:
    """Times of memory are of one trip of a warp that waits for nothing else."""
    processors: int
    clock: float  # cycles in a microsecond
    copy: float  # bytes in a microsecond
    memory: float
    cache: float  # L2
    near: float  # L1
    host: float  # memory of the host, across the bus
    node: float  # from the end of a kernel of a graph to the first instruction of the next
    follow: float  # the same where the next one waits on the device: programmatic dependent launch
    cluster_barrier: float
    barrier: float
    registers: int = 65536
    shared: int = 233472
    per_processor: float = 64.0  # bytes in a cycle that a multiprocessor takes from L2


# Copy: measured by others on H200 and H100 SXM. Latencies: microbenchmarks of Hopper (arXiv:
# 2402.13499); of a graph's node and of barriers, the manufacturer's examples; of the host's memory,
# a read across PCIe 5. What is left of a launch that overlaps is a guess: its writes must be seen.
# What a device measures replaces them.
GPUS = {
    "h200": Gpu(132, 1830.0, 4.3e6, 0.65, 0.27, 0.035, 1.2, 1.3, 0.8, 0.5, 0.03),
    "h100": Gpu(132, 1755.0, 3.0e6, 0.65, 0.27, 0.035, 1.2, 1.3, 0.8, 0.5, 0.03),
}


@dataclasses.dataclass(frozen=True)
class Links:
    """Between the eight GPUs of a machine."""
    exchange: float  # of a few words, by blocks while they run
    reduce: float  # of a few words, by a kernel of a collective
    gather: float  # what a kernel that gathers costs before its bytes
    bandwidth: float  # of these bytes, in a microsecond, that come to a GPU


# Exchange: one way across NVLink, and as much for barriers and for looking; a guess. Of NCCL's kernels
# the constants of its own model (src/graph/tuning.cc). Bandwidth: of its all-gather among eight H100,
# measured by others and what its authors expect (NVIDIA/nccl-tests, issue 326); H200 have the same
# links.
NVLINK = Links(exchange=1.2, reduce=15.0, gather=10.8, bandwidth=3.6e5)

# What a trip to L1 takes of one to L2.
NEAR = 0.13

# Warp instructions that a multiprocessor begins in a cycle, by the pipe that they need. Of products
# by tensor cores those of 16 x 8 x 16, of which a warp's own instructions reach two thirds.
ISSUE = 4.0
PIPES = {"fma": 4.0, "alu": 2.0, "double": 2.0, "memory": 1.0, "special": 0.5, "tensor": 0.65,
         "other": 4.0}
PIPE_OF = {
    "fma": r"FFMA|FADD|FMUL|IMAD|HFMA2|HADD2|HMUL2",
    "alu": r"FMNMX|FSETP|FSEL|FSET|ISETP|IADD3|VIADD|LOP3|SHF|PRMT|SEL|LEA|VIMNMX|VIMNMX3|IMNMX|"
           r"MOV|PLOP3|IABS|SGXT|BMSK",
    "double": r"DFMA|DADD|DMUL|DSETP|DMNMX",
    "memory": r"LDG|LD|LDS|STS|STG|ST|SHFL|ATOM\w*|RED|LDSM|LDGSTS|REDUX",
    "special": r"MUFU|F2F|F2I|I2F|POPC|FLO|BREV",
    "tensor": r"HMMA|IMMA|HGMMA|IGMMA|QGMMA",
}


def pipe_of(opcode):
    for pipe, names in PIPE_OF.items():
        if re.fullmatch(names, opcode):
            return pipe
    return "other"
