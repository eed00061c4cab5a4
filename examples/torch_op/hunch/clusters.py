# SPDX-License-Identifier: Apache-2.0
"""DynaSpec (Zhang et al. 2025, arXiv:2510.13847): a router chooses clusters of a draft head for every context."""
from __future__ import annotations

import os
from typing import NamedTuple, Optional

import torch

from . import _tensor_file
from ._checks import IDS, LOGITS, Call


def _mixed(hash_: int, values: list[int]) -> int:
    """The library's fingerprint of numbers: FNV-1a, one word at a time."""
    for value in values:
        hash_ = (hash_ ^ (value & 0xFFFFFFFF)) * 1099511628211 & 0xFFFFFFFFFFFFFFFF
    return hash_


class Layout:
    """The order in which a draft head is stored: the token of each row, and which rows are clusters.

    `weight[layout.row_token]` of a head by tokens is the head that `head` takes with the ranges of `select_clusters`.

    Args:
        row_token: int32 or int64 [R], the token of each row, each once; tokens without a row are never drafted.
        cluster_begin: int32 or int64 [C + 1]: cluster c is the rows [cluster_begin[c], cluster_begin[c + 1]); none is
            empty, and the last ends with the head. Rows in front of the first are the core, always chosen.
        vocab_size: of the target.

    Raises ValueError for tables that no layout can have. Looks at the tables, so waits for the device: make it once.
    """

    def __init__(self, row_token: torch.Tensor, cluster_begin: torch.Tensor, vocab_size: int):
        call = Call("Layout", row_token, "row_token")
        row_token = call.ids(row_token, "row_token", ("R",))
        cluster_begin = call.ids(cluster_begin, "cluster_begin", ("C + 1",))
        self.vocab_size = call.whole(vocab_size, "vocab_size", 1)
        tokens, begin = row_token.tolist(), cluster_begin.tolist()
        if not tokens or min(tokens) < 0 or max(tokens) >= self.vocab_size:
            raise call.wrong("row_token", f"must be tokens of the vocabulary of {self.vocab_size}")
        if len(set(tokens)) != len(tokens):
            raise call.wrong("row_token", "has a token twice")
        if len(begin) < 2 or begin[0] < 0 or begin[-1] != len(tokens) or any(
                a >= b for a, b in zip(begin, begin[1:])):
            raise call.wrong("cluster_begin", f"must ascend from 0 or more to {len(tokens)}: no cluster is empty")
        self.row_token, self.cluster_begin = row_token.to(torch.int32), cluster_begin.to(torch.int32)
        self._sizes = sorted((b - a for a, b in zip(begin, begin[1:])), reverse=True)
        self.fingerprint = _mixed(_mixed(0xCBF29CE484222325, [self.vocab_size, len(tokens), *tokens]),
                                  [len(begin) - 1, *begin])

    @classmethod
    def load(cls, path: str | os.PathLike) -> Layout:
        """The layout of a file that `make_layout` writes. Raises ValueError if it has no clusters, or is no layout."""
        tensors, about = _tensor_file.read(path, "hunch.vocab_layout")
        if "cluster_begin" not in tensors:
            raise ValueError(f"{path}: the layout has no clusters")
        try:
            return cls(tensors["row_token"], tensors["cluster_begin"], int(about["vocab_size"]))
        except (KeyError, TypeError, ValueError) as error:
            raise ValueError(f"{path}: not a layout: {_tensor_file.said(error)}") from error

    @property
    def clusters(self) -> int:
        return len(self._sizes)

    @property
    def core_rows(self) -> int:
        return self.row_token.shape[0] - sum(self._sizes)

    def to(self, device: torch.device | str) -> Layout:
        """The same with its tables on a device."""
        other = object.__new__(Layout)
        other.__dict__.update(self.__dict__, row_token=self.row_token.to(device),
                              cluster_begin=self.cluster_begin.to(device))
        return other

    def max_rows(self, most: int, rows: Optional[int] = None) -> int:
        """The most rows that a choice of so many clusters and rows can have: the columns that `head` needs."""
        largest = self.core_rows + sum(self._sizes[:most])
        return largest if rows is None else min(largest, max(rows, self.core_rows + self._sizes[0]))


class Router(NamedTuple):
    """W2 max(0, W1 x + b1) + b2: scores of the clusters for a context x."""

    first: torch.Tensor  #: float32 [width, inputs]
    first_bias: torch.Tensor  #: float32 [width]
    second: torch.Tensor  #: float32 [C, width]
    second_bias: torch.Tensor  #: float32 [C]

    @classmethod
    def load(cls, path: str | os.PathLike, layout: Layout) -> Router:
        """The router of a file that `train_router` writes. Raises ValueError if it is for another layout."""
        tensors, about = _tensor_file.read(path, "hunch.router")
        made_for = f"0x{layout.fingerprint:016x}"
        if about.get("layout") != made_for:
            raise ValueError(f"{path}: was trained for the layout {about.get('layout')}, not for {made_for}")
        try:
            router = cls(*(tensors[name] for name in cls._fields))
            width, inputs = router.first.shape
        except (KeyError, ValueError) as error:
            raise ValueError(f"{path}: not a router: {_tensor_file.said(error)}") from error
        shapes = ((width, inputs), (width,), (layout.clusters, width), (layout.clusters,))
        for name, tensor, shape in zip(cls._fields, router, shapes):
            if tensor.shape != shape or tensor.dtype != torch.float32:
                raise ValueError(f"{path}: {name} must be torch.float32 {list(shape)}, it is {tensor.dtype} "
                                 f"{list(tensor.shape)}")
        return cls(*(tensor.to(layout.row_token.device) for tensor in router))

    def scores(self, context: torch.Tensor) -> torch.Tensor:
        """The scores [B, C] of contexts [B, inputs], in float32. Any scores are exact; better ones accept more."""
        hidden = torch.relu(torch.nn.functional.linear(context.float(), self.first, self.first_bias))
        return torch.nn.functional.linear(hidden, self.second, self.second_bias)


class Shortlists(NamedTuple):
    """What `select_clusters` returns: a list of rows of the head for each context."""

    ranges: torch.Tensor  #: int32 [B, G, 2] first row and the one after the last, ascending; then empty ones
    num_rows: torch.Tensor  #: int32 [B] rows of all ranges
    max_rows: int  #: the most that any choice by this budget can have


def select_clusters(
    scores: torch.Tensor,
    layout: Layout,
    *,
    most: int,
    rows: Optional[int] = None,
    share: Optional[float] = None,
    per_row: bool = False,
    depth: Optional[int] = None,
) -> Shortlists:
    """The best clusters for each context, as far as a budget goes: the shortlists that its drafts are drawn from.

    Clusters are taken from the highest score on, of equal ones the lower number first, until the budget is used up;
    the core is always in. Any choice is exact: what is not in the list is still emitted by verification.

    Args:
        scores: float32, bfloat16 or float16 [B, C], logits of a law over clusters, such as `Router.scores`. A row that
            is no law (a NaN, a +inf, nothing but -inf) chooses the first cluster.
        layout: whose clusters they are.
        most: clusters, 1 or more.
        rows: rows of the head, core included. The first cluster that does not fit ends the choice; one is always taken.
        share: in (0, 1]; no more clusters than reach this share of the law.
        per_row: the best clusters are those with the largest probability for each of their rows.
        depth: of the node whose children are drafted, 0 for the root: most and rows shrink with it, from depth 2 on to
            1 / (2 (depth + 1)) of them, as DynaSpec does. None: they stay.

    Raises:
        TypeError, ValueError: a type, shape or device is wrong; the message names the argument.

    Costs a few launches and no wait.
    """
    call = Call("select_clusters", scores, "scores")
    scores = call.tensor(scores, "scores", LOGITS, ("B", layout.clusters)).float().contiguous()
    call.tensor(layout.cluster_begin, "layout", (torch.int32,), (layout.clusters + 1,))
    for name, value, least in (("most", most, 1), ("rows", rows, 1), ("depth", depth, 0)):
        if value is not None or name == "most":
            call.whole(value, name, least)
    if share is not None and not 0 < share <= 1:
        raise call.wrong("share", f"must be in (0, 1], it is {share}")
    most = min(most, layout.clusters)
    if depth is not None and depth >= 2:
        most = max(1, most // (2 * (depth + 1)))
        rows = rows if rows is None else max(1, rows // (2 * (depth + 1)))
    ranges = torch.ops.hunch.choose_clusters(scores, layout.cluster_begin, most, rows, share, per_row)
    num_rows = (ranges[:, :, 1] - ranges[:, :, 0]).sum(1, dtype=torch.int32)
    return Shortlists(ranges, num_rows, layout.max_rows(most, rows))


def shortlist_tokens(shortlists: Shortlists, layout: Layout) -> torch.Tensor:
    """The tokens of shortlists in the order of the logits of `head`.

    Args:
        shortlists: of B contexts, as `select_clusters` returns them.
        layout: the one that they were chosen from.

    Returns:
        int64 [B, max_rows]; -1 behind the last.

    Raises:
        TypeError, ValueError: shortlists and layout are on different devices.
    """
    call = Call("shortlist_tokens", shortlists.ranges, "ranges")
    call.tensor(layout.row_token, "layout", (torch.int32,), ("R",))
    ranges = shortlists.ranges.long()
    sizes = ranges[:, :, 1] - ranges[:, :, 0]
    ends = sizes.cumsum(1)
    at = torch.arange(shortlists.max_rows, device=ranges.device).expand(ranges.shape[0], -1).contiguous()
    which = torch.searchsorted(ends, at, right=True).clamp(max=ranges.shape[1] - 1)
    row = at - (ends - sizes).gather(1, which) + ranges[:, :, 0].gather(1, which)
    there = at < shortlists.num_rows[:, None]
    return torch.where(there, layout.row_token.long()[torch.where(there, row, 0)], -1)


def spread_logits(logits: torch.Tensor, tokens: torch.Tensor, vocab_size: int) -> torch.Tensor:
    """Logits of a shortlist as rows over the vocabulary, -inf elsewhere: what verification takes as draft_logits.

    Args:
        logits: float32, bfloat16 or float16 [B, R].
        tokens: int32 or int64 [B, R], the token of each; those outside [0, vocab_size), such as -1, are left out.
        vocab_size: V, 1 or more.

    Returns:
        [B, V], of the type of logits.

    Raises:
        TypeError, ValueError: a type, shape or device is wrong; the message names the argument.
    """
    call = Call("spread_logits", logits, "logits")
    call.tensor(logits, "logits", LOGITS, ("B", "R"))
    tokens = call.tensor(tokens, "tokens", IDS, tuple(logits.shape)).long()
    call.whole(vocab_size, "vocab_size", 1)
    inside = (tokens >= 0) & (tokens < vocab_size)
    room = logits.new_full((logits.shape[0], vocab_size + 1), -torch.inf)  # the last column is for those
    return room.scatter(1, torch.where(inside, tokens, vocab_size), logits)[:, :vocab_size]
