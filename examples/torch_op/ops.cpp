// SPDX-License-Identifier: Apache-2.0

// torch.ops.hunch: the adapters of docs/interop.md on torch tensors. Each operator checks its
// arguments, allocates its outputs from torch's allocator, and launches; nothing is copied, and on
// CUDA nothing waits.

#include <cstdint>
#include <tuple>

#include <ATen/core/Tensor.h>
#include <torch/library.h>

#include "checked_call.hpp"
#include "launch.hpp"
#include "operations.hpp"

namespace hunch_torch {
namespace {

hunch::interop::random_keys keys_of(const checked_call& call, const maybe_tensor& seeds,
                                    const maybe_tensor& lengths, std::int64_t batch) {
  return {.seeds = call.in<std::uint64_t>(seeds, "seeds", {batch}),
          .lengths = call.in<std::uint32_t>(lengths, "lengths", {batch})};
}

std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor> chain_speculative_sampling(
    const at::Tensor& draft_probs, const at::Tensor& draft_token_ids,
    const at::Tensor& target_probs, const maybe_tensor& seeds, const maybe_tensor& lengths,
    const maybe_tensor& uniform_samples, bool check_rows) {
  const checked_call call("chain_speculative_sampling", draft_probs, "draft_probs", 3);
  const std::int64_t batch = draft_probs.size(0);
  const std::int64_t length = draft_probs.size(1);
  const std::int64_t vocab = draft_probs.size(2);
  call.one_of(seeds && lengths, seeds || lengths, "seeds and lengths", uniform_samples.has_value(),
              uniform_samples.has_value(), "uniform_samples");

  chains a;
  a.batch = call.int32(batch);
  a.length = call.int32(length);
  a.vocab = call.int32(vocab);
  a.draft_probs =
      call.in_rows<float>(draft_probs, "draft_probs", {batch, length, vocab}, a.draft_stride);
  a.draft_token_ids = call.ids(draft_token_ids, "draft_token_ids", {batch, length});
  a.target_probs = call.in_rows<float>(target_probs, "target_probs", {batch, length + 1, vocab},
                                       a.target_stride);
  a.check_rows = check_rows;
  a.keys = keys_of(call, seeds, lengths, batch);
  a.uniform_samples = call.in<float>(uniform_samples, "uniform_samples", {batch, length + 1});

  auto output_token_ids = call.out<std::int32_t>({batch, length + 1});
  auto accepted = call.out<std::int32_t>({batch}, 0);  // the adapter adds to both
  auto emitted = call.out<std::int32_t>({batch}, 0);
  auto status = call.out<std::uint8_t>({batch});
  a.output_token_ids = output_token_ids.mutable_data_ptr<std::int32_t>();
  a.accepted = accepted.mutable_data_ptr<std::int32_t>();
  a.emitted = emitted.mutable_data_ptr<std::int32_t>();
  a.status = status_of(status);
  launch(call.device(), a);
  return {output_token_ids, accepted, emitted, status};
}

/// What `rejection_sample` and `rejection_sample_` have in common; penalties and masks are those of
/// the second.
struct ragged_tensors {
  const at::Tensor& target_logits;
  const maybe_tensor& draft_logits;
  const at::Tensor& draft_sampled;
  const at::Tensor& cu_num_logits;
  const at::Tensor& pos;
  const at::Tensor& idx_mapping;
  const at::Tensor& temperature;
  const at::Tensor& seed;
  std::int64_t num_speculative_steps;
  bool block_verification;
  bool target_is_scaled;
  bool draft_is_scaled;
  const maybe_tensor& top_k;
  const maybe_tensor& top_p;
  const maybe_tensor& min_p;
};

/// sampled, num_sampled, status.
using ragged_outputs = std::tuple<at::Tensor, at::Tensor, at::Tensor>;

/// Checks the tensors and launches. `edits(call, arguments)` adds what edits the target's logits.
template <class Logit, class Edits>
ragged_outputs sample_ragged(const checked_call& call, const ragged_tensors& t, Edits&& edits) {
  call.has_dimensions(t.idx_mapping, "idx_mapping", 1);
  call.has_dimensions(t.temperature, "temperature", 1);
  call.at_least(t.num_speculative_steps, "num_speculative_steps", 0);
  const std::int64_t rows = t.target_logits.size(0);
  const std::int64_t vocab = t.target_logits.size(1);
  const std::int64_t requests = t.idx_mapping.size(0);
  const std::int64_t states = t.temperature.size(0);

  ragged_chains<Logit> what{{}, t.block_verification};
  auto& a = what.arguments;
  a.num_reqs = call.int32(requests);
  a.max_num_reqs = call.int32(states);
  a.num_logits = call.int32(rows);
  a.num_speculative_steps = call.int32(t.num_speculative_steps);
  a.vocab = call.int32(vocab);
  // Written by what `edits` adds, and by nothing else.
  a.target_logits = const_cast<Logit*>(
      call.in_rows<Logit>(t.target_logits, "target_logits", {rows, vocab}, a.target_stride));
  if (t.draft_logits) {
    call.has_dimensions(*t.draft_logits, "draft_logits", 3);
    a.draft_vocab = call.int32(t.draft_logits->size(2));
    a.draft_logits =
        call.in_rows<Logit>(*t.draft_logits, "draft_logits",
                            {states, t.num_speculative_steps, a.draft_vocab}, a.draft_stride);
  }
  a.draft_sampled = call.ids(t.draft_sampled, "draft_sampled", {rows});
  a.cu_num_logits = call.in<std::int32_t>(t.cu_num_logits, "cu_num_logits", {requests + 1});
  a.pos = call.in<std::int64_t>(t.pos, "pos", {rows});
  a.idx_mapping = call.in<std::int32_t>(t.idx_mapping, "idx_mapping", {requests});
  a.seed = call.in<std::int64_t>(t.seed, "seed", {states});
  a.sampling.temperature = call.in<float>(t.temperature, "temperature", {states});
  a.sampling.top_k = call.in<std::int32_t>(t.top_k, "top_k", {states});
  a.sampling.top_p = call.in<float>(t.top_p, "top_p", {states});
  a.sampling.min_p = call.in<float>(t.min_p, "min_p", {states});
  a.target_is_scaled = t.target_is_scaled;
  a.draft_is_scaled = t.draft_is_scaled;
  edits(a);

  auto sampled = call.out<std::int64_t>({requests, t.num_speculative_steps + 1});
  auto num_sampled = call.out<std::int32_t>({requests});
  auto status = call.out<std::uint8_t>({requests});
  // torch keeps it for what is launched on this stream until then.
  const auto scratch = call.out<std::uint8_t>({static_cast<std::int64_t>(a.workspace_bytes())});
  a.sampled = sampled.mutable_data_ptr<std::int64_t>();
  a.num_sampled = num_sampled.mutable_data_ptr<std::int32_t>();
  a.status = status_of(status);
  a.workspace = scratch.mutable_data_ptr();
  launch(call.device(), what);
  return {sampled, num_sampled, status};
}

/// By the type of the logits.
template <class Edits>
ragged_outputs sample_ragged(const char* name, const ragged_tensors& t, Edits&& edits) {
  const checked_call call(name, t.target_logits, "target_logits", 2);
  if (t.target_logits.scalar_type() == at::kBFloat16) {
    return sample_ragged<hunch::bfloat16>(call, t, [&](auto& a) { edits(call, a); });
  }
  if (t.target_logits.scalar_type() == at::kHalf) {
    return sample_ragged<hunch::float16>(call, t, [&](auto& a) { edits(call, a); });
  }
  return sample_ragged<float>(call, t, [&](auto& a) { edits(call, a); });
}

ragged_outputs rejection_sample(const at::Tensor& target_logits, const maybe_tensor& draft_logits,
                                const at::Tensor& draft_sampled, const at::Tensor& cu_num_logits,
                                const at::Tensor& pos, const at::Tensor& idx_mapping,
                                const at::Tensor& temperature, const at::Tensor& seed,
                                std::int64_t num_speculative_steps, bool block_verification,
                                bool target_is_scaled, bool draft_is_scaled,
                                const maybe_tensor& top_k, const maybe_tensor& top_p,
                                const maybe_tensor& min_p) {
  return sample_ragged("rejection_sample",
                       {target_logits, draft_logits, draft_sampled, cu_num_logits, pos, idx_mapping,
                        temperature, seed, num_speculative_steps, block_verification,
                        target_is_scaled, draft_is_scaled, top_k, top_p, min_p},
                       [](const checked_call&, auto&) {});
}

/// The census of an engine's texts, as large as `index` and `tokens` are.
hunch::interop::text_census census_of(const checked_call& call, const at::Tensor& tokens,
                                      const at::Tensor& emitted, const at::Tensor& index,
                                      const at::Tensor& size) {
  call.has_dimensions(tokens, "census_tokens", 2);
  call.has_dimensions(index, "census_index", 2);
  const std::int64_t states = index.size(0);
  const std::int64_t vocab = index.size(1);
  const std::int64_t capacity = tokens.size(1);
  return {
      .states = call.int32(states),
      .vocab = call.int32(vocab),
      .capacity = call.int32(capacity),
      .tokens = call.in_out<std::int32_t>(tokens, "census_tokens", {states, capacity}),
      .emitted = call.in_out<std::int32_t>(emitted, "census_emitted", {states, capacity}),
      .index = call.in_out<std::int32_t>(index, "census_index", {states, vocab}),
      .size = call.in_out<std::int32_t>(size, "census_size", {states}),
  };
}

ragged_outputs rejection_sample_(
    const at::Tensor& target_logits, const maybe_tensor& draft_logits,
    const at::Tensor& draft_sampled, const at::Tensor& cu_num_logits, const at::Tensor& pos,
    const at::Tensor& idx_mapping, const at::Tensor& temperature, const at::Tensor& seed,
    std::int64_t num_speculative_steps, bool block_verification, bool target_is_scaled,
    bool draft_is_scaled, const maybe_tensor& top_k, const maybe_tensor& top_p,
    const maybe_tensor& min_p, const maybe_tensor& repetition_penalty,
    const maybe_tensor& presence_penalty, const maybe_tensor& frequency_penalty,
    const maybe_tensor& census_tokens, const maybe_tensor& census_emitted,
    const maybe_tensor& census_index, const maybe_tensor& census_size, const maybe_tensor& allowed,
    const maybe_tensor& mask_of_row) {
  return sample_ragged(
      "rejection_sample_",
      {target_logits, draft_logits, draft_sampled, cu_num_logits, pos, idx_mapping, temperature,
       seed, num_speculative_steps, block_verification, target_is_scaled, draft_is_scaled, top_k,
       top_p, min_p},
      [&](const checked_call& call, auto& a) {
        const std::int64_t states = a.max_num_reqs;
        const auto penalty = [&](const maybe_tensor& t, const char* name) {
          return call.in<float>(t, name, {states});
        };
        a.sampling.repetition_penalty = penalty(repetition_penalty, "repetition_penalty");
        a.sampling.presence_penalty = penalty(presence_penalty, "presence_penalty");
        a.sampling.frequency_penalty = penalty(frequency_penalty, "frequency_penalty");
        call.together(a.sampling.penalises(), "penalties",
                      census_tokens && census_emitted && census_index && census_size, "a census");
        if (census_tokens && census_emitted && census_index && census_size) {
          a.census = census_of(call, *census_tokens, *census_emitted, *census_index, *census_size);
        }
        if (!allowed) { return; }
        call.has_dimensions(*allowed, "allowed", 2);
        a.allowed.masks = call.int32(allowed->size(0));
        a.allowed.words = call.template in_rows<std::uint32_t>(
            *allowed, "allowed", {a.allowed.masks, (a.vocab + 31) / 32}, a.allowed.stride);
        a.allowed.mask_of_row =
            call.template in<std::int32_t>(mask_of_row, "mask_of_row", {a.num_logits});
      });
}

/// Both operators about texts.
at::Tensor count_texts(const char* name, bool begins, const at::Tensor& tokens,
                       const at::Tensor& emitted, const at::Tensor& index, const at::Tensor& size,
                       const at::Tensor& state, const at::Tensor& ids, const at::Tensor& lengths) {
  const checked_call call(name, ids, "ids", 2);
  const std::int64_t rows = ids.size(0);
  tokens_of_texts what{{}, begins};
  auto& a = what.texts;
  a.census = census_of(call, tokens, emitted, index, size);
  a.count = call.int32(rows);
  a.state = call.in<std::int32_t>(state, "state", {rows});
  a.ids = call.ids(ids, "ids", {rows, ids.size(1)});
  a.stride = call.int32(ids.size(1));
  a.lengths = call.in<std::int32_t>(lengths, "lengths", {rows});
  auto status = call.out<std::uint8_t>({rows});
  a.status = status_of(status);
  launch(call.device(), what);
  return status;
}

at::Tensor begin_texts(const at::Tensor& tokens, const at::Tensor& emitted, const at::Tensor& index,
                       const at::Tensor& size, const at::Tensor& state, const at::Tensor& ids,
                       const at::Tensor& lengths) {
  return count_texts("begin_texts", true, tokens, emitted, index, size, state, ids, lengths);
}
at::Tensor count_tokens(const at::Tensor& tokens, const at::Tensor& emitted,
                        const at::Tensor& index, const at::Tensor& size, const at::Tensor& state,
                        const at::Tensor& ids, const at::Tensor& lengths) {
  return count_texts("count_tokens", false, tokens, emitted, index, size, state, ids, lengths);
}

/// What the verification of trees returns: predicts, accept_index, accept_token_num, status.
using tree_outputs = std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor>;

/// The tensors that both verifications of trees take, and their outputs.
sglang::linked_trees trees_of(const checked_call& call, const at::Tensor& candidates,
                              const at::Tensor& retrieve_index,
                              const at::Tensor& retrieve_next_token,
                              const at::Tensor& retrieve_next_sibling, std::int64_t levels,
                              tree_outputs& outputs) {
  const std::int64_t batch = candidates.size(0);
  const std::int64_t nodes = candidates.size(1);
  call.at_least(nodes, "the number of nodes", 1);
  call.at_least(levels, "levels", 1);
  const auto in = [&](const at::Tensor& t, const char* name) {
    return call.in<std::int64_t>(t, name, {batch, nodes});
  };
  sglang::linked_trees t;
  t.batch = call.int32(batch);
  t.nodes = call.int32(nodes);
  t.levels = call.int32(levels);
  t.slots = call.int32(batch * nodes);
  t.candidates = call.ids(candidates, "candidates", {batch, nodes});
  t.retrieve_index = in(retrieve_index, "retrieve_index");
  t.retrieve_next_token = in(retrieve_next_token, "retrieve_next_token");
  t.retrieve_next_sibling = in(retrieve_next_sibling, "retrieve_next_sibling");

  // Off the accepted path `predicts` is not written.
  outputs = {call.out<std::int32_t>({batch * nodes}, -1), call.out<std::int32_t>({batch, levels}),
             call.out<std::int32_t>({batch}), call.out<std::uint8_t>({batch})};
  auto& [predicts, accept_index, accept_token_num, status] = outputs;
  t.predicts = predicts.mutable_data_ptr<std::int32_t>();
  t.accept_index = accept_index.mutable_data_ptr<std::int32_t>();
  t.accept_token_num = accept_token_num.mutable_data_ptr<std::int32_t>();
  t.status = status_of(status);
  return t;
}

tree_outputs tree_speculative_sampling_target_only(
    const at::Tensor& candidates, const at::Tensor& retrieve_index,
    const at::Tensor& retrieve_next_token, const at::Tensor& retrieve_next_sibling,
    const at::Tensor& target_probs, std::int64_t levels, const maybe_tensor& seeds,
    const maybe_tensor& lengths, const maybe_tensor& uniform_samples,
    const maybe_tensor& uniform_samples_for_final_sampling, double threshold_single,
    double threshold_acc, bool check_rows) {
  const checked_call call("tree_speculative_sampling_target_only", candidates, "candidates", 2);
  const std::int64_t batch = candidates.size(0);
  const std::int64_t nodes = candidates.size(1);
  call.has_dimensions(target_probs, "target_probs", 3);
  const std::int64_t vocab = target_probs.size(2);
  call.one_of(seeds && lengths, seeds || lengths, "seeds and lengths",
              uniform_samples && uniform_samples_for_final_sampling,
              uniform_samples || uniform_samples_for_final_sampling,
              "uniform_samples and uniform_samples_for_final_sampling");
  call.in_unit_interval(threshold_single, "threshold_single");
  call.in_unit_interval(threshold_acc, "threshold_acc");

  tree_outputs outputs;
  sampled_trees a;
  a.trees = trees_of(call, candidates, retrieve_index, retrieve_next_token, retrieve_next_sibling,
                     levels, outputs);
  a.vocab = call.int32(vocab);
  a.target_probs =
      call.in_rows<float>(target_probs, "target_probs", {batch, nodes, vocab}, a.target_stride);
  a.check_rows = check_rows;
  a.threshold_single = static_cast<float>(threshold_single);
  a.threshold_acc = static_cast<float>(threshold_acc);
  a.keys = keys_of(call, seeds, lengths, batch);
  a.uniform_samples = call.in<float>(uniform_samples, "uniform_samples", {batch, nodes});
  a.uniform_samples_for_final_sampling = call.in<float>(
      uniform_samples_for_final_sampling, "uniform_samples_for_final_sampling", {batch});
  launch(call.device(), a);
  return outputs;
}

tree_outputs verify_tree_greedy(const at::Tensor& candidates, const at::Tensor& retrieve_index,
                                const at::Tensor& retrieve_next_token,
                                const at::Tensor& retrieve_next_sibling,
                                const at::Tensor& target_predict, std::int64_t levels) {
  const checked_call call("verify_tree_greedy", candidates, "candidates", 2);
  tree_outputs outputs;
  greedy_trees a;
  a.trees = trees_of(call, candidates, retrieve_index, retrieve_next_token, retrieve_next_sibling,
                     levels, outputs);
  a.target_predict = call.ids(target_predict, "target_predict", {a.trees.slots});
  launch(call.device(), a);
  return outputs;
}

std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor, at::Tensor, at::Tensor> build_tree(
    const at::Tensor& parent_list, const at::Tensor& selected_index,
    const at::Tensor& verified_seq_len, std::int64_t topk) {
  const checked_call call("build_tree", parent_list, "parent_list", 2);
  call.has_dimensions(selected_index, "selected_index", 2);
  call.at_least(topk, "topk", 1);
  const std::int64_t batch = parent_list.size(0);
  const std::int64_t expansions = parent_list.size(1);
  const std::int64_t nodes = selected_index.size(1) + 1;
  TORCH_CHECK_VALUE(
      expansions >= 1 && (expansions - 1) % topk == 0,
      "hunch::build_tree: parent_list must have topk * (depth - 1) + 1 columns, it has ",
      expansions, ", and topk is ", topk);

  tree_choices a;
  a.batch = call.int32(batch);
  a.topk = call.int32(topk);
  a.depth = call.int32((expansions - 1) / topk + 1);
  a.nodes = call.int32(nodes);
  // The full mask has a size that only the lengths tell, and they are on the device.
  a.mask_mode = sglang::tree_mask_mode::query_only;
  a.parent_list = call.in<std::int64_t>(parent_list, "parent_list", {batch, expansions});
  a.selected_index = call.in<std::int64_t>(selected_index, "selected_index", {batch, nodes - 1});
  a.verified_seq_len = call.in<std::int64_t>(verified_seq_len, "verified_seq_len", {batch});

  // Of a sequence with a negative length nothing but the status is written.
  auto tree_mask = call.out<bool>({batch, nodes, nodes}, 0);
  auto positions = call.out<std::int64_t>({batch, nodes}, 0);
  auto retrieve_index = call.out<std::int64_t>({batch, nodes}, -1);
  auto retrieve_next_token = call.out<std::int64_t>({batch, nodes}, -1);
  auto retrieve_next_sibling = call.out<std::int64_t>({batch, nodes}, -1);
  auto status = call.out<std::uint8_t>({batch});
  a.tree_mask = reinterpret_cast<std::uint8_t*>(tree_mask.mutable_data_ptr<bool>());
  a.positions = positions.mutable_data_ptr<std::int64_t>();
  a.retrieve_index = retrieve_index.mutable_data_ptr<std::int64_t>();
  a.retrieve_next_token = retrieve_next_token.mutable_data_ptr<std::int64_t>();
  a.retrieve_next_sibling = retrieve_next_sibling.mutable_data_ptr<std::int64_t>();
  a.status = status_of(status);
  launch(call.device(), a);
  return {tree_mask, positions, retrieve_index, retrieve_next_token, retrieve_next_sibling, status};
}

void implement(torch::Library& m) {
  m.impl("chain_speculative_sampling", chain_speculative_sampling);
  m.impl("rejection_sample", rejection_sample);
  m.impl("rejection_sample_", rejection_sample_);
  m.impl("begin_texts", begin_texts);
  m.impl("count_tokens", count_tokens);
  m.impl("tree_speculative_sampling_target_only", tree_speculative_sampling_target_only);
  m.impl("verify_tree_greedy", verify_tree_greedy);
  m.impl("build_tree", build_tree);
}

}  // namespace

TORCH_LIBRARY(hunch, m) {
  m.def(
      "chain_speculative_sampling(Tensor draft_probs, Tensor draft_token_ids, Tensor target_probs, "
      "*, Tensor? seeds=None, Tensor? lengths=None, Tensor? uniform_samples=None, bool "
      "check_rows=False) -> (Tensor output_token_ids, Tensor accepted, Tensor emitted, Tensor "
      "status)");
  m.def(
      "rejection_sample(Tensor target_logits, Tensor? draft_logits, Tensor draft_sampled, Tensor "
      "cu_num_logits, Tensor pos, Tensor idx_mapping, Tensor temperature, Tensor seed, SymInt "
      "num_speculative_steps, *, bool block_verification=False, bool target_is_scaled=True, bool "
      "draft_is_scaled=True, Tensor? top_k=None, Tensor? top_p=None, Tensor? min_p=None) -> "
      "(Tensor sampled, Tensor num_sampled, Tensor status)");
  m.def(
      "rejection_sample_(Tensor(a!) target_logits, Tensor? draft_logits, Tensor draft_sampled, "
      "Tensor cu_num_logits, Tensor pos, Tensor idx_mapping, Tensor temperature, Tensor seed, "
      "SymInt "
      "num_speculative_steps, *, bool block_verification=False, bool target_is_scaled=True, bool "
      "draft_is_scaled=True, Tensor? top_k=None, Tensor? top_p=None, Tensor? min_p=None, Tensor? "
      "repetition_penalty=None, Tensor? presence_penalty=None, Tensor? frequency_penalty=None, "
      "Tensor? census_tokens=None, Tensor? census_emitted=None, Tensor? census_index=None, Tensor? "
      "census_size=None, Tensor? allowed=None, Tensor? mask_of_row=None) -> (Tensor sampled, "
      "Tensor num_sampled, Tensor status)");
  m.def(
      "begin_texts(Tensor(a!) census_tokens, Tensor(b!) census_emitted, Tensor(c!) census_index, "
      "Tensor(d!) census_size, Tensor state, Tensor ids, Tensor lengths) -> Tensor status");
  m.def(
      "count_tokens(Tensor(a!) census_tokens, Tensor(b!) census_emitted, Tensor(c!) census_index, "
      "Tensor(d!) census_size, Tensor state, Tensor ids, Tensor lengths) -> Tensor status");
  m.def(
      "tree_speculative_sampling_target_only(Tensor candidates, Tensor retrieve_index, Tensor "
      "retrieve_next_token, Tensor retrieve_next_sibling, Tensor target_probs, SymInt levels, *, "
      "Tensor? seeds=None, Tensor? lengths=None, Tensor? uniform_samples=None, Tensor? "
      "uniform_samples_for_final_sampling=None, float threshold_single=1.0, float "
      "threshold_acc=1.0, bool check_rows=False) -> (Tensor predicts, Tensor accept_index, Tensor "
      "accept_token_num, "
      "Tensor status)");
  m.def(
      "verify_tree_greedy(Tensor candidates, Tensor retrieve_index, Tensor retrieve_next_token, "
      "Tensor retrieve_next_sibling, Tensor target_predict, SymInt levels) -> (Tensor predicts, "
      "Tensor accept_index, Tensor accept_token_num, Tensor status)");
  m.def(
      "build_tree(Tensor parent_list, Tensor selected_index, Tensor verified_seq_len, SymInt topk) "
      "-> "
      "(Tensor tree_mask, Tensor positions, Tensor retrieve_index, Tensor retrieve_next_token, "
      "Tensor retrieve_next_sibling, Tensor status)");
}

TORCH_LIBRARY_IMPL(hunch, CPU, m) { implement(m); }
#if defined(HUNCH_TORCH_CUDA)
TORCH_LIBRARY_IMPL(hunch, CUDA, m) { implement(m); }
#endif

}  // namespace hunch_torch
