// SPDX-License-Identifier: Apache-2.0

// Whatever is made of a row of 16-bit logits has the bits of what is made of a copy of it in float.

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include <doctest/doctest.h>

#include <hunch/core/logit.hpp>
#include <hunch/distribution/detail/rank_of.hpp>
#include <hunch/distribution/detail/token_set.hpp>
#include <hunch/distribution/entropy.hpp>
#include <hunch/distribution/log_probabilities.hpp>
#include <hunch/distribution/random.hpp>
#include <hunch/distribution/residual.hpp>
#include <hunch/distribution/restrict.hpp>
#include <hunch/draft/draft_evidence.hpp>
#include <hunch/draft/draw_children.hpp>
#include <hunch/draft/rank_children.hpp>
#include <hunch/sampler/greedy.hpp>
#include <hunch/team/serial.hpp>
#include <hunch/team/simulated.hpp>
#include "../support/hash.hpp"
#include "../support/stages.hpp"

namespace hunch::test {
namespace {

enum class row_kind {
  flat,     ///< logits close to each other
  peaked,   ///< a few far above all others
  tied,     ///< few distinct logits
  sparse,   ///< most are -inf
  strange,  ///< any finite number of the type
  nothing,  ///< nothing but -inf
  broken,   ///< a NaN
  infinite  ///< a +inf
};
constexpr row_kind kinds[] = {row_kind::flat,   row_kind::peaked,  row_kind::tied,
                              row_kind::sparse, row_kind::strange, row_kind::nothing,
                              row_kind::broken, row_kind::infinite};

constexpr float infinity = std::numeric_limits<float>::infinity();

template <class Half>
std::vector<Half> row_of(std::int32_t n, row_kind kind, std::uint64_t seed) {
  std::vector<Half> row(static_cast<std::size_t>(n));
  dice random{seed + 1000 * static_cast<std::uint64_t>(kind)};
  for (Half& x : row) {
    const auto value = static_cast<float>(6.0 * random.unit() - 3.0);
    x = to_logit<Half>(value);
    switch (kind) {
      case row_kind::peaked:
        x = to_logit<Half>(random.below(200) == 0 ? 12.0f + value : value);
        break;
      case row_kind::tied:
        x = to_logit<Half>(0.5f * static_cast<float>(random.below(4)));
        break;
      case row_kind::sparse:
        x = to_logit<Half>(random.below(3) > 0 ? -infinity : value);
        break;
      case row_kind::strange:
        x.bits = static_cast<std::uint16_t>(random.next());
        if (!(to_float(x) > -infinity && to_float(x) < infinity)) { x.bits = 0x8001; }
        break;
      case row_kind::nothing:
        x = to_logit<Half>(-infinity);
        break;
      default:
        break;
    }
  }
  const auto at = static_cast<std::size_t>(n / 3);
  if (kind == row_kind::broken) {
    row[at] = to_logit<Half>(-std::numeric_limits<float>::quiet_NaN());
  }
  if (kind == row_kind::infinite) { row[at] = to_logit<Half>(infinity); }
  if (kind == row_kind::sparse) { row[at] = to_logit<Half>(1.5f); }
  return row;
}

template <class Half>
std::vector<float> float_copy(const std::vector<Half>& row) {
  std::vector<float> copy;
  for (const Half x : row) { copy.push_back(to_float(x)); }
  return copy;
}

using bits = std::vector<std::uint64_t>;

void note(bits& out, double x) { out.push_back(std::bit_cast<std::uint64_t>(x)); }
template <std::integral I>
void note(bits& out, I i) {
  out.push_back(static_cast<std::uint64_t>(i));
}
template <class Logit>
void note(bits& out, const law<Logit>& l) {
  static_assert(std::same_as<typename law<Logit>::real, float>);
  for (const float x : {l.scale, l.maximum, l.norm, l.threshold}) {
    note(out, std::bit_cast<std::uint32_t>(x));
  }
  note(out, l.last_kept);
  note(out, static_cast<std::int32_t>(l.status));
}

using law_sampler =
    sampler::pipeline<sampler::temperature, sampler::top_k, sampler::top_p, sampler::min_p>;

/// Temperature, top-k, top-p, min-p; the last at temperature 0.
constexpr sampling_parameters restrictions[] = {
    {1.0f, 0, 1.0f, 0.0f},   {0.7f, 1, 1.0f, 0.0f},    {1.0f, 5, 1.0f, 0.0f},
    {2.5f, 400, 1.0f, 0.0f}, {1.0f, 0, 0.3f, 0.0f},    {1.3f, 0, 0.999f, 0.0f},
    {0.8f, 0, 1.0f, 0.1f},   {0.9f, 40, 0.95f, 0.01f}, {0.0f, 0, 1.0f, 0.0f}};

/// Residuals of p against q over a list, and what verifiers ask of them.
template <Team T, class Logit>
void note_residuals(bits& out, T& team, const law<Logit>& p, const law<Logit>& q,
                    const shortlist& list) {
  kernel::with_residual(p, q, list, 1.0f, 1.5f, [&](const auto& weight) {
    note(out, team.sum(p.size(), weight));
    kernel::token_set removed(team);
    removed.add(team, p.size() / 2);
    const team::two_sums both =
        team.sum_both(p.size(), kernel::residual_and_remainder{weight, removed});
    note(out, both.first);
    note(out, both.second);
    for (std::uint64_t seed = 0; seed < 2; ++seed) {
      note(out, random_source<>{}.categorical(team, {seed}, p.size(), weight));
    }
    return 0;
  });
}

/// What a rank sees of the operations on rows p and q of one length.
template <Team T, class Logit>
bits operations(T& team, const std::vector<Logit>& p_row, const std::vector<Logit>& q_row) {
  bits out;
  const auto n = static_cast<std::int32_t>(p_row.size());
  const row_view<Logit> p_view{const_cast<Logit*>(p_row.data()), n};
  const row_view<Logit> q_view{const_cast<Logit*>(q_row.data()), n};
  const row_range whole{0, n};
  const shortlist everything{&whole, 1, n, nullptr, nullptr, n};
  const row_range upper{n / 2, n};
  const shortlist part{&upper, 1, n - n / 2, nullptr, nullptr, n};
  note(out, sampler::greedy{}(team, p_view, {}, {}));
  for (const sampling_parameters& with : restrictions) {
    const law<Logit> p = law_sampler{}(team, p_view, with, {});
    note(out, p);
    if (p.status != status::ok) { continue; }
    for (const std::int32_t i : {0, n / 3, n - 1}) {
      note(out, std::bit_cast<std::uint32_t>(p.prob(i)));
      note(out, std::bit_cast<std::uint32_t>(kernel::log_probability(p, i)));
    }
    for (std::uint64_t seed = 0; seed < 3; ++seed) {
      const std::uint64_t word = seed == 2 ? ~std::uint64_t(0) : mix(seed);
      note(out, kernel::draw(team, n, weights_of{p}, word));
      note(out, random_source<>{}.noisy_argmax(team, noise_address(seed, 7), p));
      note(out, random_source<>{}.noisy_argmax(team, noise_address(seed, 8), p, everything));
    }
    note(out, kernel::entropy(team, p));
    note(out, kernel::rank_of(team, p, n / 3));
    const law<Logit> q = law_sampler{}(team, q_view, with, {});
    if (q.status == status::ok) {
      note(out, q);
      note_residuals(out, team, p, q, everything);
    }
    const law<Logit> over_part =
        law_sampler{}(team, row_view<Logit>{q_view.data + n / 2, part.size}, with, {});
    if (over_part.status == status::ok) {
      note(out, over_part);
      note_residuals(out, team, p, over_part, part);
      note(out, random_source<>{}.noisy_argmax(team, noise_address(3, 9), over_part, part));
    }
  }
  return out;
}

/// What all ranks have written of the bodies that work on a law: log-probabilities, evidence,
/// children that are drawn and ranked.
template <class Logit>
struct bodies {
  static constexpr std::int32_t top = 4;
  static constexpr std::int32_t children = 3;

  explicit bodies(const std::vector<Logit>& of)
      : row(of), best(static_cast<std::size_t>((team::tiles_of(size()) + 1) * children)) {}

  std::int32_t size() const { return static_cast<std::int32_t>(row.size()); }

  template <Team T>
  void run(T& team, const sampling_parameters& with) {
    const row_range whole{0, size()};
    const shortlist everything{&whole, 1, size(), nullptr, nullptr, size()};
    const row_view<Logit> view{row.data(), size()};
    const law_sampler sampler;
    kernel::draw_row<children>(team, sampler, child_draw<random_source<>, false>{},
                               kernel::draft_row<Logit>{.logits = view,
                                                        .list = everything,
                                                        .parameters = with,
                                                        .history = {},
                                                        .where = {.seed = 5},
                                                        .position = 3,
                                                        .drawn_from = &drawn_from,
                                                        .drawn_at = drawn_at,
                                                        .drawn = drawn,
                                                        .count = children});
    team.sync();
    if (drawn_from.status == status::ok) {
      const kernel::log_probability_task<Logit> asked{&drawn_from, size() / 3, top, reported};
      kernel::report_log_probabilities<Logit>{&asked}(team, 0);
    }
    const kernel::evidence_task<Logit> evidence{&drawn_from, drawn_at, &probability, &nats};
    kernel::report_evidence<Logit>{&evidence}(team, 0);
    kernel::rank_row(team, sampler,
                     kernel::ranked_row<Logit>{.logits = view,
                                               .list = everything,
                                               .parameters = with,
                                               .history = {},
                                               .value = 0.0f,
                                               .count = children,
                                               .best = best.data(),
                                               .ranked_by = &ranked_by,
                                               .children = ranked,
                                               .values = values});
    team.sync();
  }

  bits seen() const {
    bits out;
    note(out, drawn_from);
    note(out, ranked_by);
    note(out, probability);
    note(out, nats);
    for (const token_log_probability& t : reported) {
      note(out, t.t);
      note(out, std::bit_cast<std::uint32_t>(t.log_probability));
    }
    for (std::int32_t c = 0; c < children; ++c) {
      note(out, drawn[c]);
      note(out, drawn_at[c]);
      note(out, ranked[c]);
      note(out, std::bit_cast<std::uint32_t>(values[c]));
    }
    return out;
  }

  std::vector<Logit> row;
  std::vector<std::int64_t> best;
  law<Logit> drawn_from;
  law<Logit> ranked_by;
  token_log_probability reported[1 + top];
  double probability = 0.0;
  double nats = 0.0;
  std::int32_t drawn_at[children] = {};
  token drawn[children] = {};
  token ranked[children] = {};
  float values[children] = {};
};

struct team_shape {
  std::int32_t blocks;
  std::int32_t ranks;
};
constexpr team_shape shapes[] = {{1, 1}, {1, 3}, {1, 8}, {2, 2}};
constexpr std::int32_t sizes[] = {1, 3, 40, 1500, 4096, 4097, 32001};

template <class Logit>
bits operations_by(const team_shape& shape, const std::vector<Logit>& p,
                   const std::vector<Logit>& q) {
  std::vector<bits> seen(static_cast<std::size_t>(shape.blocks * shape.ranks));
  team::simulated::launch(shape.blocks, shape.ranks, 1, [&](team::simulated& team, std::int32_t) {
    seen[static_cast<std::size_t>(team.rank())] = operations(team, p, q);
  });
  CHECK(std::ranges::all_of(seen, [&](const bits& b) { return b == seen[0]; }));
  return seen[0];
}

TEST_CASE_TEMPLATE("laws and what is drawn from them", Half, bfloat16, float16) {
  for (const std::int32_t n : sizes) {
    for (const row_kind kind : kinds) {
      CAPTURE(n);
      CAPTURE(static_cast<int>(kind));
      const auto p = row_of<Half>(n, kind, 1);
      const auto q = row_of<Half>(n, kind, 2);
      team::serial serial;
      const bits expected = operations(serial, float_copy(p), float_copy(q));
      CHECK(operations(serial, p, q) == expected);
      for (const team_shape& shape : shapes) {
        // Teams of threads crawl over long rows where they have few processors.
        const bool rare = kind == row_kind::peaked || kind == row_kind::sparse;
        if (n > 1500 && (shape.ranks > 3 || !rare)) { continue; }
        CHECK(operations_by(shape, p, q) == expected);
      }
    }
  }
}

TEST_CASE_TEMPLATE("a row that is not aligned for loads of four", Half, bfloat16, float16) {
  for (const std::int32_t n : {1500, 4097}) {
    const auto p = row_of<Half>(n, row_kind::peaked, 3);
    std::vector<Half> moved{Half{}};
    moved.insert(moved.end(), p.begin(), p.end());
    const auto law_of = [n](auto& team, auto* row) {
      bits out;
      using logit = std::remove_pointer_t<decltype(row)>;
      for (const sampling_parameters& with : restrictions) {
        note(out, law_sampler{}(team, row_view<logit>{row, n}, with, {}));
      }
      return out;
    };
    auto copy = float_copy(p);
    team::serial serial;
    const bits expected = law_of(serial, copy.data());
    CHECK(law_of(serial, moved.data() + 1) == expected);
    team::simulated::launch(1, 2, 1, [&](team::simulated& team, std::int32_t) {
      const bits found = law_of(team, moved.data() + 1);
      if (team.rank() == 0) { CHECK(found == expected); }
    });
  }
}

TEST_CASE_TEMPLATE("log-probabilities, evidence, children", Half, bfloat16, float16) {
  for (const std::int32_t n : sizes) {
    for (const row_kind kind : kinds) {
      for (const sampling_parameters& with : {restrictions[0], restrictions[7], restrictions[8]}) {
        CAPTURE(n);
        CAPTURE(static_cast<int>(kind));
        const auto row = row_of<Half>(n, kind, 4);
        team::serial serial;
        bodies<float> copy(float_copy(row));
        copy.run(serial, with);
        bodies<Half> half(row);
        half.run(serial, with);
        CHECK(half.seen() == copy.seen());
        bodies<Half> by_threads(row);
        team::simulated::launch(
            2, 2, 1, [&](team::simulated& team, std::int32_t) { by_threads.run(team, with); });
        CHECK(by_threads.seen() == copy.seen());
      }
    }
  }
}

TEST_CASE_TEMPLATE("the last bit of one logit is seen", Half, bfloat16, float16) {
  for (const std::int32_t n : sizes) {
    auto p = row_of<Half>(n, row_kind::flat, 5);
    const auto q = row_of<Half>(n, row_kind::flat, 6);
    team::serial serial;
    const bits expected = operations(serial, float_copy(p), float_copy(q));
    REQUIRE(operations(serial, p, q) == expected);
    p[static_cast<std::size_t>(n / 3)].bits ^= 1u;
    CHECK(operations(serial, p, q) != expected);
  }
}

}  // namespace
}  // namespace hunch::test
