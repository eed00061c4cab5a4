# SPDX-License-Identifier: Apache-2.0
"""Writes texts with a toy model by speculative sampling: draft with q, verify with p, keep what was accepted.

    PYTHONPATH=build-torch/python python build-torch/test/verify.py

A model is a table of bigrams; the draft's table is the target's, blurred. For each text the loop keeps a seed
and the committed length, and that is all the randomness that verification needs.
"""
import argparse

import torch

import hunch


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--draft-length", type=int, default=4)
    parser.add_argument("--vocab", type=int, default=512)
    parser.add_argument("--blur", type=float, default=0.5, help="noise on the draft's logits")
    parser.add_argument("--device", default="cpu")
    return parser.parse_args()


def main():
    options = arguments()
    batch, n, vocab, device = options.batch, options.draft_length, options.vocab, options.device
    torch.manual_seed(0)
    logits = 2 * torch.randn(vocab, vocab, device=device)
    target = logits.softmax(-1)
    draft = (logits + options.blur * torch.randn_like(logits)).softmax(-1)

    seeds = torch.arange(batch, device=device)
    lengths = torch.ones(batch, dtype=torch.int32, device=device)  # grows with every step
    last = torch.zeros(batch, dtype=torch.int64, device=device)
    accepted_by_position = torch.zeros(n, device=device)
    overlap = 0.0
    for _ in range(options.steps):
        drafted, rows = [last], []
        for _ in range(n):
            rows.append(draft[drafted[-1]])
            drafted.append(torch.multinomial(rows[-1], 1)[:, 0])
        read = torch.stack(drafted, 1)  # [batch, n + 1]: what the target reads
        tokens, _, emitted, status = torch.ops.hunch.chain_speculative_sampling(
            torch.stack(rows, 1), read[:, 1:].int().contiguous(), target[read], seeds=seeds, lengths=lengths)
        if status.any():
            raise RuntimeError(hunch.STATUS[status.max()])
        last = tokens.gather(1, emitted[:, None].long())[:, 0].long()  # the token after the accepted drafts
        lengths += emitted + 1
        accepted_by_position += (emitted[:, None] > torch.arange(n, device=device)).float().mean(0)
        overlap += torch.minimum(rows[0], target[read[:, 0]]).sum(-1).mean().item()

    reached = accepted_by_position / options.steps
    print("texts", batch, "steps", options.steps, "tokens", int((lengths - 1).sum()))
    print("accepted at position:", " ".join(f"{a:.3f}" for a in reached.tolist()))
    print(f"first position, sum of min(p, q): {overlap / options.steps:.3f}")
    print(f"tokens per step: {1 + reached.sum():.3f}")


if __name__ == "__main__":
    main()
