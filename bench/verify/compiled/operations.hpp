// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <hunch/head/range_gemv.hpp>
#include <hunch/head/shortlist_head.hpp>
#include <hunch/hunch.hpp>

/// \file
/// What the suite `verify` times, after pointers: it is compiled once for each set of flags, into
/// libraries that share no function.

namespace bench {

/// Uniforms that accept every drafted token but the first `refused` children of each node, or but
/// the child of one node.
struct scripted_words {
  std::uint32_t refused_node = ~std::uint32_t(0);
  std::uint32_t refused_siblings = 0;

  std::uint64_t operator()(const hunch::address& a) const {
    if (a.what != hunch::purpose::accept) { return hunch::philox{}(a); }
    const bool refuse = a.node == refused_node || a.sibling < refused_siblings;
    return refuse ? ~std::uint64_t(0) : 0;
  }
};

/// A draft of one sequence: the arrays that an engine would hold.
struct draft {
  std::vector<hunch::token> tokens;
  std::vector<std::int32_t> parent;
  std::vector<std::int32_t> drawn_at;
  std::vector<hunch::law<float>> q;
  std::vector<hunch::shortlist> lists;
  std::vector<hunch::target_row<float>> rows;
  std::vector<hunch::law<float>> p;
  std::vector<std::int32_t> path;
  std::vector<double> scratch;

  draft(std::vector<std::int32_t> parents, const hunch::shortlist& list)
      : tokens(parents.size()),
        parent(std::move(parents)),
        drawn_at(tokens.size()),
        q(tokens.size()),
        lists(tokens.size(), list),
        rows(tokens.size()),
        p(tokens.size()),
        path(tokens.size()),
        scratch(tokens.size()) {}

  void put(std::size_t node, hunch::token t) { tokens[node] = drawn_at[node] = t; }
};

/// The products of a head.
template <class Weight>
struct head_operations {
  using weights = hunch::kernel::head_weights<Weight>;

  /// Of all rows, and of a shortlist's, with one hidden state.
  void (*all)(const weights&, const float* hidden, float* logits);
  void (*some)(const weights&, const hunch::shortlist&, const float* hidden,
               hunch::row_view<float> logits);
  /// Of several shortlists, each with a hidden state of its own.
  void (*together)(const weights&, const float* hidden, const hunch::head_rows<float>& asked);
};

struct operations {
  /// What the compiler says that it may use.
  bool optimised = false;
  bool avx2 = false;
  bool avx512 = false;

  // From the logits of a row.
  hunch::law<float> (*law)(hunch::row_view<float>);
  hunch::law<float> (*top_k)(hunch::row_view<float>, std::int32_t k);
  hunch::law<float> (*top_p)(hunch::row_view<float>, float p);
  /// Up to its threshold, without the sum of what is kept.
  hunch::law<float> (*top_p_cut)(hunch::row_view<float>, float p);
  /// With all stages that there are; edits the row.
  hunch::law<float> (*all_stages)(hunch::row_view<float>, const hunch::sampling_parameters&,
                                  const hunch::row_history&);
  hunch::token (*coupled)(hunch::row_view<float>, std::uint64_t seed);

  // From the logits of all rows to the verdict; every law is made anew. The accepted drafts.
  std::int32_t (*chain)(draft&, const scripted_words&);
  std::int32_t (*ranked_tree)(draft&, const scripted_words&);
  std::int32_t (*drawn_tree)(draft&, const scripted_words&);

  std::tuple<head_operations<float>, head_operations<hunch::bfloat16>,
             head_operations<hunch::float16>, head_operations<std::int8_t>>
      heads;
};

/// All that the libraries show, each one of them.
[[gnu::visibility("default")]] const operations& operations_plain();
[[gnu::visibility("default")]] const operations& operations_v3();
[[gnu::visibility("default")]] const operations& operations_native();

}  // namespace bench
