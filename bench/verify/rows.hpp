// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <random>
#include <vector>

#include <hunch/hunch.hpp>

#include "../common.hpp"

namespace bench {

inline constexpr std::int32_t vocabulary = 128256;
inline constexpr std::size_t row_width = vocabulary;

/// What rows of logits look like: like those of a language model, a few likely tokens before a long
/// tail; or noise alone, of which hardly anything can be cut.
enum class shape { language, flat };

/// Rows in sets of `rows_per_set`: several times what a last-level cache holds.
class row_sets {
 public:
  explicit row_sets(std::size_t rows_per_set, shape of = shape::language,
                    std::size_t pool_rows = 2048)
      : rows_(rows_per_set),
        sets_(pool_rows / rows_per_set),
        values_(new float[pool_rows * row_width]) {
    std::mt19937 random(1);
    std::normal_distribution<float> normal;
    // Each row is a window of one long stretch of noise, with likely tokens of its own.
    std::vector<float> noise(row_width + pool_rows * 61);
    for (float& x : noise) { x = (of == shape::flat ? 1.0f : 1.8f) * normal(random); }
    for (std::size_t r = 0; r < pool_rows; ++r) {
      std::copy_n(noise.data() + r * 61, row_width, values_.get() + r * row_width);
      for (int rank = 0; rank < (of == shape::flat ? 0 : 200); ++rank) {
        values_[r * row_width + random() % row_width] =
            18.0f - 2.0f * std::log(1.0f + static_cast<float>(rank));
      }
    }
  }

  std::size_t count() const { return sets_; }
  float* row(std::size_t set, std::size_t row) const {
    return values_.get() + ((set % sets_) * rows_ + row) * row_width;
  }
  hunch::row_view<float> view(std::size_t set, std::size_t r) const {
    return {row(set, r), vocabulary};
  }

 private:
  std::size_t rows_;
  std::size_t sets_;
  std::unique_ptr<float[]> values_;
};

using set_function = std::function<void(std::size_t)>;

/// Times functions of a set. Each call takes the next set, whoever's turn it is: it finds nothing
/// that was read lately, and no function has a part of memory of its own, of which some are slower.
/// Sets come again once all were used.
inline timings time_cold(const row_sets& sets, int rounds,
                         const std::vector<set_function>& of_set) {
  std::size_t calls = 0;
  std::vector<std::function<void()>> candidates;
  for (const set_function& f : of_set) {
    candidates.push_back([&sets, &calls, &f] { f(calls++ % sets.count()); });
  }
  return interleave(rounds, memory::as_left, candidates, turns::rotating);
}

}  // namespace bench
