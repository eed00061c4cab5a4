// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <random>
#include <vector>

#include <engine/attention.hpp>
#include <engine/simd.hpp>

/// Queries that attend together, against arithmetic in double precision, and against themselves
/// alone.

namespace {

using engine::attention_query;
using engine::attention_run;

/// Keys and values of a head, and queries of it.
struct attended {
  int head_dim;
  int padded;
  std::vector<float> keys;
  std::vector<float> values;
  std::vector<float> queries;
  std::vector<float> out;
  std::vector<float> scratch;
  std::vector<attention_query> asked;

  attended(int dim, int positions, const std::vector<int>& lengths, int first = 0)
      : head_dim{dim},
        padded{engine::round_up(dim, engine::lanes)},
        keys(static_cast<std::size_t>(engine::round_up(positions, engine::lanes) * dim)),
        values(static_cast<std::size_t>(engine::round_up(positions, engine::lanes) * padded)),
        queries(lengths.size() * static_cast<std::size_t>(dim)),
        out(queries.size()),
        scratch(engine::attention_scratch(positions, padded)) {
    std::mt19937 random(static_cast<unsigned>(dim * 1000 + positions));
    std::normal_distribution<float> normal;
    for (std::vector<float>* of : {&keys, &values, &queries}) {
      for (float& x : *of) { x = normal(random); }
    }
    for (std::size_t i = 0; i < lengths.size(); ++i) {
      const auto at = static_cast<std::ptrdiff_t>(i) * dim;
      asked.push_back({.query = queries.data() + at,
                       .out = out.data() + at,
                       .length = lengths[i],
                       .first = std::min(first, lengths[i] - 1)});
    }
  }

  attention_run run() const { return {keys.data(), values.data(), head_dim, padded}; }
  double key(int position, int d) const {
    const int block = position / engine::lanes;
    return keys[static_cast<std::size_t>((block * head_dim + d) * engine::lanes +
                                         position % engine::lanes)];
  }
  void spoil(int position, float by) {
    for (int d = 0; d < head_dim; ++d) {
      const int block = position / engine::lanes;
      keys[static_cast<std::size_t>((block * head_dim + d) * engine::lanes +
                                    position % engine::lanes)] = by;
      values[static_cast<std::size_t>(position * padded + d)] = by;
    }
  }
  std::vector<double> expected(const attention_query& q) const {
    std::vector<double> weights;
    for (int p = q.first; p < q.length; ++p) {
      double score = 0;
      for (int d = 0; d < head_dim; ++d) { score += key(p, d) * double{q.query[d]}; }
      weights.push_back(score);
    }
    const double top = *std::max_element(weights.begin(), weights.end());
    double sum = 0;
    for (double& w : weights) { sum += w = std::exp(w - top); }
    std::vector<double> out_of(static_cast<std::size_t>(head_dim));
    for (int p = q.first; p < q.length; ++p) {
      for (int d = 0; d < head_dim; ++d) {
        out_of[static_cast<std::size_t>(d)] +=
            weights[static_cast<std::size_t>(p - q.first)] / sum *
            double{values[static_cast<std::size_t>(p * padded + d)]};
      }
    }
    return out_of;
  }
};

/// A chain's rows with two heads each, rows of a tree, and more than are attended together.
std::vector<std::vector<int>> length_lists() {
  std::vector<int> many;
  for (int i = 0; i < 37; ++i) { many.push_back(1 + i * 19); }
  return {{1},
          {16, 16},
          {300, 300, 301, 301, 302, 302},
          {131, 131, 130, 132, 131},
          {700, 1, 64, 65, 513, 640, 128, 129},
          many};
}

}  // namespace

TEST_CASE(
    "attention is that of its definition, and every query's bits are those that it has alone") {
  for (const int dim : {8, 16, 24, 32, 48, 128}) {
    for (const std::vector<int>& lengths : length_lists()) {
      for (const int first : {0, 1}) {
        attended all(dim, 720, lengths, first);
        engine::attend(all.run(), all.asked, all.scratch.data());
        const std::vector<float> together = all.out;
        for (std::size_t i = 0; i < lengths.size(); ++i) {
          CAPTURE(dim);
          CAPTURE(lengths.size());
          CAPTURE(lengths[i]);
          const std::vector<double> expected = all.expected(all.asked[i]);
          std::fill(all.out.begin(), all.out.end(), -1.0f);
          engine::attend(all.run(), {&all.asked[i], 1}, all.scratch.data());
          for (int d = 0; d < dim; ++d) {
            const std::size_t at = i * static_cast<std::size_t>(dim) + static_cast<std::size_t>(d);
            CHECK(together[at] ==
                  doctest::Approx(expected[static_cast<std::size_t>(d)]).epsilon(2e-5).scale(1));
            CHECK(together[at] == all.out[at]);
          }
        }
      }
    }
  }
}

TEST_CASE("a bad position reaches the queries that read it, and no others") {
  attended all(32, 320, {200, 200, 201, 201, 202, 202, 203, 203, 300});
  engine::attend(all.run(), all.asked, all.scratch.data());
  const std::vector<float> good = all.out;
  for (const float bad :
       {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    all.spoil(201, bad);
    engine::attend(all.run(), all.asked, all.scratch.data());
    for (std::size_t i = 0; i < all.out.size(); ++i) {
      CAPTURE(i);
      if (all.asked[i / 32].length <= 201) {
        CHECK(all.out[i] == good[i]);
      } else {
        CHECK(std::isnan(all.out[i]));
      }
    }
  }
}
