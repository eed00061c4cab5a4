# SPDX-License-Identifier: Apache-2.0
"""vLLM with hunch's verification in place of the functions of its rejection samplers.

`plugin` is an entry point of the group `vllm.general_plugins`: where this package is installed, vLLM calls it in each
of its processes. HUNCH_VLLM=off switches it off. See docs/engines/vllm.md.
"""
import torch

from hunch import STATUS
from hunch._engine_patch import InterfaceDiffers, Patch, StatusCounts, Target, from_plugin

__all__ = ["InterfaceDiffers", "VERSIONS", "counts", "is_registered", "plugin", "register", "unregister"]

VERSIONS = ("0.33.0",)
counts = StatusCounts(STATUS)


def rejection_sample_logits(
        target_logits, draft_logits, draft_sampled, cu_num_logits, pos, idx_mapping, expanded_idx_mapping,
        expanded_local_pos, temperature, seed, num_speculative_steps, synthetic_conditional_rates=None, use_fp64=False,
        use_block_verification=False, contexts=None, watermarking=None, watermarking_skip_mask=None,
        watermark_key=None, fly_window_size=0, fly_entropy_threshold=0.3, fly_entropy_top_k=3):
    """`rejection_sample` of the GPU runner: N rows of logits of R requests, with S states.

    Returns int64 [R, num_speculative_steps + 1] and int32 [R]: tokens, and how many are valid. Lossless. `use_fp64`
    is not needed: a draw has 53 bits in any case. Acceptance that follows other rules than the target's law
    (synthetic rates, FLy) and watermarks are left to vLLM.
    """
    if synthetic_conditional_rates is not None or contexts is not None or fly_window_size > 0:
        return NotImplemented
    if draft_logits is not None and draft_logits.dtype != target_logits.dtype:
        # The cache has the type of the draft's head, processed logits are float32. Of the cache, only the states of
        # this batch are copied.
        states = idx_mapping.long().clamp(min=0)
        draft_logits, temperature, seed = draft_logits[states].float(), temperature[states], seed[states]
        target_logits = target_logits.float()
        requests = torch.arange(len(states), dtype=torch.int32, device=idx_mapping.device)
        idx_mapping = requests.masked_fill(idx_mapping < 0, -1)
        rows = torch.arange(len(target_logits), device=idx_mapping.device)
        expanded_idx_mapping = torch.searchsorted(cu_num_logits[1:].long(), rows, right=True)
    return _verified(target_logits, draft_logits, draft_sampled, cu_num_logits, pos, idx_mapping,
                     expanded_idx_mapping, expanded_local_pos, temperature, seed, num_speculative_steps,
                     block_verification=use_block_verification, draft_is_scaled=False)


def rejection_sample_probabilities(
        draft_token_ids, num_draft_tokens, max_spec_len, cu_num_draft_tokens, draft_probs, target_logits,
        bonus_token_ids, sampling_metadata, synthetic_mode=False, synthetic_conditional_rates=None,
        use_fp64_gumbel=False, fly_window_size=None, fly_entropy_threshold=None, fly_entropy_top_k=3):
    """`rejection_sample` of the older runner: T drafts of B requests, flattened, and a bonus token for each request.

    Returns int32 [B, max_spec_len + 1], -1 after the last token. Lossless if the bonus tokens are draws from the
    target. Costs a copy of `target_logits`, to which the bonus tokens are added as rows that allow nothing else, and
    of `draft_probs`, as logarithms. What a seeded request draws is fixed by one number of its own generator a step.
    """
    if synthetic_mode or fly_window_size is not None:
        return NotImplemented
    drafts, vocab = target_logits.shape
    batch, device = len(num_draft_tokens), target_logits.device
    end = cu_num_draft_tokens.long()
    each = torch.arange(batch, device=device)
    draft = torch.arange(drafts, device=device)
    request = torch.searchsorted(end, draft, right=True)
    row = draft + request  # each request before has a row more than drafts
    bonus_row = end + each

    logits = target_logits.new_full((drafts + batch, vocab), -torch.inf)
    logits[row] = target_logits
    logits[bonus_row, bonus_token_ids.long().flatten()] = 0.0
    tokens = torch.zeros(drafts + batch, dtype=torch.int64, device=device)
    tokens[row + 1] = draft_token_ids.long()
    cu_num_logits = torch.cat([end.new_zeros(1), bonus_row + 1]).int()
    row_request = torch.searchsorted(bonus_row, torch.arange(drafts + batch, device=device))
    step = torch.arange(drafts + batch, device=device) - cu_num_logits[row_request]
    draft_logits = None
    if draft_probs is not None and drafts > 0:
        draft_logits = logits.new_zeros((batch, max_spec_len, vocab))
        draft_logits[request, step[row]] = draft_probs.to(logits.dtype).log()

    temperature = sampling_metadata.temperature
    temperature = logits.new_zeros(batch) if sampling_metadata.all_greedy else temperature.float()
    sampled, _ = _verified(logits, draft_logits, tokens, cu_num_logits, torch.zeros_like(tokens), each.int(),
                           row_request, step, temperature, _seeds(num_draft_tokens, sampling_metadata, device),
                           max_spec_len, block_verification=False, draft_is_scaled=True)
    return sampled.int()


def _seeds(num_draft_tokens, sampling_metadata, device):
    """A seed for each request and this step, int64 [B]; as in vLLM, none is drawn for a request without drafts."""
    seeds = torch.empty(len(num_draft_tokens), dtype=torch.int64, device=device).random_()
    for request, generator in sampling_metadata.generators.items():
        if num_draft_tokens[request] > 0:
            seeds[request:request + 1].random_(generator=generator)
    return seeds


def _verified(target_logits, draft_logits, draft_sampled, cu_num_logits, pos, idx_mapping, expanded_idx_mapping,
              expanded_local_pos, temperature, seed, steps, block_verification, draft_is_scaled):
    """Tokens int64 [R, steps + 1] and their numbers int32 [R], at least one for each request that has rows."""
    drafts = _that_were_drawn(draft_sampled, draft_logits, expanded_idx_mapping, expanded_local_pos,
                              target_logits.shape[1])
    sampled, num_sampled, status = torch.ops.hunch.rejection_sample(
        target_logits, draft_logits, drafts, cu_num_logits.int(), pos.long(), idx_mapping.int(), temperature, seed,
        steps, block_verification=block_verification, draft_is_scaled=draft_is_scaled)
    counts.add(status)
    # Without a token a request would ask for the same step for ever; vLLM too gives some token for a row of NaN.
    stuck = (num_sampled == 0) & (cu_num_logits[1:] > cu_num_logits[:-1]) & (idx_mapping >= 0)
    sampled[:, 0].masked_fill_(stuck, 0)
    return sampled, num_sampled.masked_fill_(stuck, 1)


def _that_were_drawn(draft_sampled, draft_logits, expanded_idx_mapping, expanded_local_pos, vocab):
    """The drafts, -1 for those that the target or the draft's law does not have.

    Whether a draft is one of them does not depend on the target's law, so that the chain may end before it. The first
    token of a request is no draft, and rows may follow the last request: what becomes of these is not read.
    """
    tokens = draft_sampled.long()
    foreign = tokens >= vocab
    if draft_logits is not None and len(tokens) > 1:
        # The row before a draft is the one that it was drawn after.
        states, steps, draft_vocab = draft_logits.shape
        logit = draft_logits[expanded_idx_mapping[:-1].long().clamp(0, states - 1),
                             expanded_local_pos[:-1].long().clamp(0, steps - 1), tokens[1:].clamp(0, draft_vocab - 1)]
        foreign[1:] |= (tokens[1:] >= draft_vocab) | ~(logit > -torch.inf)
    return draft_sampled.masked_fill(foreign, -1)


_patch = Patch("vllm", VERSIONS)
_TARGETS = (
    Target("vllm.v1.worker.gpu.spec_decode.rejection_sampler_utils", "rejection_sample", rejection_sample_logits),
    Target("vllm.v1.sample.rejection_sampler", "rejection_sample", rejection_sample_probabilities),
)


def register(*, any_version=False):
    """Replaces both functions in this process. Raises InterfaceDiffers, and replaces nothing, for a vLLM whose
    signatures differ or, unless `any_version`, that has not been read."""
    _patch.apply(_TARGETS, any_version)


def unregister():
    """Puts vLLM's functions back."""
    _patch.undo()


def is_registered():
    """Whether a function is replaced, or waits for its module to be imported."""
    return _patch.is_applied


def plugin():
    """The entry point: as `register`, but each function when the engine imports its module."""
    from_plugin(_patch, _TARGETS, "HUNCH_VLLM")
