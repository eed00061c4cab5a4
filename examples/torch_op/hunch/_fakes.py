# SPDX-License-Identifier: Apache-2.0
"""The shapes of what the operators return, for torch.compile."""
import torch


def int32s(like, *shape):
    return like.new_empty(shape, dtype=torch.int32)


def int64s(like, *shape):
    return like.new_empty(shape, dtype=torch.int64)


def statuses(like, batch):
    return like.new_empty((batch,), dtype=torch.uint8)


@torch.library.register_fake("hunch::chain_speculative_sampling")
def _(draft_probs, draft_token_ids, target_probs, *, seeds=None, lengths=None, uniform_samples=None, check_rows=False):
    batch, length, _ = draft_probs.shape
    return (int32s(draft_probs, batch, length + 1), int32s(draft_probs, batch), int32s(draft_probs, batch),
            statuses(draft_probs, batch))


def sampled_requests(target_logits, idx_mapping, num_speculative_steps):
    requests = idx_mapping.shape[0]
    return (int64s(target_logits, requests, num_speculative_steps + 1), int32s(target_logits, requests),
            statuses(target_logits, requests))


@torch.library.register_fake("hunch::rejection_sample")
def _(target_logits, draft_logits, draft_sampled, cu_num_logits, pos, idx_mapping, temperature, seed,
      num_speculative_steps, *, block_verification=False, target_is_scaled=True, draft_is_scaled=True, top_k=None,
      top_p=None, min_p=None):
    return sampled_requests(target_logits, idx_mapping, num_speculative_steps)


@torch.library.register_fake("hunch::rejection_sample_")
def _(target_logits, draft_logits, draft_sampled, cu_num_logits, pos, idx_mapping, temperature, seed,
      num_speculative_steps, *, block_verification=False, target_is_scaled=True, draft_is_scaled=True, top_k=None,
      top_p=None, min_p=None, repetition_penalty=None, presence_penalty=None, frequency_penalty=None,
      census_tokens=None, census_emitted=None, census_index=None, census_size=None, allowed=None, mask_of_row=None):
    return sampled_requests(target_logits, idx_mapping, num_speculative_steps)


@torch.library.register_fake("hunch::begin_texts")
def _(census_tokens, census_emitted, census_index, census_size, state, ids, lengths):
    return statuses(ids, ids.shape[0])


@torch.library.register_fake("hunch::count_tokens")
def _(census_tokens, census_emitted, census_index, census_size, state, ids, lengths):
    return statuses(ids, ids.shape[0])


def verified_trees(candidates, levels):
    batch, nodes = candidates.shape
    return (int32s(candidates, batch * nodes), int32s(candidates, batch, levels), int32s(candidates, batch),
            statuses(candidates, batch))


@torch.library.register_fake("hunch::tree_speculative_sampling_target_only")
def _(candidates, retrieve_index, retrieve_next_token, retrieve_next_sibling, target_probs, levels, *, seeds=None,
      lengths=None, uniform_samples=None, uniform_samples_for_final_sampling=None, threshold_single=1.0,
      threshold_acc=1.0, check_rows=False):
    return verified_trees(candidates, levels)


@torch.library.register_fake("hunch::verify_tree_greedy")
def _(candidates, retrieve_index, retrieve_next_token, retrieve_next_sibling, target_predict, levels):
    return verified_trees(candidates, levels)


@torch.library.register_fake("hunch::build_tree")
def _(parent_list, selected_index, verified_seq_len, topk):
    batch, nodes = selected_index.shape[0], selected_index.shape[1] + 1
    return (parent_list.new_empty((batch, nodes, nodes), dtype=torch.bool),
            *(int64s(parent_list, batch, nodes) for _ in range(4)), statuses(parent_list, batch))


@torch.library.register_fake("hunch::verify_tree")
def _(target_logits, tokens, parents, draft_logits, *, seeds, lengths, temperature, top_k=None, top_p=None, min_p=None,
      without_replacement=False, draft_is_scaled=False):
    batch, nodes = tokens.shape
    return (int64s(tokens, batch, nodes), int64s(tokens, batch, nodes - 1), int32s(tokens, batch),
            statuses(tokens, batch))


@torch.library.register_fake("hunch::describe_tree")
def _(parents, lengths):
    batch, nodes = parents.shape
    return (parents.new_empty((batch, nodes, nodes), dtype=torch.bool),
            *(int64s(parents, batch, nodes) for _ in range(3)), statuses(parents, batch))


@torch.library.register_fake("hunch::shortlist_head")
def _(hidden, weight, ranges, most_rows):
    return hidden.new_empty((hidden.shape[0], most_rows), dtype=torch.float32)


@torch.library.register_fake("hunch::choose_clusters")
def _(scores, cluster_begin, most, rows=None, share=None, per_row=False):
    return int32s(scores, scores.shape[0], torch.sym_min(most, scores.shape[1]) + 1, 2)
