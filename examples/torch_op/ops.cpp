// SPDX-License-Identifier: Apache-2.0

// torch.ops.hunch: the adapters of docs/interop.md on torch tensors. Each operator checks its
// arguments, allocates its outputs from torch's allocator, and launches; nothing is copied, and on
// CUDA nothing waits.

#include <cstdint>
#include <tuple>

#include <ATen/Parallel.h>
#include <ATen/core/Tensor.h>
#include <torch/library.h>

#include <hunch/executor/host.hpp>
#include "checked_call.hpp"
#include "operations.hpp"

#if defined(HUNCH_TORCH_CUDA)
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#endif

namespace hunch_torch {
namespace {

/// torch's threads as an executor: sequences are independent, so each is a task of its own.
struct torch_threads : hunch::executor::host {
  template <class Body>
  void launch(std::int32_t count, const Body& body) {
    at::parallel_for(0, count, 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) {
        hunch::team::serial team;
        body(team, static_cast<std::int32_t>(i));
      }
    });
  }
};

void launch([[maybe_unused]] const at::Device& device, const operation& what) {
#if defined(HUNCH_TORCH_CUDA)
  if (device.is_cuda()) {
    const c10::cuda::CUDAGuard guard(device);
    return launch_on_stream(c10::cuda::getCurrentCUDAStream(), what);
  }
#endif
  torch_threads threads;
  std::visit(launch_on<torch_threads>{threads}, what);
}

// torch has no arithmetic on unsigned integers; bits are bits.
hunch::interop::random_keys keys_of(const checked_call& call, const maybe_tensor& seeds,
                                    const maybe_tensor& lengths, std::int64_t batch) {
  hunch::interop::random_keys keys;
  keys.seeds =
      reinterpret_cast<const std::uint64_t*>(call.in<std::int64_t>(seeds, "seeds", {batch}));
  keys.lengths =
      reinterpret_cast<const std::uint32_t*>(call.in<std::int32_t>(lengths, "lengths", {batch}));
  return keys;
}

std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor> chain_speculative_sampling(
    const at::Tensor& draft_probs, const at::Tensor& draft_token_ids,
    const at::Tensor& target_probs, const maybe_tensor& seeds, const maybe_tensor& lengths,
    const maybe_tensor& uniform_samples) {
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
  a.draft_probs = call.in<float>(draft_probs, "draft_probs", {batch, length, vocab});
  a.draft_token_ids = call.in<std::int32_t>(draft_token_ids, "draft_token_ids", {batch, length});
  a.target_probs = call.in<float>(target_probs, "target_probs", {batch, length + 1, vocab});
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

std::tuple<at::Tensor, at::Tensor, at::Tensor> rejection_sample(
    const at::Tensor& target_logits, const maybe_tensor& draft_logits,
    const at::Tensor& draft_sampled, const at::Tensor& cu_num_logits, const at::Tensor& pos,
    const at::Tensor& idx_mapping, const at::Tensor& temperature, const at::Tensor& seed,
    std::int64_t num_speculative_steps, bool block_verification, bool target_is_scaled,
    bool draft_is_scaled) {
  const checked_call call("rejection_sample", target_logits, "target_logits", 2);
  call.has_dimensions(idx_mapping, "idx_mapping", 1);
  call.has_dimensions(temperature, "temperature", 1);
  call.at_least(num_speculative_steps, "num_speculative_steps", 0);
  const std::int64_t rows = target_logits.size(0);
  const std::int64_t vocab = target_logits.size(1);
  const std::int64_t requests = idx_mapping.size(0);
  const std::int64_t states = temperature.size(0);

  ragged_chains what{{}, block_verification};
  auto& a = what.arguments;
  a.num_reqs = call.int32(requests);
  a.max_num_reqs = call.int32(states);
  a.num_logits = call.int32(rows);
  a.num_speculative_steps = call.int32(num_speculative_steps);
  a.vocab = call.int32(vocab);
  a.target_logits = call.in_rows<float>(target_logits, "target_logits", a.target_stride);
  if (draft_logits) {
    call.has_dimensions(*draft_logits, "draft_logits", 3);
    a.draft_vocab = call.int32(draft_logits->size(2));
    a.draft_logits = call.in<float>(draft_logits, "draft_logits",
                                    {states, num_speculative_steps, a.draft_vocab});
  }
  a.draft_sampled = call.in<std::int32_t>(draft_sampled, "draft_sampled", {rows});
  a.cu_num_logits = call.in<std::int32_t>(cu_num_logits, "cu_num_logits", {requests + 1});
  a.pos = call.in<std::int64_t>(pos, "pos", {rows});
  a.idx_mapping = call.in<std::int32_t>(idx_mapping, "idx_mapping", {requests});
  a.temperature = call.in<float>(temperature, "temperature", {states});
  a.seed = call.in<std::int64_t>(seed, "seed", {states});
  a.target_is_scaled = target_is_scaled;
  a.draft_is_scaled = draft_is_scaled;

  auto sampled = call.out<std::int64_t>({requests, num_speculative_steps + 1});
  auto num_sampled = call.out<std::int32_t>({requests});
  auto status = call.out<std::uint8_t>({requests});
  a.sampled = sampled.mutable_data_ptr<std::int64_t>();
  a.num_sampled = num_sampled.mutable_data_ptr<std::int32_t>();
  a.status = status_of(status);
  launch(call.device(), what);
  return {sampled, num_sampled, status};
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
  t.candidates = in(candidates, "candidates");
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
    double threshold_acc) {
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
  a.target_probs = call.in<float>(target_probs, "target_probs", {batch, nodes, vocab});
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
  a.target_predict = call.in<std::int64_t>(target_predict, "target_predict", {a.trees.slots});
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
  m.impl("tree_speculative_sampling_target_only", tree_speculative_sampling_target_only);
  m.impl("verify_tree_greedy", verify_tree_greedy);
  m.impl("build_tree", build_tree);
}

}  // namespace

TORCH_LIBRARY(hunch, m) {
  m.def(
      "chain_speculative_sampling(Tensor draft_probs, Tensor draft_token_ids, Tensor target_probs, "
      "*, Tensor? seeds=None, Tensor? lengths=None, Tensor? uniform_samples=None) -> (Tensor "
      "output_token_ids, Tensor accepted, Tensor emitted, Tensor status)");
  m.def(
      "rejection_sample(Tensor target_logits, Tensor? draft_logits, Tensor draft_sampled, Tensor "
      "cu_num_logits, Tensor pos, Tensor idx_mapping, Tensor temperature, Tensor seed, int "
      "num_speculative_steps, *, bool block_verification=False, bool target_is_scaled=True, bool "
      "draft_is_scaled=True) -> (Tensor sampled, Tensor num_sampled, Tensor status)");
  m.def(
      "tree_speculative_sampling_target_only(Tensor candidates, Tensor retrieve_index, Tensor "
      "retrieve_next_token, Tensor retrieve_next_sibling, Tensor target_probs, int levels, *, "
      "Tensor? seeds=None, Tensor? lengths=None, Tensor? uniform_samples=None, Tensor? "
      "uniform_samples_for_final_sampling=None, float threshold_single=1.0, float "
      "threshold_acc=1.0) -> (Tensor predicts, Tensor accept_index, Tensor accept_token_num, "
      "Tensor status)");
  m.def(
      "verify_tree_greedy(Tensor candidates, Tensor retrieve_index, Tensor retrieve_next_token, "
      "Tensor retrieve_next_sibling, Tensor target_predict, int levels) -> (Tensor predicts, "
      "Tensor accept_index, Tensor accept_token_num, Tensor status)");
  m.def(
      "build_tree(Tensor parent_list, Tensor selected_index, Tensor verified_seq_len, int topk) -> "
      "(Tensor tree_mask, Tensor positions, Tensor retrieve_index, Tensor retrieve_next_token, "
      "Tensor retrieve_next_sibling, Tensor status)");
}

TORCH_LIBRARY_IMPL(hunch, CPU, m) { implement(m); }
#if defined(HUNCH_TORCH_CUDA)
TORCH_LIBRARY_IMPL(hunch, CUDA, m) { implement(m); }
#endif

}  // namespace hunch_torch
