# SPDX-License-Identifier: Apache-2.0
"""Verification of chains of drafted tokens."""
from __future__ import annotations

from typing import Literal, NamedTuple, Optional, Union

import torch

from . import status as _status
from ._checks import LOGITS, Call

#: One number for all sequences, or a tensor [B] of one for each.
PerSequence = Union[int, float, torch.Tensor]


class VerifiedChains(NamedTuple):
    """What `verify_chain` returns. Of sequence b the first num_tokens[b] tokens are emitted."""

    tokens: torch.Tensor  #: int64 [B, n + 1] accepted drafts, one more token, then -1
    num_tokens: torch.Tensor  #: int32 [B] 1 to n + 1; with an error the accepted drafts alone
    status: torch.Tensor  #: uint8 [B] 0, or an index of STATUS

    def raise_for_status(self) -> None:
        """Raises StatusError if a sequence failed. Waits for the device."""
        _status.raise_for_status(self.status)


def verify_chain(
    target_logits: torch.Tensor,
    draft_tokens: torch.Tensor,
    draft_logits: Optional[torch.Tensor],
    *,
    seeds: torch.Tensor,
    lengths: torch.Tensor,
    temperature: PerSequence = 1.0,
    top_k: Optional[PerSequence] = None,
    top_p: PerSequence = 1.0,
    min_p: PerSequence = 0.0,
    rule: Literal["rejection", "block"] = "rejection",
    draft_is_scaled: bool = False,
) -> VerifiedChains:
    """Accepts a prefix of each drafted chain and draws one more token, so that texts have the target's law.

    The target's law is softmax(target_logits / temperature), cut by min_p, top_k and top_p in this order. That of the
    drafts is softmax(draft_logits / temperature), without cuts; a drafter that draws from another law q gives log q,
    or any logits of it, and `draft_is_scaled`. Exact for any q that the drafts were drawn from.

    Args:
        target_logits: float32, bfloat16 or float16 [B, n + 1, V], after the last emitted token and after each draft.
        draft_tokens: int32 or int64 [B, n]. The first -1 of a row ends its chain: rows may have different lengths.
        draft_logits: of the type of target_logits, [B, n, V'] with V' <= V, what the drafts were drawn by; tokens from
            V' on have probability 0. None: the drafts were chosen and not drawn, or nobody knows their law.
        seeds: int64 [B], one for the whole life of a request.
        lengths: int32 or int64 [B], committed tokens of each text, prompt included: in [1, 2^31). Seed and length name
            the random words of a step, so the same pair must not come twice with other logits.
        temperature: 0 is greedy: drafts that are the target's argmax are accepted, and draft_logits are not read.
        top_k: 0 or None: off. top_p: 1: off. min_p: 0: off.
        rule: "block" judges a chain as a whole and accepts more on average; it reads the row of every draft.
        draft_is_scaled: draft_logits are taken as they are, and not divided by the temperature.

    Returns:
        VerifiedChains. A row of logits without a law (a NaN, a +inf, nothing but -inf) that plain decoding would meet,
        a token outside the vocabulary, a draft that draft_logits make impossible, or a parameter out of range is
        the status of its sequence; the others are not disturbed.

    Raises:
        TypeError, ValueError: a type, shape or device is wrong; the message names the argument.

    Costs a few launches and no wait. Logits are read in place if the rows are contiguous and at one distance, else
    copied. Can be captured in a CUDA graph if the parameters are tensors or stay the same; then raise `lengths` in
    place between replays.
    """
    call = Call("verify_chain", target_logits, "target_logits")
    call.tensor(target_logits, "target_logits", LOGITS, ("B", "n + 1", "V"))
    batch, rows, _ = target_logits.shape
    length = rows - 1
    if length < 0:
        raise call.wrong("target_logits", f"must have a row for the root, its shape is {list(target_logits.shape)}")
    if rule not in ("rejection", "block"):
        raise call.wrong("rule", f"must be 'rejection' or 'block', it is {rule!r}")
    drafted = call.ids(draft_tokens, "draft_tokens", (batch, length))
    target = call.rows(target_logits, "target_logits", LOGITS, ("B", "n + 1", "V"))
    draft = None
    if draft_logits is not None:
        draft = call.rows(draft_logits, "draft_logits", (target_logits.dtype,), (batch, length, "V'"))
        if draft.shape[1] > target.shape[1]:
            raise call.wrong("draft_logits", f"has more tokens than the target: {draft.shape[1]}, {target.shape[1]}")
        draft = draft.unflatten(0, (batch, length))
    seeds, lengths = call.keys(seeds, lengths, batch)
    temperature, top_k, top_p, min_p = call.sampling(temperature, top_k, top_p, min_p, lengths)

    device = call.device
    read = torch.cat([drafted.new_zeros((batch, 1)), drafted], 1).flatten()  # the root is not looked at
    position = (lengths.long() - 1)[:, None].expand(batch, rows).flatten().contiguous()
    starts = torch.arange(0, batch * rows + 1, rows, dtype=torch.int32, device=device)
    state = torch.arange(batch, dtype=torch.int32, device=device)
    return VerifiedChains(*torch.ops.hunch.rejection_sample(
        target, draft, read, starts, position, state, temperature, seeds, length,
        block_verification=rule == "block", target_is_scaled=False, draft_is_scaled=draft_is_scaled, top_k=top_k,
        top_p=top_p, min_p=min_p))
