// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <numeric>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <hunch/core/types.hpp>
#include <hunch/decoder/generation.hpp>
#include <hunch/sampler/sampler.hpp>
#include "hash.hpp"
#include "toy_world.hpp"

/// \file
/// What the library must compute, written a second time from the definitions and without it:
/// std::exp, a full sort, plain sums.

namespace hunch::test {

using text = std::vector<token>;
using law_of_texts = std::map<text, double>;

/// What ends a text that ends with an error: no token.
constexpr token error_mark(status why) { return -10 - static_cast<token>(why); }
inline bool is_error(token t) { return t < -10; }
inline bool ends_with_error(const text& emitted) {
  return !emitted.empty() && is_error(emitted.back());
}

/// The ids of a row, most probable first, the lower id first on ties.
inline std::vector<std::int32_t> by_rank(const std::vector<double>& logits) {
  std::vector<std::int32_t> ids(logits.size());
  std::iota(ids.begin(), ids.end(), 0);
  std::stable_sort(ids.begin(), ids.end(), [&](std::int32_t a, std::int32_t b) {
    return logits[static_cast<std::size_t>(a)] > logits[static_cast<std::size_t>(b)];
  });
  return ids;
}

/// A row after the request's penalties, biases and grammar, where `emitted` follows the prompt.
inline std::vector<double> edited(std::vector<double> row, const generation_options& o,
                                  std::span<const token> prompt, std::span<const token> emitted) {
  for (std::size_t v = 0; v < row.size(); ++v) {
    const auto t = static_cast<token>(v);
    const auto n = std::ranges::count(emitted, t);
    if (n > 0 || std::ranges::count(prompt, t) > 0) {
      const double r = o.repetition_penalty;
      row[v] = row[v] > 0.0 ? row[v] / r : row[v] * r;
    }
    row[v] -= static_cast<double>(o.frequency_penalty) * static_cast<double>(n) +
              (n > 0 ? static_cast<double>(o.presence_penalty) : 0.0);
  }
  for (const logit_bias& b : o.bias) { row[static_cast<std::size_t>(b.t)] += double(b.value); }
  if (o.grammar) {
    const auto walk = o.grammar.begin(1);
    for (const token t : emitted) { walk->commit(t); }
    std::vector<std::uint32_t> words(row.size() / 32 + 1, 0xdeadbeefu);
    walk->plant(words.data());
    for (std::size_t v = 0; v < row.size(); ++v) {
      if ((words[v / 32] >> (v % 32) & 1u) == 0) {
        row[v] = -std::numeric_limits<double>::infinity();
      }
    }
  }
  return row;
}

/// The restrictions that a sampler has, in the order temperature, top-k, top-p, min-p.
inline std::vector<double> reference_law(const std::vector<double>& logits,
                                         const sampling_parameters& with) {
  const std::vector<std::int32_t> ids = by_rank(logits);
  const auto at = [](std::int32_t id) { return static_cast<std::size_t>(id); };
  std::vector<double> law(logits.size(), 0.0);
  const double temperature = with.temperature;
  if (temperature == 0.0) {
    law[at(ids[0])] = 1.0;
    return law;
  }
  const double top = logits[at(ids[0])];
  std::size_t kept = ids.size();
  if (with.top_k > 0) { kept = std::min(kept, static_cast<std::size_t>(with.top_k)); }
  double mass = 0.0;
  for (std::size_t r = 0; r < kept; ++r) {
    law[at(ids[r])] = std::exp((logits[at(ids[r])] - top) / temperature);
    mass += law[at(ids[r])];
  }
  if (with.top_p < 1.0f) {
    const double wanted = static_cast<double>(with.top_p) * mass;
    double held = 0.0;
    std::size_t r = 0;
    while (r < kept && held < wanted) { held += law[at(ids[r++])]; }
    for (; r < kept; ++r) { law[at(ids[r])] = 0.0; }
    mass = held;
  }
  if (with.min_p > 0.0f) {
    mass = 0.0;
    for (double& p : law) {
      p = p >= static_cast<double>(with.min_p) ? p : 0.0;  // the largest is 1 here
      mass += p;
    }
  }
  for (double& p : law) { p /= mass; }
  return law;
}

/// Whether plain decoding ends with the last of `emitted`.
inline bool ends(const generation_options& o, std::span<const token> emitted,
                 std::string (*bytes)(token)) {
  if (std::ssize(emitted) >= o.max_new_tokens) { return true; }
  if (std::ranges::find(o.stop_tokens, emitted.back()) != o.stop_tokens.end()) { return true; }
  if (o.stop_strings.empty()) { return false; }
  std::string whole;
  for (const token t : emitted) { whole += bytes(t); }
  return std::ranges::any_of(
      o.stop_strings, [&](const std::string& s) { return whole.find(s) != std::string::npos; });
}

/// The row of the token after a prompt and what was emitted after it, after all edits.
inline std::vector<double> next_row(const toy_world& world, const generation_options& o,
                                    std::span<const token> prompt, std::span<const token> emitted) {
  std::uint64_t hash = hash_of(prompt);
  for (const token t : emitted) { hash = extend(hash, t); }
  return edited(world.logits(hash), o, prompt, emitted);
}

/// And its law, if it has one.
inline std::vector<double> next_law(const toy_world& world, const generation_options& o,
                                    std::span<const token> prompt, std::span<const token> emitted) {
  return reference_law(next_row(world, o, prompt, emitted), o.sampling());
}

/// Why a row after all edits has no law.
inline status row_status(const std::vector<double>& row, const generation_options& o) {
  constexpr double infinity = std::numeric_limits<double>::infinity();
  const auto broken = [](double x) { return std::isnan(x) || x == infinity; };
  if (std::ranges::any_of(row, broken)) { return status::invalid_logits; }
  if (std::ranges::any_of(row, [](double x) { return x > -infinity; })) { return status::ok; }
  return o.grammar || !o.bias.empty() ? status::empty_support : status::invalid_logits;
}

/// Calls visit(text, probability) for every text that plain decoding can emit after `prompt`, if it
/// has emitted `begun` already. Where it meets a row without a law, the text ends with an error.
template <class Visit>
void plain_decoding(const toy_world& world, const generation_options& o,
                    std::span<const token> prompt, const text& begun, std::string (*bytes)(token),
                    Visit&& visit) {
  text emitted = begun;
  const auto walk = [&](auto&& self, double probability) -> void {
    if (!emitted.empty() && ends(o, emitted, bytes)) {
      visit(std::as_const(emitted), probability);
      return;
    }
    const std::vector<double> row = next_row(world, o, prompt, emitted);
    if (const status why = row_status(row, o); why != status::ok) {
      emitted.push_back(error_mark(why));
      visit(std::as_const(emitted), probability);
      emitted.pop_back();
      return;
    }
    const std::vector<double> law = reference_law(row, o.sampling());
    for (std::int32_t v = 0; v < world.vocab; ++v) {
      const double p = law[static_cast<std::size_t>(v)];
      if (p <= 0.0) { continue; }
      emitted.push_back(v);
      self(self, probability * p);
      emitted.pop_back();
    }
  };
  walk(walk, 1.0);
}

/// The autoregressive law: every text with its probability.
inline law_of_texts autoregressive_law(const toy_world& world, const generation_options& o,
                                       std::span<const token> prompt, const text& begun = {},
                                       std::string (*bytes)(token) = nullptr) {
  law_of_texts law;
  plain_decoding(world, o, prompt, begun, bytes,
                 [&](const text& emitted, double p) { law[emitted] += p; });
  return law;
}

/// The largest difference of two laws in one text.
inline double distance(const law_of_texts& a, const law_of_texts& b) {
  double largest = 0.0;
  const auto against = [&largest](const law_of_texts& one, const law_of_texts& other) {
    for (const auto& [key, p] : one) {
      const auto found = other.find(key);
      const double q = found == other.end() ? 0.0 : found->second;
      const double gap = std::abs(p - q);
      largest = gap <= largest ? largest : gap;  // a NaN becomes the largest
    }
  };
  against(a, b);
  against(b, a);
  return largest;
}

}  // namespace hunch::test
