// SPDX-License-Identifier: Apache-2.0

// The operators of torch.ops.hunch that are no adapter of an engine's kernel: what the functions of
// the Python package are made of, besides those of ops.cpp.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <tuple>

#include <ATen/core/Tensor.h>
#include <torch/library.h>

#include "checked_call.hpp"
#include "launch.hpp"
#include "operations.hpp"

namespace hunch_torch {
namespace {

/// emitted, path, num_tokens, status.
using verified_trees = std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor>;

struct tree_tensors {
  const at::Tensor& target_logits;
  const at::Tensor& tokens;
  const at::Tensor& parents;
  const maybe_tensor& draft_logits;
  const at::Tensor& seeds;
  const at::Tensor& lengths;
  const at::Tensor& temperature;
  const maybe_tensor& top_k;
  const maybe_tensor& top_p;
  const maybe_tensor& min_p;
  bool without_replacement;
  bool draft_is_scaled;
};

template <class Logit>
verified_trees verify_trees(const checked_call& call, const tree_tensors& t) {
  const std::int64_t batch = t.target_logits.size(0);
  const std::int64_t nodes = t.target_logits.size(1);
  const std::int64_t vocab = t.target_logits.size(2);
  call.at_least(nodes, "the number of nodes", 1);

  logit_trees<Logit> a;
  a.batch = call.int32(batch);
  a.nodes = call.int32(nodes);
  a.vocab = call.int32(vocab);
  a.target_logits =
      call.in_rows<Logit>(t.target_logits, "target_logits", {batch, nodes, vocab}, a.target_stride);
  if (t.draft_logits) {
    call.has_dimensions(*t.draft_logits, "draft_logits", 3);
    a.draft_vocab = call.int32(t.draft_logits->size(2));
    a.draft_logits = call.in_rows<Logit>(*t.draft_logits, "draft_logits",
                                         {batch, nodes, a.draft_vocab}, a.draft_stride);
  }
  a.tokens = call.ids(t.tokens, "tokens", {batch, nodes});
  a.parents = call.ids(t.parents, "parents", {batch, nodes});
  a.children =
      t.without_replacement ? hunch::child_law::without_replacement : hunch::child_law::independent;
  a.draft_is_scaled = t.draft_is_scaled;
  a.seeds = call.in<std::uint64_t>(t.seeds, "seeds", {batch});
  a.lengths = call.in<std::uint32_t>(t.lengths, "lengths", {batch});
  a.sampling.temperature = call.in<float>(t.temperature, "temperature", {batch});
  a.sampling.top_k = call.in<std::int32_t>(t.top_k, "top_k", {batch});
  a.sampling.top_p = call.in<float>(t.top_p, "top_p", {batch});
  a.sampling.min_p = call.in<float>(t.min_p, "min_p", {batch});

  auto emitted = call.out<std::int64_t>({batch, nodes});
  auto path = call.out<std::int64_t>({batch, nodes - 1});
  auto num_tokens = call.out<std::int32_t>({batch});
  auto status = call.out<std::uint8_t>({batch});
  // torch keeps them for what is launched on this stream until then.
  const auto laws = call.out<std::uint8_t>(
      {batch * 2 * nodes * static_cast<std::int64_t>(sizeof(hunch::law<Logit>))});
  const auto walked = call.out<std::int32_t>({batch, nodes});
  a.emitted = emitted.mutable_data_ptr<std::int64_t>();
  a.path = path.mutable_data_ptr<std::int64_t>();
  a.num_tokens = num_tokens.mutable_data_ptr<std::int32_t>();
  a.status = status_of(status);
  a.laws = static_cast<hunch::law<Logit>*>(laws.mutable_data_ptr());
  a.walked = walked.mutable_data_ptr<std::int32_t>();
  launch(call.device(), a);
  return {emitted, path, num_tokens, status};
}

verified_trees verify_tree(const at::Tensor& target_logits, const at::Tensor& tokens,
                           const at::Tensor& parents, const maybe_tensor& draft_logits,
                           const at::Tensor& seeds, const at::Tensor& lengths,
                           const at::Tensor& temperature, const maybe_tensor& top_k,
                           const maybe_tensor& top_p, const maybe_tensor& min_p,
                           bool without_replacement, bool draft_is_scaled) {
  const checked_call call("verify_tree", target_logits, "target_logits", 3);
  const tree_tensors t{
      target_logits, tokens, parents, draft_logits,        seeds,          lengths, temperature,
      top_k,         top_p,  min_p,   without_replacement, draft_is_scaled};
  if (target_logits.scalar_type() == at::kBFloat16) {
    return verify_trees<hunch::bfloat16>(call, t);
  }
  if (target_logits.scalar_type() == at::kHalf) { return verify_trees<hunch::float16>(call, t); }
  return verify_trees<float>(call, t);
}

std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor, at::Tensor> describe_tree(
    const at::Tensor& parents, const at::Tensor& lengths) {
  const checked_call call("describe_tree", parents, "parents", 2);
  const std::int64_t batch = parents.size(0);
  const std::int64_t nodes = parents.size(1);
  call.at_least(nodes, "the number of nodes", 1);
  tree_nodes a;
  a.batch = call.int32(batch);
  a.nodes = call.int32(nodes);
  a.parents = call.in<std::int64_t>(parents, "parents", {batch, nodes});
  a.lengths = call.in<std::int32_t>(lengths, "lengths", {batch});
  auto mask = call.out<bool>({batch, nodes, nodes});
  auto positions = call.out<std::int64_t>({batch, nodes});
  auto first_child = call.out<std::int64_t>({batch, nodes});
  auto next_sibling = call.out<std::int64_t>({batch, nodes});
  auto status = call.out<std::uint8_t>({batch});
  a.mask = mask.mutable_data_ptr<bool>();
  a.positions = positions.mutable_data_ptr<std::int64_t>();
  a.first_child = first_child.mutable_data_ptr<std::int64_t>();
  a.next_sibling = next_sibling.mutable_data_ptr<std::int64_t>();
  a.status = status_of(status);
  launch(call.device(), a);
  return {mask, positions, first_child, next_sibling, status};
}

/// Row ranges as pairs of int32.
hunch::row_range* ranges_of(at::Tensor& t) {
  return reinterpret_cast<hunch::row_range*>(t.mutable_data_ptr<std::int32_t>());
}

template <class Weight>
at::Tensor multiply(const checked_call& call, const at::Tensor& hidden, const at::Tensor& weight,
                    const at::Tensor& ranges, std::int64_t most_rows) {
  call.has_dimensions(weight, "weight", 2);
  call.has_dimensions(ranges, "ranges", 3);
  call.at_least(most_rows, "most_rows", 0);
  const std::int64_t batch = hidden.size(0);
  const std::int64_t width = hidden.size(1);
  const std::int64_t rows = weight.size(0);
  call.at_least(width, "the width", 1);
  call.at_least(rows, "the number of rows of weight", 1);
  list_head<Weight> a;
  a.batch = call.int32(batch);
  a.rows = call.int32(rows);
  a.width = call.int32(width);
  a.hidden = call.in<float>(hidden, "hidden", {batch, width});
  a.weights = call.in<Weight>(weight, "weight", {rows, width});
  a.has_one_list = ranges.size(0) == 1;
  a.most_ranges = call.int32(ranges.size(1));
  a.ranges = reinterpret_cast<const hunch::row_range*>(
      call.in<std::int32_t>(ranges, "ranges", {a.has_one_list ? 1 : batch, ranges.size(1), 2}));
  a.most_rows = call.int32(most_rows);
  auto logits = call.out<float>({batch, most_rows});
  const auto workspace = call.out<std::uint8_t>({static_cast<std::int64_t>(a.workspace_bytes())});
  a.logits = logits.mutable_data_ptr<float>();
  a.workspace = static_cast<std::byte*>(workspace.mutable_data_ptr());
  if (batch > 0) { launch(call.device(), a); }
  return logits;
}

at::Tensor shortlist_head(const at::Tensor& hidden, const at::Tensor& weight,
                          const at::Tensor& ranges, std::int64_t most_rows) {
  const checked_call call("shortlist_head", hidden, "hidden", 2);
  if (weight.scalar_type() == at::kBFloat16) {
    return multiply<hunch::bfloat16>(call, hidden, weight, ranges, most_rows);
  }
  if (weight.scalar_type() == at::kHalf) {
    return multiply<hunch::float16>(call, hidden, weight, ranges, most_rows);
  }
  return multiply<float>(call, hidden, weight, ranges, most_rows);
}

at::Tensor choose_clusters(const at::Tensor& scores, const at::Tensor& cluster_begin,
                           std::int64_t most, std::optional<std::int64_t> rows,
                           std::optional<double> share, bool per_row) {
  const checked_call call("choose_clusters", scores, "scores", 2);
  const std::int64_t batch = scores.size(0);
  const std::int64_t clusters = scores.size(1);
  constexpr std::int64_t most_clusters = 64 * hunch::team::list_capacity - 1;
  call.at_least(clusters, "the number of clusters", 1);
  call.at_most(clusters, "the number of clusters", most_clusters);
  call.at_least(most, "most", 1);
  cluster_choices a;
  a.batch = call.int32(batch);
  a.clusters = call.int32(clusters);
  a.begin = call.in<std::int32_t>(cluster_begin, "cluster_begin", {clusters + 1});
  a.limits.most = call.int32(std::min(most, clusters));
  a.limits.rows = std::numeric_limits<std::int32_t>::max();
  if (rows) {
    call.at_least(*rows, "rows", 1);
    a.limits.rows = call.int32(*rows);
  }
  a.limits.ranks_per_row = per_row;
  a.has_share = share.has_value();
  if (share) {
    call.in_unit_interval(*share, "share");
    a.limits.share = static_cast<float>(*share);
  }
  call.in<float>(scores, "scores", {batch, clusters});
  // Where clusters are ranked by what a row of them is worth, the choice edits its scores.
  const at::Tensor edited = per_row ? scores.clone() : scores;
  a.scores = static_cast<float*>(edited.mutable_data_ptr());
  auto ranges = call.out<std::int32_t>({batch, a.limits.most + 1, 2});
  a.ranges = ranges_of(ranges);
  launch(call.device(), a);
  return ranges;
}

void implement(torch::Library& m) {
  m.impl("verify_tree", verify_tree);
  m.impl("describe_tree", describe_tree);
  m.impl("shortlist_head", shortlist_head);
  m.impl("choose_clusters", choose_clusters);
}

}  // namespace

TORCH_LIBRARY_FRAGMENT(hunch, m) {
  m.def(
      "verify_tree(Tensor target_logits, Tensor tokens, Tensor parents, Tensor? draft_logits, *, "
      "Tensor seeds, Tensor lengths, Tensor temperature, Tensor? top_k=None, Tensor? top_p=None, "
      "Tensor? min_p=None, bool without_replacement=False, bool draft_is_scaled=False) -> (Tensor "
      "emitted, Tensor path, Tensor num_tokens, Tensor status)");
  m.def(
      "describe_tree(Tensor parents, Tensor lengths) -> (Tensor mask, Tensor positions, Tensor "
      "first_child, Tensor next_sibling, Tensor status)");
  m.def(
      "shortlist_head(Tensor hidden, Tensor weight, Tensor ranges, SymInt most_rows) -> Tensor "
      "logits");
  m.def(
      "choose_clusters(Tensor scores, Tensor cluster_begin, SymInt most, SymInt? rows=None, float? "
      "share=None, bool per_row=False) -> Tensor ranges");
}

TORCH_LIBRARY_IMPL(hunch, CPU, m) { implement(m); }
#if defined(HUNCH_TORCH_CUDA)
TORCH_LIBRARY_IMPL(hunch, CUDA, m) { implement(m); }
#endif

}  // namespace hunch_torch
