// SPDX-License-Identifier: Apache-2.0
#include <bit>
#include <cstdint>
#include <cstdio>
#include <limits>
#include <string>
#include <vector>

#include <hunch/hunch.hpp>

/// \file
/// The bits that host loops compute, a line for each kind: they must not depend on the flags that a
/// program is compiled with, nor on the instructions that its processor has. Compiled many times;
/// see CMakeLists.txt and compare.cmake.

namespace {

using namespace hunch;

/// A hash of everything that one line is about.
class line {
 public:
  explicit line(std::string name) : name_(std::move(name)) {}
  ~line() { std::printf("%s %016llx\n", name_.c_str(), static_cast<unsigned long long>(hash_)); }
  line(const line&) = delete;
  line& operator=(const line&) = delete;

  void add(std::uint64_t word) {
    hash_ ^= word + 0x9e3779b97f4a7c15u + (hash_ << 6) + (hash_ >> 2);
    hash_ *= 0xff51afd7ed558ccdu;
    hash_ ^= hash_ >> 33;
  }
  void add(double x) { add(std::bit_cast<std::uint64_t>(x)); }
  void add(float x) { add(std::uint64_t{std::bit_cast<std::uint32_t>(x)}); }
  void add(std::int32_t x) { add(static_cast<std::uint64_t>(x)); }
  void add(std::int64_t x) { add(static_cast<std::uint64_t>(x)); }
  void add(const law<float>& l) {
    add(l.scale);
    add(l.maximum);
    add(l.norm);
    add(l.threshold);
    add(l.last_kept);
    add(static_cast<std::int32_t>(l.status));
  }

 private:
  std::string name_;
  std::uint64_t hash_ = 0;
};

/// Random numbers by integers alone.
struct dice {
  std::uint64_t state;

  std::uint32_t word() {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return static_cast<std::uint32_t>(state >> 33);
  }
  /// In [-1, 1), a multiple of 2^-20.
  float unit() { return static_cast<float>(word() % (1u << 21)) * 0x1p-20f - 1.0f; }
};

enum class kind { peaked, flat, tied, masked, poisoned };

std::vector<float> row_of(std::int32_t n, kind k, std::uint64_t seed) {
  constexpr float infinity = std::numeric_limits<float>::infinity();
  std::vector<float> row(static_cast<std::size_t>(n));
  dice random{seed};
  for (float& x : row) {
    const float u = random.unit() + random.unit() + random.unit();
    x = k == kind::tied ? 0.5f * static_cast<float>(random.word() % 7) : 3.0f * u;
    if (k == kind::peaked && random.word() % 997 == 0) { x += 8.0f; }
    if (k == kind::masked && random.word() % 3 != 0) { x = -infinity; }
    if (random.word() % 50 == 0) { x = random.word() % 2 == 0 ? 0.0f : -0.0f; }
  }
  if (k == kind::poisoned) {
    const float bad[] = {std::bit_cast<float>(0x7fc00001u), std::bit_cast<float>(0xffc00000u),
                         infinity};
    row[random.word() % row.size()] = bad[seed % 3];
  }
  return row;
}

using everything_sampler =
    sampler::pipeline<sampler::penalties, sampler::bias, sampler::allowed_tokens,
                      sampler::temperature, sampler::top_k, sampler::top_p, sampler::min_p>;

void laws_and_draws(std::int32_t n) {
  const std::string size = " n=" + std::to_string(n);
  line plain("laws" + size), draws("draws" + size), races("races" + size), cuts("cuts" + size),
      residuals("residuals" + size), edits("edits" + size);
  team::serial team;
  const random_source<> random;
  constexpr sampling_parameters scaled[] = {{1.0f}, {0.3f}, {7.0f}, {0.0f}};
  constexpr sampling_parameters cut[] = {
      {1.0f, 50},      {1.0f, 0, 0.9f},        {1.0f, 0, 0.999f},
      {0.7f, 0, 0.5f}, {1.0f, 0, 1.0f, 0.05f}, {0.9f, 3000, 0.95f, 0.001f}};
  std::uint64_t seed = 1;
  for (const kind k : {kind::peaked, kind::flat, kind::tied, kind::masked, kind::poisoned}) {
    std::vector<float> p_row = row_of(n, k, ++seed);
    std::vector<float> q_row = row_of(n, kind::peaked, ++seed);
    const row_view<float> view{p_row.data(), n};
    for (const sampling_parameters& with : scaled) {
      const law<float> p = everything_sampler{}(team, view, with, {});
      plain.add(p);
      if (p.status != status::ok) { continue; }
      for (std::uint32_t i = 0; i < 4; ++i) {
        draws.add(random.categorical(team, {++seed, i}, n, weights_of{p}));
        races.add(random.noisy_argmax(team, noise_address(++seed, i), p));
      }
      plain.add(p.prob(n / 3));
      const law<float> q = everything_sampler{}(team, row_view<float>{q_row.data(), n}, with, {});
      // Over everything, over the second half, and over a few ranges.
      const row_range ranges[] = {{0, n}, {n / 2, n}, {n / 8, n / 4}};
      std::vector<std::int32_t> row_of_token(static_cast<std::size_t>(n));
      for (std::int32_t t = 0; t < n; ++t) { row_of_token[static_cast<std::size_t>(t)] = t; }
      const shortlist lists[] = {{&ranges[0], 1, n, nullptr, nullptr, n},
                                 {&ranges[1], 1, n - n / 2, nullptr, row_of_token.data(), n},
                                 {&ranges[1], 1, n - n / 2, nullptr, nullptr, n}};
      for (const shortlist& list : lists) {
        kernel::noted_tokens removed(team);
        removed.add(team, n / 2);
        kernel::with_excess(p, q, list, 1.0f, 0.75f, [&](const auto& weight) {
          residuals.add(team.sum(n, weight));
          residuals.add(random.categorical(team, {++seed}, n, weight));
          const auto both = team.sum_both(n, kernel::excess_and_remainder{weight, removed});
          residuals.add(both.first);
          residuals.add(both.second);
        });
      }
    }
    for (const sampling_parameters& with : cut) {
      const law<float> p = everything_sampler{}(team, view, with, {});
      cuts.add(p);
      if (p.status == status::ok) {
        cuts.add(random.categorical(team, {++seed}, n, weights_of{p}));
      }
    }
    std::vector<std::uint32_t> allowed(static_cast<std::size_t>((n + 31) / 32));
    dice words{seed};
    for (std::uint32_t& w : allowed) { w = words.word() | words.word() << 16; }
    std::vector<token> text;
    for (int i = 0; i < 40; ++i) {
      text.push_back(static_cast<token>(words.word() % static_cast<std::uint32_t>(n)));
    }
    const token_census census(n, text, 8);
    sampling_parameters with;
    with.repetition_penalty = 1.3f;
    with.frequency_penalty = 0.1f;
    with.constrained = true;
    row_history history;
    history.committed = text.data();
    history.length = static_cast<std::int32_t>(text.size());
    history.counts = census.view();
    history.allowed = allowed.data();
    edits.add(everything_sampler{}(team, view, with, history));
    for (const float x : p_row) { edits.add(x); }
  }
}

/// A weight of any exponent that its type has among small ones.
template <class Weight>
Weight weight_of(dice& random) {
  if constexpr (std::is_same_v<Weight, float>) {
    return random.unit();
  } else if constexpr (std::is_same_v<Weight, std::int8_t>) {
    return static_cast<std::int8_t>(random.word());
  } else {
    // Exponents of 8 or 5 bits, none of which is above 1.
    const std::uint32_t sign = random.word() % 2 << 15;
    const std::uint32_t most = std::is_same_v<Weight, bfloat16> ? 0x3f80u : 0x3c00u;
    return {static_cast<std::uint16_t>(sign | random.word() % most)};
  }
}

template <class Weight>
void heads(const char* name) {
  line products(std::string("head ") + name);
  team::serial team;
  for (const std::int32_t width : {1, 63, 64, 200, 1024}) {
    constexpr std::int32_t rows = 75;
    dice random{static_cast<std::uint64_t>(width)};
    std::vector<Weight> weights(static_cast<std::size_t>(rows * width));
    for (Weight& w : weights) { w = weight_of<Weight>(random); }
    std::vector<float> hidden(static_cast<std::size_t>(width));
    for (float& x : hidden) { x = random.unit(); }
    const kernel::head_weights<Weight> head{weights.data(), rows, width};
    std::vector<float> logits(static_cast<std::size_t>(rows));
    kernel::gemv(team, head, hidden.data(), logits.data());
    for (const float x : logits) { products.add(x); }
    const row_range ranges[] = {{3, 5}, {20, 41}, {60, rows}};
    const shortlist list{ranges, 3, 2 + 21 + rows - 60, nullptr, nullptr, rows};
    kernel::range_gemv(team, head, list, hidden.data(), {logits.data(), list.size});
    for (std::int32_t i = 0; i < list.size; ++i) {
      products.add(logits[static_cast<std::size_t>(i)]);
    }
  }
}

}  // namespace

int main(int argc, char**) {
  for (const std::int32_t n : {1, 31, 4096, 4097, 32003, 128256, 300000}) { laws_and_draws(n); }
  heads<float>("float");
  heads<bfloat16>("bfloat16");
  heads<float16>("float16");
  heads<std::int8_t>("int8");
  // With an argument it prints something else, for the control.
  line("arguments").add(argc - 1);
}
