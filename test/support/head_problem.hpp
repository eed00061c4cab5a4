// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <type_traits>
#include <utility>
#include <vector>

#include <hunch/core/bfloat16.hpp>
#include <hunch/core/float16.hpp>
#include <hunch/core/logit.hpp>
#include <hunch/head/shortlist_head.hpp>
#include <hunch/vocab/vocab_layout.hpp>
#include "hash.hpp"

namespace hunch::test {

template <class Weight>
Weight weight_of(double x) {
  if constexpr (std::is_same_v<Weight, float>) {
    return static_cast<float>(x);
  } else if constexpr (std::is_same_v<Weight, bfloat16>) {
    return to_bfloat16(static_cast<float>(x));
  } else if constexpr (std::is_same_v<Weight, float16>) {
    return to_float16(static_cast<float>(x));
  } else {
    return static_cast<std::int8_t>(std::lround(127.0 * x));
  }
}

/// A random head, hidden states and lists that ask for them.
template <class Weight>
struct head_problem {
  std::int32_t rows;
  std::int32_t width;
  std::vector<Weight> weights;
  std::vector<float> scale;
  std::vector<float> hidden;  ///< [states, width]
  std::vector<std::vector<row_range>> ranges;
  std::vector<std::int32_t> row;  ///< [lists] -1: padding

  head_problem(std::int32_t r, std::int32_t w, std::int32_t lists, std::uint64_t seed, bool scaled)
      : rows(r), width(w) {
    dice random{seed};
    const auto size = [](auto n) { return static_cast<std::size_t>(n); };
    weights.resize(size(r) * size(w));
    for (Weight& x : weights) { x = weight_of<Weight>(2.0 * random.unit() - 1.0); }
    if (scaled) {
      scale.resize(size(r));
      for (float& x : scale) { x = static_cast<float>(0.5 + random.unit()); }
    }
    hidden.resize(size(lists) * size(w));
    for (float& x : hidden) { x = static_cast<float>(6.0 * random.unit() - 3.0); }
    for (std::int32_t i = 0; i < lists; ++i) {
      std::vector<row_range> list;
      std::int32_t at = random.below(3) == 0 ? 0 : static_cast<std::int32_t>(random.below(9));
      while (at < r) {
        const auto length = static_cast<std::int32_t>(1 + random.below(i % 3 == 0 ? 90 : 7));
        list.push_back({at, std::min(r, at + length)});
        at += length + 1 + static_cast<std::int32_t>(random.below(i % 3 == 1 ? 200 : 20));
      }
      ranges.push_back(list);
      row.push_back(i % 7 == 5 ? -1 : i);
    }
    if (lists > 2) { ranges[2] = {{0, r}}; }  // all rows
    if (lists > 3) { ranges[3] = {}; }        // none
    if (lists > 4) { ranges[4] = {{r - 1, r}}; }
  }

  shortlist list(std::size_t i) const {
    std::int32_t size = 0;
    for (const row_range range : ranges[i]) { size += std::max(0, range.end - range.begin); }
    return {ranges[i].data(),
            static_cast<std::int32_t>(ranges[i].size()),
            size,
            nullptr,
            nullptr,
            rows};
  }
  kernel::head_weights<Weight> head() const {
    return {weights.data(), rows, width, scale.empty() ? nullptr : scale.data()};
  }

  /// The logits of the lists of `which`, by shortlist_head; -7 where nothing was asked for.
  /// \tparam Logit the type that it writes.
  template <class Logit = float, class E>
  std::vector<std::vector<float>> logits(E executor, const std::vector<std::size_t>& which) const {
    std::vector<shortlist> lists;
    std::vector<std::int32_t> asked;
    std::vector<row_range> all_ranges;
    std::int32_t size = 0;
    for (const std::size_t i : which) {
      lists.push_back(list(i));
      asked.push_back(row[i]);
      all_ranges.insert(all_ranges.end(), ranges[i].begin(), ranges[i].end());
      size += lists.back().size;
    }
    const auto of_ranges = copy(executor, all_ranges);
    const auto out =
        copy(executor, std::vector<Logit>(static_cast<std::size_t>(size), to_logit<Logit>(-7.0f)));
    std::vector<row_view<Logit>> views;
    Logit* at = out.data();
    const row_range* first = of_ranges.data();
    for (shortlist& l : lists) {
      l.ranges = first;
      first += l.range_count;
      views.push_back({at, l.size});
      at += l.size;
    }
    const auto of_weights = copy(executor, weights);
    const auto of_scale = copy(executor, scale);
    const auto of_hidden = copy(executor, hidden);
    const auto of_lists = copy(executor, lists);
    const auto of_rows = copy(executor, asked);
    const auto of_views = copy(executor, views);
    shortlist_head<E, Weight> product(executor, rows, width);
    product(executor, {of_weights.data(), rows, width, scale.empty() ? nullptr : of_scale.data()},
            of_hidden.data(), width,
            head_rows<Logit>{static_cast<std::int32_t>(which.size()), of_rows.data(),
                             of_lists.data(), of_views.data()});
    executor.synchronize();
    std::vector<std::vector<float>> found;
    for (const row_view<Logit>& view : views) {
      auto& row_found = found.emplace_back();
      for (std::int32_t i = 0; i < view.size; ++i) { row_found.push_back(to_real(view[i])); }
    }
    return found;
  }
  template <class Logit = float, class E>
  std::vector<std::vector<float>> logits(E executor) const {
    std::vector<std::size_t> all(ranges.size());
    std::iota(all.begin(), all.end(), std::size_t(0));
    return logits<Logit>(executor, all);
  }

  /// In memory that bodies of the executor and the host reach.
  template <class E, class T>
  static auto copy(E& executor, const std::vector<T>& from) {
    typename E::template buffer<T> to(executor, from.size());
    std::copy(from.begin(), from.end(), to.data());
    return to;
  }

  /// The logit at a position of a list and the sum of the magnitudes of its terms, in double.
  std::pair<double, double> exact(std::size_t i, std::int32_t position) const {
    const std::int32_t r = list(i).token_at(position);
    double sum = 0.0;
    double size = 0.0;
    for (std::int32_t k = 0; k < width; ++k) {
      const double term =
          static_cast<double>(to_float(weights[static_cast<std::size_t>(r * width + k)])) *
          static_cast<double>(hidden[static_cast<std::size_t>(row[i] * width + k)]);
      sum += term;
      size += std::abs(term);
    }
    const double factor =
        scale.empty() ? 1.0 : static_cast<double>(scale[static_cast<std::size_t>(r)]);
    return {sum * factor, size * factor};
  }
};

/// The largest error of any logit, relative to the magnitude of its terms.
template <class Weight>
double worst_error(const head_problem<Weight>& of, const std::vector<std::vector<float>>& found) {
  double worst = 0.0;
  for (std::size_t i = 0; i < found.size(); ++i) {
    for (std::size_t at = 0; at < found[i].size(); ++at) {
      if (of.row[i] < 0) {
        worst = std::max(worst, found[i][at] == -7.0f ? 0.0 : 1.0);
      } else {
        const auto [sum, size] = of.exact(i, static_cast<std::int32_t>(at));
        worst = std::max(worst, std::abs(static_cast<double>(found[i][at]) - sum) / size);
      }
    }
  }
  return worst;
}

/// Equal bits, so that a NaN is equal to itself.
inline bool same(const std::vector<float>& a, const std::vector<float>& b) {
  return std::ranges::equal(a, b, [](float x, float y) {
    return std::bit_cast<std::uint32_t>(x) == std::bit_cast<std::uint32_t>(y);
  });
}

}  // namespace hunch::test
