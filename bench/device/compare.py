#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Verification of chains of five on a CUDA device: this library, PyTorch and FlashInfer.

    compare.py LIBRARY [--flashinfer LIBRARY] [--json FILE]

LIBRARY is the built hunch_bench_chains, and FlashInfer's the built hunch_bench_flashinfer, without
which it is left out. All candidates read the same tensors, take turns, and are
timed by events on one stream, launches and all. Each begins with the target's logits, of which
nothing is known, and ends with the accepted tokens. What the drafter leaves is not timed: to this
library the scalars of the laws that it drew from, to the others these laws as probabilities.

Exits with 77 where torch or a device is missing.
"""

import argparse
import ctypes
import json
import statistics
import sys

VOCAB = 128256
LENGTH = 5
ROUNDS = 15
NOT_RUN = 77


def language_logits(torch, rows, generator):
    """Rows with a few likely tokens before a long tail."""
    logits = 1.8 * torch.randn(rows, VOCAB, device="cuda", generator=generator)
    likely = torch.randint(VOCAB, (rows, 200), device="cuda", generator=generator)
    ranks = torch.arange(200, device="cuda", dtype=torch.float32)
    logits.scatter_(1, likely, (18.0 - 2.0 * torch.log1p(ranks)).expand(rows, -1).contiguous())
    return logits


class Drafts:
    """A batch of chains drawn from q, which is p with other noise."""

    def __init__(self, torch, batch, generator):
        self.batch = batch
        p = language_logits(torch, batch * (LENGTH + 1), generator).view(batch, LENGTH + 1, VOCAB)
        noise = torch.randn(batch, LENGTH, VOCAB, device="cuda", generator=generator)
        self.target = p
        self.draft = (p[:, :LENGTH] + noise).contiguous()
        self.q = self.draft.softmax(-1)
        drawn = torch.multinomial(self.q.view(-1, VOCAB), 1, generator=generator)
        self.tokens = drawn.view(batch, LENGTH)
        self.narrow_tokens = self.tokens.int().contiguous()

    def expected_accepted(self, torch):
        """The mean over all uniforms, in double."""
        total = 0.0
        for p, q, tokens in zip(self.target, self.draft, self.tokens):
            at = tokens[:, None]
            p = p[:LENGTH].double().softmax(-1).gather(1, at)
            q = q.double().softmax(-1).gather(1, at)
            total += (p / q).clamp(max=1.0).cumprod(0).sum().item()
        return total / self.batch


def hunch(library, torch, drafts, side_by_side):
    create = library.hunch_chains_create
    create.restype = ctypes.c_void_p
    create.argtypes = [ctypes.c_void_p, ctypes.c_int32, ctypes.c_int32] + 3 * [ctypes.c_void_p]
    library.hunch_chains_verify.argtypes = [ctypes.c_void_p, ctypes.c_int32]
    library.hunch_chains_accepted.argtypes = [ctypes.c_void_p]
    handle = create(torch.cuda.current_stream().cuda_stream, drafts.batch, VOCAB,
                    drafts.target.data_ptr(), drafts.draft.data_ptr(),
                    drafts.narrow_tokens.data_ptr())
    if not handle:
        sys.exit("the library could not set up a batch")

    def run():
        if not library.hunch_chains_verify(handle, side_by_side):
            sys.exit("a verification failed")

    def accepted():
        return library.hunch_chains_accepted(handle) / drafts.batch

    return run, accepted


def materialised(torch, drafts, lean):
    """Softmax, ratios, residuals and draws as tensors. The residuals of all positions are written,
    as engines do that draw a recovered token at each; `lean`: of the first refused one only."""
    counts = [None]
    q, tokens, rows = drafts.q, drafts.tokens[..., None], torch.arange(drafts.batch, device="cuda")

    def draw(weights):
        # By exponential times, of which the first wins: no synchronisation with the host, which
        # multinomial may need.
        return (weights / torch.empty_like(weights).exponential_()).argmax(-1)

    def run():
        p = drafts.target.softmax(-1)
        ratio = p[:, :LENGTH].gather(2, tokens) / q.gather(2, tokens)
        accept = torch.rand_like(ratio) < ratio
        count = accept[..., 0].long().cumprod(1).sum(1)
        if lean:
            at = count.clamp(max=LENGTH - 1)
            residual = (p[rows, count] - q[rows, at] * (count < LENGTH)[:, None]).clamp(min=0)
            following = draw(residual)
        else:
            residual = (p[:, :LENGTH] - q).clamp(min=0)
            residual = residual / residual.sum(-1, keepdim=True)
            following = torch.cat([draw(residual), draw(p[:, LENGTH:])], 1)[rows, count]
        counts[0] = count
        return following

    return run, lambda: counts[0].double().mean().item()


def flashinfer(library, torch, drafts):
    p = torch.empty_like(drafts.target)
    out = torch.empty(drafts.batch, LENGTH + 1, dtype=torch.int32, device="cuda")
    counts = torch.zeros(2, drafts.batch, dtype=torch.int32, device="cuda")
    work = torch.empty(16 << 20, dtype=torch.uint8, device="cuda")
    pointers = [ctypes.c_void_p(t.data_ptr()) for t in (drafts.target, p, drafts.q,
                                                         drafts.narrow_tokens, out, counts)]
    stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)
    turn = [0]

    def run():
        turn[0] += 1
        if not library.flashinfer_verify(
                stream, drafts.batch, LENGTH, VOCAB, *pointers, ctypes.c_uint64(turn[0]),
                ctypes.c_void_p(work.data_ptr()), ctypes.c_size_t(work.numel())):
            sys.exit("a verification by FlashInfer failed")
        return out

    return run, lambda: (out >= 0).double().sum(1).mean().item() - 1.0


def interleaved(torch, candidates):
    """Microseconds, [candidate][round], after one round that is not counted."""
    times = [[] for _ in candidates]
    for turn in range(-1, ROUNDS):
        for out, (run, _) in zip(times, candidates):
            first, last = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            repeats = 20
            torch.cuda.synchronize()
            torch.cuda._sleep(200000)  # the host gets ahead of the device
            first.record()
            for _ in range(repeats):
                run()
            last.record()
            torch.cuda.synchronize()
            if turn >= 0:
                out.append(1e3 * first.elapsed_time(last) / repeats)
    return times


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("library")
    parser.add_argument("--flashinfer")
    parser.add_argument("--json")
    options = parser.parse_args()
    try:
        import torch
    except ImportError:
        print("not run: no torch")
        return NOT_RUN
    if not torch.cuda.is_available():
        print("not run: torch sees no CUDA device")
        return NOT_RUN
    library = ctypes.CDLL(options.library)
    generator = torch.Generator("cuda").manual_seed(1)
    rows, agree = [], True

    def add(name, value, unit, goal=None):
        met = None if goal is None else value >= goal
        rows.append({"name": name, "value": value, "unit": unit, "goal": goal, "met": met})
        print(f"{name:<64} {value:12.4g} {unit:<8} {'' if goal is None else f'>= {goal}':<10} "
              f"{ {None: '', True: 'yes', False: 'NO'}[met]}", flush=True)

    for batch in (1, 64, 256):
        drafts = Drafts(torch, batch, generator)
        named = {"hunch, laws side by side": hunch(library, torch, drafts, 1),
                 "hunch, laws when asked for": hunch(library, torch, drafts, 0),
                 "PyTorch, all residuals": materialised(torch, drafts, False),
                 "PyTorch, one residual": materialised(torch, drafts, True)}
        if options.flashinfer:
            named["FlashInfer"] = flashinfer(ctypes.CDLL(options.flashinfer), torch, drafts)
        times = dict(zip(named, interleaved(torch, list(named.values()))))
        prefix = f"verify, 5 drafts, B = {batch}, beside torch: "
        for name, values in times.items():
            add(prefix + name, statistics.median(values), "us")
        ours = min((times[n] for n in named if n.startswith("hunch")), key=statistics.median)
        goals = {"PyTorch, all residuals": 10.0, "PyTorch, one residual": None, "FlashInfer": 3.0}
        for name, goal in goals.items():
            if name in times:
                ratio = statistics.median(a / b for a, b in zip(times[name], ours))
                add(prefix + name + " / hunch", ratio, "", goal)
        expected = drafts.expected_accepted(torch)
        for name, (_, accepted) in named.items():
            found = accepted()
            # Five standard deviations of a mean of counts between 0 and 5.
            if abs(found - expected) > 5 * 2.5 / batch ** 0.5:
                print(f"{name}: {found} accepted drafts instead of {expected}")
                agree = False
    if options.json:
        with open(options.json, "w", encoding="utf-8") as out:
            json.dump({"rows": rows}, out, indent=1)
    return 0 if agree else 1


if __name__ == "__main__":
    sys.exit(main())
