# SPDX-License-Identifier: Apache-2.0
"""Draft trees: made from the candidates of a drafter, described for attention, and verified."""
from __future__ import annotations

from typing import Literal, NamedTuple, Optional

import torch

from . import status as _status
from ._checks import LOGITS, Call
from .chains import PerSequence


class VerifiedTrees(NamedTuple):
    """What `verify_tree` returns. Of sequence b the first num_tokens[b] tokens are emitted."""

    tokens: torch.Tensor  #: int64 [B, N] tokens of the accepted nodes, one more token, then -1
    path: torch.Tensor  #: int64 [B, N - 1] the accepted nodes from the root down, without it, then -1
    num_tokens: torch.Tensor  #: int32 [B] accepted nodes and one more; with an error the accepted nodes alone
    status: torch.Tensor  #: uint8 [B] 0, or an index of STATUS

    def raise_for_status(self) -> None:
        """Raises StatusError if a sequence failed. Waits for the device."""
        _status.raise_for_status(self.status)


class TreeShapes(NamedTuple):
    """What `describe_tree` returns."""

    mask: torch.Tensor  #: bool [B, N, N] whether node i attends to node j: to the root, its ancestors and itself
    positions: torch.Tensor  #: int64 [B, N] in the text; the root is at lengths - 1
    first_child: torch.Tensor  #: int64 [B, N] or -1
    next_sibling: torch.Tensor  #: int64 [B, N] or -1
    status: torch.Tensor  #: uint8 [B] invalid_draft: a parent does not come before its child

    def raise_for_status(self) -> None:
        """Raises StatusError if a tree is none. Waits for the device."""
        _status.raise_for_status(self.status)


class DraftTrees(NamedTuple):
    """What `build_tree` returns: the inputs of the target's pass and of `verify_tree`. Node 0 is the root."""

    tokens: torch.Tensor  #: int64 [B, N] the root's token, then those of the chosen candidates; -1 where no node is
    parents: torch.Tensor  #: int64 [B, N] -1 for the root, and where no node is
    candidates: torch.Tensor  #: int64 [B, N - 1] of which candidate a node was made, ascending; -1 where no node is
    positions: torch.Tensor  #: int64 [B, N] in the text; the root is at lengths - 1
    mask: torch.Tensor  #: bool [B, N, N] whether node i attends to node j
    first_child: torch.Tensor  #: int64 [B, N] or -1
    next_sibling: torch.Tensor  #: int64 [B, N] or -1
    status: torch.Tensor  #: uint8 [B] invalid_draft: a chosen candidate hangs on one that is not chosen

    def raise_for_status(self) -> None:
        """Raises StatusError if a tree is none. Waits for the device."""
        _status.raise_for_status(self.status)


def verify_tree(
    target_logits: torch.Tensor,
    tokens: torch.Tensor,
    parents: torch.Tensor,
    draft_logits: Optional[torch.Tensor],
    *,
    seeds: torch.Tensor,
    lengths: torch.Tensor,
    temperature: PerSequence = 1.0,
    top_k: Optional[PerSequence] = None,
    top_p: PerSequence = 1.0,
    min_p: PerSequence = 0.0,
    children: Literal["independent", "without_replacement"] = "independent",
    draft_is_scaled: bool = False,
) -> VerifiedTrees:
    """Accepts a path of each drafted tree and draws one more token, so that texts have the target's law.

    Without draft_logits the rule asks the target alone: it draws a token, and descends while a child has it. That is
    exact for every tree that was fixed before, such as the most probable tokens of a drafter. With draft_logits the
    children of a node are tested in their order against the law that they were drawn from, which accepts more; exact
    if they were drawn from it, as `children` says. A tree of one child per node gives what `verify_chain` gives.

    Args:
        target_logits: float32, bfloat16 or float16 [B, N, V] after each node.
        tokens: int32 or int64 [B, N]. Node 0 is the last emitted token, which is not looked at.
        parents: int32 or int64 [B, N]; before their children, -1 for node 0. -1 elsewhere: no node is there.
        draft_logits: of the type of target_logits, [B, N, V'] with V' <= V, row i what the children of node i were
            drawn by (rows of leaves are not read); siblings in the order of their draws. Or None.
        seeds, lengths, temperature, top_k, top_p, min_p, draft_is_scaled: as in `verify_chain`; temperature 0 is
            greedy, whatever draft_logits are.
        children: siblings were drawn "independent" of each other, duplicates included, or "without_replacement"; of
            these more than 64 rejected ones are an invalid_draft.

    Returns:
        VerifiedTrees. Keep the cache rows of the root and of `path`. Statuses as in `verify_chain`; besides,
        invalid_draft for a parent that does not come before its child.

    Raises:
        TypeError, ValueError: a type, shape or device is wrong; the message names the argument.

    Costs one launch and a few small ones, and no wait. Rows of nodes that the path does not meet are not read. Finding
    a node's children looks at all nodes behind it: meant for trees of a few hundred nodes.
    """
    call = Call("verify_tree", target_logits, "target_logits")
    target = call.rows(target_logits, "target_logits", LOGITS, ("B", "N", "V"))
    batch, nodes, _ = target_logits.shape
    if nodes == 0:
        raise call.wrong("target_logits", f"must have a row for the root, its shape is {list(target_logits.shape)}")
    if children not in ("independent", "without_replacement"):
        raise call.wrong("children", f"must be 'independent' or 'without_replacement', it is {children!r}")
    tokens = call.ids(tokens, "tokens", (batch, nodes))
    parents = call.ids(parents, "parents", (batch, nodes))
    draft = None
    if draft_logits is not None:
        draft = call.rows(draft_logits, "draft_logits", (target_logits.dtype,), (batch, nodes, "V'"))
        if draft.shape[1] > target.shape[1]:
            raise call.wrong("draft_logits", f"has more tokens than the target: {draft.shape[1]}, {target.shape[1]}")
        draft = draft.unflatten(0, (batch, nodes))
    seeds, lengths = call.keys(seeds, lengths, batch)
    temperature, top_k, top_p, min_p = call.sampling(temperature, top_k, top_p, min_p, lengths)
    return VerifiedTrees(*torch.ops.hunch.verify_tree(
        target.unflatten(0, (batch, nodes)), tokens, parents, draft, seeds=seeds, lengths=lengths,
        temperature=temperature, top_k=top_k, top_p=top_p, min_p=min_p,
        without_replacement=children == "without_replacement", draft_is_scaled=draft_is_scaled))


def describe_tree(parents: torch.Tensor, *, lengths: torch.Tensor) -> TreeShapes:
    """Attention mask, positions and links of trees of any shape, from the parents of their nodes.

    Args:
        parents: int32 or int64 [B, N]; before their children, -1 for node 0. -1 elsewhere: no node is there; its row of
            the mask has the root and itself, so that a softmax over it is finite, and nothing attends to it.
        lengths: int32 or int64 [B], committed tokens of each text, of which the root is the last; in [1, 2^31), or the
            status is invalid_parameter.

    Raises:
        TypeError, ValueError: a type, shape or device is wrong; the message names the argument.
    """
    call = Call("describe_tree", parents, "parents")
    parents = call.ids(parents, "parents", ("B", "N")).long()
    if parents.shape[1] == 0:
        raise call.wrong("parents", f"must have a root, its shape is {list(parents.shape)}")
    lengths = call.lengths(lengths, parents.shape[0])
    return TreeShapes(*torch.ops.hunch.describe_tree(parents, lengths))


def build_tree(
    tokens: torch.Tensor,
    parents: torch.Tensor,
    scores: torch.Tensor,
    root_tokens: torch.Tensor,
    *,
    nodes: int,
    lengths: torch.Tensor,
) -> DraftTrees:
    """The tree of an EAGLE-2 drafter: the root and the most probable of the candidates that were expanded.

    EAGLE-2 (Li et al. 2024, arXiv:2406.16858) scores a candidate by the product of the draft's probabilities on its
    path, and keeps the best. A child is never better than its parent, so what is kept is a tree. Ties go to the
    candidate that comes first.

    Args:
        tokens: int32 or int64 [B, M], the candidates, level by level or in any order with parents before children.
        parents: int32 or int64 [B, M], of each candidate the candidate that it hangs on; -1: the root.
        scores: float32, bfloat16 or float16 [B, M], log-probabilities of paths. -inf or NaN: no candidate is there.
        root_tokens: int32 or int64 [B], the last emitted tokens.
        nodes: N, of the tree with the root; at most M + 1.
        lengths: int32 or int64 [B], committed tokens of each text, of which the root is the last; in [1, 2^31), or the
            status is invalid_parameter.

    Returns:
        DraftTrees: what the target's pass and `verify_tree` take. A tree of fewer candidates than N - 1 has nodes that
        are not there at its end.

    Raises:
        TypeError, ValueError: a type, shape or device is wrong; the message names the argument.

    Costs two sorts of M scores per sequence and a few small launches, and no wait.
    """
    call = Call("build_tree", tokens, "tokens")
    tokens = call.ids(tokens, "tokens", ("B", "M")).long()
    batch, candidates = tokens.shape
    parents = call.ids(parents, "parents", (batch, candidates)).long()
    scores = call.tensor(scores, "scores", LOGITS, (batch, candidates)).float()
    root_tokens = call.ids(root_tokens, "root_tokens", (batch,)).long()
    lengths = call.lengths(lengths, batch)
    if not 1 <= call.whole(nodes, "nodes", 1) <= candidates + 1:
        raise call.wrong("nodes", f"must be in [1, {candidates + 1}] for {candidates} candidates, it is {nodes}")

    none = candidates  # sorts behind all candidates
    there = scores > -torch.inf  # not for a NaN
    best = torch.where(there, scores, -torch.inf).sort(dim=1, descending=True, stable=True).indices[:, :nodes - 1]
    chosen = torch.where(there.gather(1, best), best, none).sort(dim=1).values
    found = chosen < none
    # The node of each candidate: that of the root behind them, that of what is no node behind it.
    node = torch.arange(1, nodes, device=call.device).expand(batch, -1)
    stray = nodes  # a parent that does not come before its child
    node_of = torch.full((batch, candidates + 1), stray, device=call.device).scatter(1, chosen, node)
    at = torch.where(found, chosen, 0)
    above = parents.gather(1, at) if candidates > 0 else chosen
    inside = (above >= 0) & (above < candidates)
    hangs_on = node_of.gather(1, torch.where(inside, above, 0))
    hangs_on = torch.where(inside, hangs_on, torch.where(above == -1, 0, stray))
    raw = torch.cat([torch.full((batch, 1), -1, device=call.device), torch.where(found, hangs_on, -1)], 1)
    shape = torch.ops.hunch.describe_tree(raw, lengths)
    own = tokens.gather(1, at) if candidates > 0 else chosen
    return DraftTrees(
        torch.cat([root_tokens[:, None], torch.where(found, own, -1)], 1),
        torch.where(raw < torch.arange(nodes, device=call.device), raw, -1),
        torch.where(found, chosen, -1),
        shape[1], shape[0], *shape[2:])
