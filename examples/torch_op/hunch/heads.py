# SPDX-License-Identifier: Apache-2.0
"""The head of a draft model over a part of its rows."""
from __future__ import annotations

from typing import Optional, Sequence, Union

import torch

from ._checks import IDS, LOGITS, Call

#: Row ranges [first, last): a tensor, or pairs of numbers.
Ranges = Union[torch.Tensor, Sequence[Sequence[int]]]


def _runs(sorted_ids: torch.Tensor) -> torch.Tensor:
    """Ascending ids [R] as ranges [R, 2]: each run of neighbours is one, and the rest are empty."""
    size = sorted_ids.shape[0]
    begins = torch.ones_like(sorted_ids, dtype=torch.bool)
    begins[1:] = sorted_ids[1:] != sorted_ids[:-1] + 1
    run = begins.cumsum(0) - 1
    none = sorted_ids.new_zeros(size)
    return torch.stack([none.scatter_reduce(0, run, sorted_ids, "amin", include_self=False),
                        none.scatter_reduce(0, run, sorted_ids + 1, "amax", include_self=False)], 1).to(torch.int32)


def shortlist_ranges(shortlist: torch.Tensor) -> torch.Tensor:
    """Distinct ids [R] as row ranges int32 [G, 2], for `head`: once for a list that stays. Waits for the device."""
    call = Call("shortlist_ranges", shortlist, "shortlist")
    ranges = _runs(call.ids(shortlist, "shortlist", ("R",)).sort().values.clamp(-1, 2**31 - 2))
    return ranges[ranges[:, 0] != ranges[:, 1]]


def head(
    hidden: torch.Tensor,
    weight: torch.Tensor,
    shortlist: Optional[torch.Tensor] = None,
    *,
    ranges: Optional[Ranges] = None,
    max_rows: Optional[int] = None,
) -> torch.Tensor:
    """Logits of some rows of a head: hidden @ weight[rows].T, without a copy of the rows.

    The rows are those of a shortlist of ids, in its order; or those of ranges, one range after the other, for all
    hidden states or for each its own. A row that several states want is read once for up to 64 of them.

    Args:
        hidden: float32, bfloat16 or float16 [B, H].
        weight: float32, bfloat16 or float16 [V, H], contiguous.
        shortlist: int32 or int64 [R], distinct rows in [0, V). Sorted in every call; of a list that stays, make
            `shortlist_ranges` once: then logits are in ascending order of the ids.
        ranges: int32 or int64 [G, 2], or [B, G, 2] for a list of each state, such as those of `select_clusters`; first
            row and the one after the last, ascending, not overlapping. An empty range ends a list. Pairs of numbers
            are copied to the device, which a captured graph cannot do.
        max_rows: R, the columns of the logits; with ranges in a tensor it must be given.

    Returns:
        float32 [B, R]. Behind the rows of a list that is shorter: -inf. A list that is none (rows outside [0, V), that
        come twice or do not ascend, or are more than max_rows) gives NaN, which verification reports as
        invalid_logits or invalid_draft.

    Raises:
        TypeError, ValueError: a type, shape or device is wrong; the message names the argument.

    Neighbouring rows are read many times faster than scattered ones: store a head in the order of its shortlist, or of
    its clusters. Sums are in float32, in one order for every shortlist and batch. Logits have no gradient. On CUDA
    hidden states must be within 65,504 if weights are float16.
    """
    call = Call("head", hidden, "hidden")
    # Detached: the operator knows no derivative, and what it returns must not look as if it had one.
    hidden = call.tensor(hidden, "hidden", LOGITS, ("B", "H")).detach().float().contiguous()
    batch, width = hidden.shape
    weight = call.tensor(weight, "weight", LOGITS, ("V", width)).detach()
    if not weight.is_contiguous():
        raise call.wrong("weight", "must be contiguous: it is too large to be copied in each call")
    if (shortlist is None) == (ranges is None):
        raise call.wrong("shortlist", "or ranges must be given, and not both")
    if shortlist is not None:
        ids, order = call.ids(shortlist, "shortlist", ("R",)).sort()
        logits = torch.ops.hunch.shortlist_head(
            hidden, weight, _runs(ids.clamp(-1, 2**31 - 2))[None], ids.shape[0])
        return torch.empty_like(logits).index_copy(1, order, logits)
    if not isinstance(ranges, torch.Tensor):
        pairs = [tuple(pair) for pair in ranges]
        if any(len(pair) != 2 or isinstance(pair[0], float) or isinstance(pair[1], float) for pair in pairs):
            raise call.wrong("ranges", "must be pairs of a first row and the one after the last")
        max_rows = max(0, sum(last - first for first, last in pairs)) if max_rows is None else max_rows
        ranges = torch.tensor(pairs, dtype=torch.int64, device=hidden.device).reshape(-1, 2)
    if max_rows is None:
        raise call.wrong("max_rows", "must be given with a tensor of ranges")
    call.whole(max_rows, "max_rows", 0)
    shape = ("G", 2) if ranges.dim() == 2 else (batch, "G", 2)
    lists = call.tensor(ranges, "ranges", IDS, shape)
    lists = lists[None] if lists.dim() == 2 else lists
    if lists.dtype == torch.int64:  # what does not fit 32 bits is still no row, and not an empty range
        lists = torch.stack([lists[..., 0].clamp(-2, 2**31 - 2), lists[..., 1].clamp(-1, 2**31 - 1)], -1).int()
    return torch.ops.hunch.shortlist_head(hidden, weight, lists.contiguous(), max_rows)
