// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <stdexcept>
#include <utility>
#include <vector>

#include <hunch/core/message.hpp>
#include <hunch/core/types.hpp>
#include <hunch/vocab/vocab_layout.hpp>

namespace hunch {

/// The first `rows` rows of a layout as a head of its own: a `selector::trimmed` that stores no
/// more than it uses.
/// \throws std::invalid_argument if `rows` is below 1, or more than the layout has.
inline vocab_layout first_rows(const vocab_layout& of, std::int32_t rows) {
  if (rows < 1 || rows > of.head_rows()) {
    throw std::invalid_argument(
        message({"hunch::first_rows: ", rows, " rows of ", of.head_rows()}));
  }
  std::vector<token> kept(static_cast<std::size_t>(rows));
  for (std::int32_t r = 0; r < rows; ++r) {
    kept[static_cast<std::size_t>(r)] = of.row_token() == nullptr ? r : of.row_token()[r];
  }
  return vocab_layout::permuted(std::move(kept), of.vocab_size());
}

/// The layout of an EAGLE-3 draft head (Li et al. 2025, arXiv:2503.01840): row i stands for token
/// i + d2t[i], as its checkpoints store it.
/// \param d2t [head rows]
/// \throws std::invalid_argument if that is outside the vocabulary, or twice the same, or for no
///         rows.
inline vocab_layout from_d2t(std::span<const std::int64_t> d2t, std::int32_t vocab_size) {
  std::vector<token> row_token(d2t.size());
  for (std::size_t i = 0; i < d2t.size(); ++i) {
    const std::int64_t t = static_cast<std::int64_t>(i) + d2t[i];
    row_token[i] = t < 0 || t >= vocab_size ? no_token : static_cast<token>(t);
  }
  return vocab_layout::permuted(std::move(row_token), vocab_size);
}

/// The layout of a clustered head: the rows of `core` first, in that order, always chosen; then one
/// cluster after the other, tokens in ascending order. For `selector::clustered` (DynaSpec,
/// arXiv:2510.13847).
///
/// \param cluster [vocab_size] of every token, 0 or more. Clusters that are left without a token
///        vanish, and the others are numbered anew.
/// \param core tokens that are in every shortlist: end of text, byte tokens, frequent ones.
/// \throws std::invalid_argument for a token or a cluster out of range, a token twice in core, or a
///         core that leaves no token.
inline vocab_layout clustered_layout(std::span<const std::int32_t> cluster,
                                     std::span<const token> core = {}) {
  const auto vocab_size = static_cast<std::int32_t>(cluster.size());
  std::vector<bool> in_core(cluster.size());
  std::vector<token> row_token;
  for (const token t : core) {
    if (t < 0 || t >= vocab_size || in_core[static_cast<std::size_t>(t)]) {
      throw std::invalid_argument(message(
          {"hunch::clustered_layout: token ", t, " of the core is out of range, or there twice"}));
    }
    in_core[static_cast<std::size_t>(t)] = true;
    row_token.push_back(t);
  }
  std::vector<token> rest;
  for (token t = 0; t < vocab_size; ++t) {
    if (cluster[static_cast<std::size_t>(t)] < 0) {
      throw std::invalid_argument(
          message({"hunch::clustered_layout: token ", t, " has no cluster"}));
    }
    if (!in_core[static_cast<std::size_t>(t)]) { rest.push_back(t); }
  }
  const auto of = [&](token t) { return cluster[static_cast<std::size_t>(t)]; };
  std::stable_sort(rest.begin(), rest.end(), [&](token a, token b) { return of(a) < of(b); });
  std::vector<std::int32_t> begin;
  for (std::size_t i = 0; i < rest.size(); ++i) {
    if (i == 0 || of(rest[i]) != of(rest[i - 1])) {
      begin.push_back(static_cast<std::int32_t>(row_token.size() + i));
    }
  }
  begin.push_back(vocab_size);
  row_token.insert(row_token.end(), rest.begin(), rest.end());
  return vocab_layout::permuted(std::move(row_token), vocab_size).clustered(std::move(begin));
}

}  // namespace hunch
