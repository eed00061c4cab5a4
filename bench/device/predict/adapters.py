# SPDX-License-Identifier: Apache-2.0
"""Rows of the adapters and of verification, B = 64, five drafts, beside what they replace. That takes
as long as its launches cost and its bytes take at the bandwidth of a copy: less than it would."""

from laws import CHAIN, Laws, VOCAB, loop_of_a_law
from model import Launch, Pass, Row, at_least

FILES = ("laws", "halves", "rejection", "adapters", "adapters_on_logits")
BATCH = 64
ACCEPTED = 0.7  # of the drafts that are tested: what good drafters reach
NODES = CHAIN + 1

# Rows of V floats that the replaced forms read and write for each request, and their launches. So
# many requests have more rows than a cache holds: each pass over them goes through memory.
FLASHINFER = (4, 1)  # both rows at the refused draft, for the sum and for the draw
REPLACED = {
    # Sums of the rows of both sides; what is accepted; both rows at the refused draft.
    "vLLM's sampler on logits": (NODES + CHAIN + 2, 3),
    "FlashInfer's chain of probabilities": FLASHINFER,
    "SGLang's tree of probabilities": (4, 1),
    # The softmax reads the target's rows for the sums, and once more to write them.
    "FlashInfer's softmax and chain": (3 * NODES + FLASHINFER[0], 2),
    # The softmax reads for the largest, for the sum and to write. p - q; that clamped; sums of it;
    # divided by them; exponential times; divided by these; the largest. The last three of the row
    # after the drafts.
    "PyTorch's tensors": (4 * NODES + (3 + 2 + 1 + 2 + 1 + 3 + 1) * CHAIN + 5, 16),
}


def rows(model):
    laws = Laws(model)
    gpu = model.gpu
    found = []

    def add(name, launches, replaced):
        time, bound = model.total(launches)
        found.append(Row(f"{name}, 5 drafts, B = 64", "us", time, bound))
        for form, goal in replaced:
            count, nodes = REPLACED[form]
            other = nodes * (gpu.node + gpu.memory) + model.at_copy(BATCH * count * VOCAB * 4)
            found.append(Row(f"{form} / {name}, 5 drafts, B = 64", "", other / time, bound, goal))

    residual = [Pass(laws.residual, VOCAB, 2, 4)]
    # Laws of all rows of both sides, and at a refusal one of each again; or those up to the refusal,
    # one after the other.
    of_requests = loop_of_a_law(model.gate, "vllm_laws block")
    both = laws.residual_of(model.gate, "vllm_logits_on_demand block", 16)
    sooner = []
    for accepted in (1.0, ACCEPTED):
        drafts = sum(accepted**i for i in range(CHAIN))  # whose rows of both sides are read
        law = Pass(of_requests, VOCAB * (2.0 * drafts + accepted**CHAIN), 1, 4)
        asked = [Launch("vllm_logits_on_demand", BATCH, [law, Pass(both, VOCAB, 2, 4)],
                        drafts * laws.test + laws.draw, round(2.0 * drafts))]
        at_once = [laws.law(BATCH * (NODES + CHAIN), "vllm_laws", of_requests),
                   Launch("vllm_logits", BATCH, residual, laws.decide)]
        sooner.append(min((asked, at_once), key=lambda launches: model.total(launches)[0]))
    add("vllm_logits", sooner[0], [("vLLM's sampler on logits", at_least(2.0))])
    add(f"vllm_logits, {ACCEPTED:.0%} of drafts accepted", sooner[1],
        [("vLLM's sampler on logits", None)])
    # Rows of probabilities that are taken as they are.
    add("flashinfer_chain", [Launch("flashinfer_chain", BATCH, residual, laws.decide)],
        [("FlashInfer's chain of probabilities", None)])
    add("sglang_target_only",
        [Launch("sglang_target_only", BATCH, [Pass(laws.largest, VOCAB, 1, 4)],
                6 * laws.test + laws.draw)],
        [("SGLang's tree of probabilities", None)])
    sooner = min((laws.verify(BATCH, lazily) for lazily in (False, True)),
                 key=lambda launches: model.total(launches)[0])
    add("verification of logits", sooner, [("FlashInfer's softmax and chain", at_least(3.0)),
                                           ("PyTorch's tensors", at_least(10.0))])
    return found
