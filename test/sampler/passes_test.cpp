// SPDX-License-Identifier: Apache-2.0

// How often a sampler reads a row: samples of it tell where it is cut, whatever it is like.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include <doctest/doctest.h>

#include <hunch/sampler/pipeline.hpp>
#include <hunch/sampler/temperature.hpp>
#include <hunch/sampler/top_k.hpp>
#include <hunch/sampler/top_p.hpp>
#include <hunch/team/serial.hpp>
#include "../support/hash.hpp"

namespace hunch::test {
namespace {

constexpr std::int32_t vocab = 131072;

/// A thread that counts the elements that it is asked for.
struct counting : team::serial {
  std::int64_t elements = 0;

  template <class F>
  double sum(std::int64_t n, const F& f) {
    elements += n;
    return serial::sum(n, f);
  }
  template <class T, class F, class Op>
  T reduce(std::int64_t n, T identity, const F& f, const Op& op) {
    elements += n;
    return serial::reduce(n, identity, f, op);
  }
  template <class Keep, class F>
  std::int32_t compact(std::int64_t n, const Keep& keep, const F& f, std::int32_t capacity) {
    elements += n;
    return serial::compact(n, keep, f, capacity);
  }
  template <class Terms>
  auto soft_sum(std::int64_t n, const Terms& terms) {
    elements += n;
    return serial::soft_sum(n, terms);
  }
};

static_assert(Team<counting>);

/// Logits with a tail like that of a normal distribution, and what `peak` makes of them.
template <class Peak>
std::vector<float> row_of(const Peak& peak) {
  std::vector<float> row(vocab);
  dice random{71};
  for (float& x : row) {
    double sum = -6.0;
    for (int i = 0; i < 12; ++i) { sum += random.unit(); }
    x = static_cast<float>(sum);
  }
  peak(row);
  return row;
}

/// Passes over the row that a law takes, and what it keeps.
struct cost {
  double passes;
  std::int64_t kept;
};

cost cost_of(const std::vector<float>& row, const sampling_parameters& with) {
  const sampler::pipeline sampler{sampler::temperature{}, sampler::top_k{}, sampler::top_p{}};
  counting team;
  std::vector<float> copy = row;
  const law<float> l = sampler(team, row_view<float>{copy.data(), vocab}, with, {});
  CHECK(l.status == status::ok);
  cost c{static_cast<double>(team.elements) / vocab, 0};
  for (std::int32_t i = 0; i < vocab; ++i) { c.kept += l.keeps(i) ? 1 : 0; }
  return c;
}

const auto nothing = [](std::vector<float>&) {};
const auto one_peak = [](std::vector<float>& row) { row[77] = 30.0f; };
const auto two_peaks = [](std::vector<float>& row) {
  row[77] = 100.0f;
  row[999] = 98.0f;
};
const auto masked = [](std::vector<float>& row) {
  for (std::size_t i = 0; i < row.size(); ++i) {
    if (i % 10 != 0) { row[i] = -std::numeric_limits<float>::infinity(); }
  }
  row[70] = 20.0f;
};

TEST_CASE("top-k reads a row a few times, however peaked it is and wherever the cut lies") {
  for (const auto& row : {row_of(nothing), row_of(one_peak), row_of(two_peaks), row_of(masked)}) {
    for (const float t : {1.0f, 0.5f, 0.1f, 0.02f}) {
      for (const std::int32_t k : {1, 50, 1000, 5000, 13000, vocab / 2, vocab - 10}) {
        CAPTURE(row[70]);
        CAPTURE(t);
        CAPTURE(k);
        const cost c = cost_of(row, {t, k, 1.0f});
        CHECK(c.passes < 16.0);
        const auto possible = std::ranges::count_if(row, [](float x) { return x > -1e30f; });
        if (possible > k) { CHECK(c.kept == k); }
      }
    }
  }
}

TEST_CASE("top-p reads a row a few times, however little it leaves out") {
  const float below_one = 1.0f - 0x1.0p-24f;
  for (const auto& row : {row_of(nothing), row_of(one_peak), row_of(two_peaks), row_of(masked)}) {
    for (const float t : {1.0f, 0.5f, 0.1f, 0.02f}) {
      std::int64_t before = 0;
      for (const float p : {0.5f, 0.9f, 0.999f, 0.999999f, 0.9999998f, below_one}) {
        CAPTURE(row[70]);
        CAPTURE(t);
        CAPTURE(p);
        const cost c = cost_of(row, {t, 0, p});
        CHECK(c.passes < 16.0);
        CHECK(c.kept >= before);
        before = c.kept;
      }
    }
  }
}

}  // namespace
}  // namespace hunch::test
