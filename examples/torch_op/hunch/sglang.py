# SPDX-License-Identifier: Apache-2.0
"""SGLang with hunch's verification in place of its verification kernels.

`plugin` is an entry point of the group `sglang.srt.plugins`: where this package is installed, SGLang calls it in each
of its processes. HUNCH_SGLANG=off switches it off. See docs/engines/sglang.md.
"""
import torch

from hunch import STATUS
from hunch._engine_patch import InterfaceDiffers, Patch, StatusCounts, Target, from_plugin

__all__ = ["InterfaceDiffers", "VERSIONS", "counts", "is_registered", "plugin", "register", "unregister"]

VERSIONS = ("0.5.23",)
FULL_MASK, QUERY_ONLY = 0, 1  # SGLang's TreeMaskMode
counts = StatusCounts(STATUS)


def tree_speculative_sampling_target_only(
        predicts, accept_index, accept_token_num, candidates, retrive_index, retrive_next_token,
        retrive_next_sibling, uniform_samples, uniform_samples_for_final_sampling, target_probs, draft_probs,
        threshold_single=1.0, threshold_acc=1.0, deterministic=True):
    """Trees of B sequences on the target's probabilities float32 [B, nodes, V], into the first three arguments.

    Lossless if both thresholds are 1. `draft_probs`, SGLang's scratch, stays as it is; results never depend on the
    order in which threads run.
    """
    del draft_probs, deterministic
    _write(predicts, accept_index, accept_token_num, *torch.ops.hunch.tree_speculative_sampling_target_only(
        candidates, retrive_index, retrive_next_token, retrive_next_sibling, target_probs, accept_index.shape[1],
        uniform_samples=uniform_samples, uniform_samples_for_final_sampling=uniform_samples_for_final_sampling,
        threshold_single=threshold_single, threshold_acc=threshold_acc))


def verify_tree_greedy(predicts, accept_index, accept_token_num, candidates, retrive_index, retrive_next_token,
                       retrive_next_sibling, target_predict):
    """Trees on the target's argmax [B, nodes], into the first three arguments. Lossless."""
    _write(predicts, accept_index, accept_token_num, *torch.ops.hunch.verify_tree_greedy(
        candidates, retrive_index, retrive_next_token, retrive_next_sibling, target_predict.reshape(-1),
        accept_index.shape[1]))


def chain_speculative_sampling(
        predicts, accept_index, accept_token_num, candidates, retrive_index, retrive_next_token,
        retrive_next_sibling, uniform_samples, uniform_samples_for_final_sampling, target_probs, draft_probs,
        threshold_single, threshold_acc, deterministic, *, block_verification=False):
    """Chains of B sequences by p float32 [B, slots, V] and q [B, slots - 1, V], into the first three arguments.

    Lossless. Verification of blocks is left to SGLang. After a refusal the last token is drawn by the uniform of the
    next position, which nothing else has used; after none by the one for the final draw.
    """
    del retrive_next_token, retrive_next_sibling, threshold_single, threshold_acc, deterministic
    length = candidates.shape[1] - 1
    if block_verification or length < 1:
        return NotImplemented
    uniforms = torch.cat([uniform_samples[:, :length], uniform_samples_for_final_sampling[:, None]], 1)
    tokens, _, emitted, status = torch.ops.hunch.chain_speculative_sampling(
        draft_probs[:, :length].float(), candidates[:, 1:].contiguous(), target_probs.float(),
        uniform_samples=uniforms)
    slots = retrive_index.long()
    where = torch.arange(length + 1, device=tokens.device)
    reached = where <= emitted[:, None]
    index = torch.where(reached, slots, -1).int()
    by_slot = torch.full_like(predicts, -1)
    by_slot[slots.flatten()] = torch.where(reached, tokens, -1).flatten().to(predicts.dtype)
    _write(predicts, accept_index, accept_token_num, by_slot, index, emitted, status)


def build_tree_kernel_efficient(parent_list, selected_index, verified_seq_len, tree_mask, positions, retrive_index,
                                retrive_next_token, retrive_next_sibling, topk, depth, draft_token_num,
                                tree_mask_mode):
    """Mask, positions and links of the trees of B sequences, into the tensors with these names.

    There is no law in it, and several launches stand for one of SGLang's: only for comparing. Packed masks, and trees
    whose parents are not those of `depth` levels, are left to SGLang.
    """
    columns = topk * (depth - 1) + 1
    if tree_mask_mode not in (FULL_MASK, QUERY_ONLY) or parent_list.shape[1] != columns:
        return NotImplemented
    mask, position, *links, status = torch.ops.hunch.build_tree(
        parent_list.long(), selected_index.long(), verified_seq_len.long(), topk)
    counts.add(status)
    if tree_mask_mode == QUERY_ONLY:
        tree_mask.view(-1)[:mask.numel()].copy_(mask.flatten())
    else:
        # A row of a sequence has its cached columns, which are the caller's, and then those of the tree.
        lengths, node = verified_seq_len.long(), torch.arange(draft_token_num, device=mask.device)
        width = lengths + draft_token_num
        begin = draft_token_num * (width.cumsum(0) - width)
        place = (begin + lengths)[:, None, None] + node[:, None] * width[:, None, None] + node
        tree_mask.view(-1)[place.flatten()] = mask.flatten().to(tree_mask.dtype)
    positions.view(-1).copy_(position.flatten())
    for to, link in zip((retrive_index, retrive_next_token, retrive_next_sibling), links):
        to.copy_(link)


def _write(predicts, accept_index, accept_token_num, by_slot, index, accepted, status):
    """Results into SGLang's tensors, which stay as they are off the accepted path, as with its own kernels."""
    counts.add(status)
    predicts.copy_(torch.where(by_slot >= 0, by_slot, predicts))
    accept_index.copy_(torch.where(index >= 0, index, accept_index))
    accept_token_num.copy_(accepted)


_patch = Patch("sglang", VERSIONS)
_KERNELS = "sglang.kernels.ops.speculative"
_TARGETS = (
    Target(f"{_KERNELS}.sampling", "tree_speculative_sampling_target_only", tree_speculative_sampling_target_only),
    Target(f"{_KERNELS}.tree", "verify_tree_greedy", verify_tree_greedy),
    Target(f"{_KERNELS}.reject_sampling", "chain_speculative_sampling_triton", chain_speculative_sampling),
)
_BUILD = Target(f"{_KERNELS}.tree", "build_tree_kernel_efficient", build_tree_kernel_efficient)


def register(*, build_tree=False, any_version=False):
    """Replaces the kernels' entry points in this process, with `build_tree` also the one that makes trees. Raises
    InterfaceDiffers, and replaces nothing, for an SGLang whose signatures differ or, unless `any_version`, that has
    not been read."""
    _patch.apply(_TARGETS + (_BUILD,) * build_tree, any_version)


def unregister():
    """Puts SGLang's functions back."""
    _patch.undo()


def is_registered():
    """Whether a function is replaced, or waits for its module to be imported."""
    return _patch.is_applied


def plugin():
    """The entry point: as `register`, but each function when the engine imports its module."""
    from_plugin(_patch, _TARGETS, "HUNCH_SGLANG")
