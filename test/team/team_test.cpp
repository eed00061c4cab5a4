// SPDX-License-Identifier: Apache-2.0

// Every kernel body gives the same bits on one thread and on a team of threads with a barrier.
// Built a second time under ThreadSanitizer, where the same runs show that no barrier is missing.

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>
#include <vector>

#include <doctest/doctest.h>

#include <hunch/decoder/token_census.hpp>
#include <hunch/distribution/detail/noisy_argmax.hpp>
#include <hunch/distribution/log_probabilities.hpp>
#include <hunch/distribution/random.hpp>
#include <hunch/distribution/residual.hpp>
#include <hunch/draft/draw_children.hpp>
#include <hunch/draft/rank_children.hpp>
#include <hunch/executor/host.hpp>
#include <hunch/head/range_gemv.hpp>
#include <hunch/sampler/greedy.hpp>
#include <hunch/sampler/pipeline.hpp>
#include <hunch/sampler/temperature.hpp>
#include <hunch/sampler/top_k.hpp>
#include <hunch/sampler/top_p.hpp>
#include <hunch/team/simulated.hpp>
#include <hunch/verifier/block.hpp>
#include <hunch/verifier/coupled.hpp>
#include <hunch/verifier/greedy.hpp>
#include <hunch/verifier/point_mass.hpp>
#include <hunch/verifier/rejection.hpp>
#include <hunch/verifier/top_k.hpp>
#include <hunch/verifier/typical.hpp>
#include <hunch/verifier/verify_rows.hpp>
#include <hunch/vocab/layouts.hpp>
#include "../support/hash.hpp"
#include "../support/stages.hpp"
#include "../support/thread_launch.hpp"

namespace hunch::test {
namespace {

/// A team of one block of threads, or of a cluster of them.
struct team_shape {
  std::int32_t blocks;
  std::int32_t ranks;  ///< of a block
  std::size_t size() const { return static_cast<std::size_t>(blocks * ranks); }

  template <class Body>
  void launch(std::int32_t count, const Body& body) const {
    launch_threads(blocks, ranks, count, body);
  }
};

#if defined(__SANITIZE_THREAD__)
constexpr std::int32_t sizes[] = {1, 33, 129, 1025, 4097};
constexpr team_shape shapes[] = {{1, 2}, {1, 32}, {3, 4}};
constexpr std::int32_t rule_sizes[] = {33, 4100};
constexpr team_shape rule_shapes[] = {{1, 2}, {1, 7}, {2, 3}};
#else
constexpr std::int32_t sizes[] = {1, 2, 31, 32, 33, 127, 128, 129, 1023, 1025, 4097, 8193, 32000};
constexpr team_shape shapes[] = {{1, 1}, {1, 2}, {1, 3}, {1, 7}, {1, 32}, {2, 1}, {3, 2}, {8, 4}};
constexpr std::int32_t rule_sizes[] = {1, 2, 33, 129, 1025, 4097};
constexpr team_shape rule_shapes[] = {{1, 1}, {1, 3}, {1, 32}, {4, 2}};
#endif

using sampler_type = sampler::pipeline<sampler::temperature, sampler::top_k, sampler::top_p>;

enum class row_kind { smooth, tied, sparse };
constexpr row_kind kinds[] = {row_kind::smooth, row_kind::tied, row_kind::sparse};

std::vector<float> row_of(std::int32_t n, row_kind kind, std::uint64_t seed) {
  std::vector<float> row(static_cast<std::size_t>(n));
  dice random{seed};
  for (float& x : row) {
    x = kind == row_kind::smooth ? static_cast<float>(8.0 * random.unit())
                                 : static_cast<float>(random.below(5)) * 0.5f;
    if (kind == row_kind::sparse && random.below(3) > 0) {
      x = -std::numeric_limits<float>::infinity();
    }
  }
  row[static_cast<std::size_t>(n / 2)] = 1.0f;
  return row;
}

using bits = std::vector<std::uint64_t>;

void note(bits& out, double x) { out.push_back(std::bit_cast<std::uint64_t>(x)); }
void note(bits& out, const law<float>& l) {
  note(out, l.scale);
  note(out, l.maximum);
  note(out, l.norm);
  note(out, l.threshold);
  out.push_back(static_cast<std::uint64_t>(l.last_kept));
  out.push_back(static_cast<std::uint64_t>(l.status));
}

constexpr sampling_parameters parameters[] = {
    {1.0f, 0, 1.0f}, {0.7f, 5, 1.0f}, {1.3f, 0, 0.8f}, {0.9f, 40, 0.95f}, {0.0f, 0, 1.0f}};

/// All collective operations on rows p and q; what this rank saw of them.
template <Team T>
bits operations(T& team, const std::vector<float>& p_row, const std::vector<float>& q_row) {
  bits out;
  const auto n = static_cast<std::int32_t>(p_row.size());
  const float* p_data = p_row.data();
  note(out, team.sum(n, [=](std::int64_t i) { return std::max(p_data[i], -50.0f); }));
  note(out,
       team.sum(n, [=](std::int64_t i) { return kernel::product(static_cast<double>(i), 0.1); }));
  out.push_back(static_cast<std::uint64_t>(team.reduce(
      n, -1, [=](std::int64_t i) { return p_data[i] == 1.0f ? int(i) : -1; },
      [](int a, int b) { return std::max(a, b); })));
  out.push_back(static_cast<std::uint64_t>(team.reduce_where(
      n, -1, [](std::int64_t tile) { return 0.5f + static_cast<float>(tile % 3); },
      [=](std::int64_t i, float least) { return p_data[i] >= least; },
      [](std::int64_t i) { return int(i); }, [](int a, int b) { return std::max(a, b); })));
  out.push_back(static_cast<std::uint64_t>(team.broadcast(team.rank() + 17, team.size() - 1) -
                                           team.size() + 1));
  const sampler_type sampler;
  for (const sampling_parameters& with : parameters) {
    const law<float> p = sampler(team, row_view<float>{const_cast<float*>(p_data), n}, with, {});
    const law<float> q =
        sampler(team, row_view<float>{const_cast<float*>(q_row.data()), n}, with, {});
    note(out, p);
    const row_range whole{0, n};
    const shortlist everything{&whole, 1, n, nullptr, nullptr, n};
    const row_range half{n / 2, n};
    const shortlist part{&half, 1, n - n / 2, nullptr, nullptr, n};
    for (std::uint64_t seed = 0; seed < 3; ++seed) {
      const std::uint64_t word = seed == 2 ? ~std::uint64_t(0) : mix(seed);
      out.push_back(static_cast<std::uint64_t>(kernel::draw(
          team, n, [=](std::int64_t i) { return p.weight(i); }, word)));
      out.push_back(static_cast<std::uint64_t>(
          random_source<>{}.noisy_argmax(team, noise_address(seed, 7), p)));
      for (const shortlist& list : {everything, part}) {
        const law<float> over_list = sampler(
            team,
            row_view<float>{const_cast<float*>(q_row.data()) + list.ranges[0].begin, list.size},
            with, {});
        out.push_back(static_cast<std::uint64_t>(
            random_source<>{}.noisy_argmax(team, noise_address(seed, 7), over_list, list)));
        out.push_back(static_cast<std::uint64_t>(
            kernel::with_residual(p, q, list, 1.0f, 1.0f, [&](const auto& weight) {
              return random_source<>{}.categorical(team, {seed}, n, weight);
            })));
      }
    }
  }
  return out;
}

/// One rank tells the others something, and may forget that they have to wait.
struct tells {
  bool waits;
  std::int32_t* told;
  std::int32_t* heard;  ///< by the last rank

  template <Team T>
  void operator()(T& team, std::int32_t) const {
    if (team.rank() == 0) { *told = 1; }
    if (waits) { team.sync(); }
    if (team.rank() + 1 == team.size()) { *heard = *told; }
  }
};

#if HUNCH_TEAMS_BY_TURNS
TEST_CASE("where ranks take turns, a missing barrier is seen in one of two launches") {
  for (const auto& [blocks, ranks] : {team_shape{1, 2}, {1, 4}, {2, 3}}) {
    for (const bool waits : {true, false}) {
      std::int32_t heard[2];
      for (std::int32_t& h : heard) {
        std::int32_t told = 0;
        team::simulated::launch(blocks, ranks, 1, tells{waits, &told, &h});
      }
      CHECK(heard[0] + heard[1] == (waits ? 2 : 1));
    }
  }
}
#endif

/// Parts without a group tell nobody so.
class silent_threads : public team::detail::host_threads {
 public:
  using host_threads::host_threads;
  void begin_groups(std::int32_t groups, std::int32_t each) { expect(groups * each); }
};

/// Whether all ranks of three parts have the right sums, one after the other, of a single group:
/// only one part tells something of it, and goes on.
template <class Machine>
bool sums_of_one_group_are_right() {
  constexpr std::int32_t parts = 3;
  bool right[parts];
  team::detail::host_threads::storage shared(parts, 1);
  team::detail::run_ranks(parts, [&](std::int32_t rank) {
    team::cooperative<Machine> team{Machine(shared, rank)};
    right[rank] = true;
    for (std::int32_t k = 1; k <= 5; ++k) {
      const double sum = team.sum(7, [&](std::int64_t) { return static_cast<float>(k); });
      right[rank] = right[rank] && sum == 7.0 * k;
    }
    team.sync();
  });
  return std::ranges::all_of(right, [](bool r) { return r; });
}

TEST_CASE("parts hear of all others before one tells a third sum") {
  CHECK(sums_of_one_group_are_right<team::detail::host_threads>());
#if HUNCH_TEAMS_BY_TURNS
  CHECK_FALSE(sums_of_one_group_are_right<silent_threads>());  // the negative control
#endif
}

TEST_CASE("sums, maxima, laws and draws") {
  for (const std::int32_t n : sizes) {
    for (const row_kind kind : kinds) {
      const auto p = row_of(n, kind, 1);
      const auto q = row_of(n, kind, 2);
      team::serial serial;
      const bits expected = operations(serial, p, q);
      for (const team_shape& shape : shapes) {
        CAPTURE(n);
        CAPTURE(shape.blocks);
        CAPTURE(shape.ranks);
        std::vector<bits> seen(shape.size());
        shape.launch(1, [&](team::simulated& team, std::int32_t) {
          seen[static_cast<std::size_t>(team.rank())] = operations(team, p, q);
        });
        CHECK(std::ranges::all_of(seen, [&](const bits& b) { return b == expected; }));
      }
    }
  }
}

/// Residuals against a draft law over some clusters of a permuted vocabulary: sums of them, their
/// sums beside q's weights, and a draw. \param use the positions of tokens that the test looked up.
template <Team T>
bits residuals(T& team, const std::vector<float>& p_row, const std::vector<float>& q_row,
               const shortlist& list, const std::int32_t* use) {
  bits out;
  const auto n = static_cast<std::int32_t>(p_row.size());
  for (const sampling_parameters& with : {parameters[0], parameters[1]}) {
    const sampler_type sampler;
    const law<float> p =
        sampler(team, row_view<float>{const_cast<float*>(p_row.data()), n}, with, {});
    const law<float> q =
        sampler(team, row_view<float>{const_cast<float*>(q_row.data()), list.size}, with, {});
    for (const float taken : {1.0f, 2.5f}) {
      kernel::with_residual(p, q, list, 1.0f, taken, [&](const auto& weight) {
        const auto first = [&](std::int64_t v) { return weight.of(p.weight(v), use[v]); };
        const auto both = [&](std::int64_t v) {
          const std::int32_t at = use[v];
          return team::two_terms<float>{first(v), at < 0 ? 0.0f : q.weight(at)};
        };
        note(out, use == nullptr ? team.sum(n, weight) : team.sum(n, first));
        const kernel::token_set none(team);
        const team::two_sums sums =
            use == nullptr ? team.sum_both(n, kernel::residual_and_remainder{weight, none})
                           : team.sum_both(n, both);
        note(out, sums.first);
        note(out, sums.second);
        out.push_back(static_cast<std::uint64_t>(
            use == nullptr ? random_source<>{}.categorical(team, {3}, n, weight)
                           : random_source<>{}.categorical(team, {3}, n, first)));
        return 0;
      });
    }
  }
  return out;
}

TEST_CASE("residuals over clusters, with and without a search for positions") {
  for (const std::int32_t n : sizes) {
    dice random{static_cast<std::uint64_t>(n)};
    std::vector<std::int32_t> cluster(static_cast<std::size_t>(n));
    for (std::int32_t& c : cluster) { c = random.below(9); }
    const vocab_layout layout = clustered_layout(cluster);
    std::vector<row_range> ranges;
    for (std::int32_t c = 0; c < layout.clusters(); c += 2) {
      ranges.push_back({layout.cluster_begin()[c], layout.cluster_begin()[c + 1]});
    }
    const auto count = static_cast<std::int32_t>(ranges.size());
    std::vector<std::int32_t> shifts(static_cast<std::size_t>(layout.parts()));
    const shortlist shifted = layout.list(ranges.data(), count, shifts.data());
    const shortlist searched = layout.list(ranges.data(), count);
    std::vector<std::int32_t> position(static_cast<std::size_t>(n), -1);
    shifted.for_each_in(0, shifted.size, [&](std::int32_t at, token t) {
      position[static_cast<std::size_t>(t)] = at;
    });
    const auto p = row_of(n, row_kind::smooth, 1);
    const auto q = row_of(n, row_kind::smooth, 2);
    team::serial serial;
    const bits expected = residuals(serial, p, q, searched, position.data());
    CHECK(residuals(serial, p, q, searched, nullptr) == expected);
    CHECK(residuals(serial, p, q, shifted, nullptr) == expected);
    for (const team_shape& shape : rule_shapes) {
      std::vector<bits> seen(shape.size());
      shape.launch(1, [&](team::simulated& team, std::int32_t) {
        seen[static_cast<std::size_t>(team.rank())] = residuals(team, p, q, shifted, nullptr);
      });
      CHECK(std::ranges::all_of(seen, [&](const bits& b) { return b == expected; }));
    }
  }
}

TEST_CASE("what the gate keeps and nothing else is combined") {
  for (const std::int32_t n : sizes) {
    const auto x = row_of(n, row_kind::smooth, 4);
    const auto least = [](std::int64_t tile) { return tile % 2 == 0 ? 6.0f : 7.5f; };
    std::int64_t expected = 0;
    for (std::int32_t i = 0; i < n; ++i) {
      expected += x[static_cast<std::size_t>(i)] >= least(i / 1024) ? i : 0;
    }
    team::serial team;
    CHECK(team.reduce_where(
              n, std::int64_t{0}, least,
              [&](std::int64_t i, float value) { return x[static_cast<std::size_t>(i)] >= value; },
              [](std::int64_t i) { return i; },
              [](std::int64_t a, std::int64_t b) { return a + b; }) == expected);
  }
}

TEST_CASE("draws from groups of several tiles") {
  const std::int64_t n = 128 * 4096 + 5000;
  std::vector<float> weights(static_cast<std::size_t>(n), 0.0f);
  dice random{3};
  for (int i = 0; i < 300; ++i) {
    weights[static_cast<std::size_t>(random.below(static_cast<std::int32_t>(n)))] = 1.0f;
  }
  const auto draws = [&](auto& team) {
    std::vector<std::int64_t> drawn;
    for (std::uint64_t word = 0; word < 8; ++word) {
      drawn.push_back(kernel::draw(
          team, n, [&](std::int64_t i) { return weights[static_cast<std::size_t>(i)]; },
          mix(word)));
    }
    return drawn;
  };
  team::serial serial;
  const auto expected = draws(serial);
  for (const team_shape& shape : shapes) {
    std::vector<std::vector<std::int64_t>> seen(shape.size());
    shape.launch(1, [&](team::simulated& team, std::int32_t) {
      seen[static_cast<std::size_t>(team.rank())] = draws(team);
    });
    CHECK(std::ranges::all_of(seen, [&](const auto& drawn) { return drawn == expected; }));
  }
}

/// About as many elements as 64 tiles have, and more; the last have groups of two tiles.
#if defined(__SANITIZE_THREAD__)
constexpr std::int32_t large_sizes[] = {262145, 128 * 4096 + 5000};
constexpr team_shape large_shapes[] = {{2, 3}};
#else
constexpr std::int32_t large_sizes[] = {262143, 262144, 262145, 300000, 128 * 4096 + 5000};
constexpr team_shape large_shapes[] = {{1, 1}, {1, 3}, {1, 8}, {8, 4}};
#endif

void same_laws_and_draws(std::int32_t n) {
  CAPTURE(n);
  for (const row_kind kind : kinds) {
    std::vector<float> row = row_of(n, kind, 8);
    // The largest logits rise from tile to tile: every tile is scaled to the next.
    for (std::int32_t i = 0; i < n; ++i) {
      row[static_cast<std::size_t>(i)] += static_cast<float>(i) / 20000.0f;
    }
    const auto seen_by = [&](auto& team) {
      bits out;
      const law<float> p =
          sampler::pipeline<sampler::temperature>{}(team, row_view<float>{row.data(), n}, {}, {});
      note(out, p);
      out.push_back(static_cast<std::uint64_t>(random_source<>{}.categorical(
          team, {5}, n, [&](std::int64_t i) { return p.weight(i); })));
      return std::pair{out, p};
    };
    team::serial serial;
    const auto [expected, p] = seen_by(serial);
    double mass = 0.0;
    for (std::int32_t i = 0; i < n; ++i) { mass += static_cast<double>(p.prob(i)); }
    CHECK(std::abs(mass - 1.0) < 1e-5);
    for (const team_shape& shape : large_shapes) {
      std::vector<bits> seen(shape.size());
      shape.launch(1, [&](team::simulated& team, std::int32_t) {
        seen[static_cast<std::size_t>(team.rank())] = seen_by(team).first;
      });
      for (const bits& b : seen) { CHECK(b == expected); }
    }
  }
}

TEST_CASE("laws and draws of rows of many tiles, of one for a group and of several") {
  for (const std::int32_t n : large_sizes) { same_laws_and_draws(n); }
}

TEST_CASE("a group is one tile, for any vocabulary") {
  for (const std::int64_t n : {1, 4096, 128256, 262143, 262144, 262145, 262208, 300000, 524288}) {
    CHECK(team::tiles_per_group(n) == 1);
    CHECK(team::groups_of(n) == team::tiles_of(n));
  }
  CHECK(team::tiles_per_group(524289) == 2);
  CHECK(team::groups_of(524289) == 65);
}

/// Rows of several tiles with weights in different frames: one thread guesses the frame of a tile
/// from the tile before, and must not believe a wrong one.
std::vector<std::vector<float>> rows_in_frames(std::int32_t n) {
  constexpr float inf = std::numeric_limits<float>::infinity();
  constexpr float largest = std::numeric_limits<float>::max();
  std::vector<std::vector<float>> rows;
  dice random{17};
  const auto add = [&](auto&& value) {
    auto& row = rows.emplace_back();
    for (std::int32_t i = 0; i < n; ++i) { row.push_back(value(i / 4096, i)); }
  };
  const auto unit = [&] { return static_cast<float>(random.unit()); };
  // About the border between two frames, and about that to where elements count for nothing.
  for (const float middle : {44.4f, -44.4f, 133.1f, 0.0f}) {
    add([&](std::int32_t, std::int32_t) { return middle + 0.4f * (unit() - 0.5f); });
    add([&](std::int32_t tile, std::int32_t) {
      return middle + (tile % 2 == 0 ? 3.0f : -3.0f) + 2.0f * unit();
    });
    add([&](std::int32_t, std::int32_t) { return middle - 85.0f * unit(); });
  }
  for (const float step : {40.0f, -40.0f, 87.0f, -87.0f, 88.0f, -300.0f, 1e4f, -1e6f, 5e36f}) {
    add([&](std::int32_t tile, std::int32_t) { return static_cast<float>(tile) * step + unit(); });
  }
  // Beyond where the exponent of a weight can be told from its logit alone.
  for (const float start : {1453500.0f, 1e7f, -1e7f, -3e9f, 1e30f}) {
    add([&](std::int32_t, std::int32_t) { return start; });
    add([&](std::int32_t, std::int32_t) { return start + static_cast<float>(random.below(300)); });
    add([&](std::int32_t tile, std::int32_t) { return tile % 2 == 0 ? start : unit(); });
  }
  add([&](std::int32_t tile, std::int32_t) { return tile == 1 ? -inf : unit(); });
  add([&](std::int32_t tile, std::int32_t) { return tile == 0 ? -inf : -0.0f; });
  add([&](std::int32_t, std::int32_t i) { return i % 3 == 0 ? -inf : -50.0f * unit(); });
  add([&](std::int32_t, std::int32_t i) { return i % 3 == 0 ? -largest : 9.0f * unit(); });
  add([&](std::int32_t, std::int32_t i) { return i == n / 2 ? 5.0f : -inf; });
  add([&](std::int32_t, std::int32_t i) { return i == n / 2 ? largest : -largest; });
  return rows;
}

/// The law of a row, and draws from the sums that the team remembers of it.
template <Team T>
bits law_and_draws(T& team, const std::vector<float>& row, float temperature) {
  bits out;
  sampling_parameters with;
  with.temperature = temperature;
  const law<float> p = sampler::pipeline<sampler::temperature>{}(
      team, row_view<float>{const_cast<float*>(row.data()), static_cast<std::int32_t>(row.size())},
      with, {});
  note(out, p);
  if (p.status != status::ok) { return out; }
  for (std::uint64_t seed = 0; seed < 4; ++seed) {
    const std::uint64_t word = seed == 3 ? ~std::uint64_t(0) : mix(seed);
    const std::int64_t drawn = kernel::draw(team, p.size(), weights_of<law<float>>{p}, word);
    out.push_back(static_cast<std::uint64_t>(drawn));
    out.push_back(drawn >= 0 && p.weight(drawn) > 0.0f ? 1 : 0);
  }
  return out;
}

TEST_CASE("laws of rows whose tiles differ in their frames") {
  for (const std::int32_t n : {5 * 4096 + 700, 66 * 4096}) {
    const auto rows = rows_in_frames(n);
    for (std::size_t r = 0; r < rows.size(); ++r) {
      for (const float temperature : {1.0f, 0.3f, 1e-30f, 3e37f, 3.4e38f}) {
        if (n > 30000 && temperature < 1.0f) { continue; }
        CAPTURE(n);
        CAPTURE(r);
        CAPTURE(temperature);
        const std::vector<float>& row = rows[r];
        team::serial serial;
        const bits expected = law_and_draws(serial, row, temperature);
        sampling_parameters with;
        with.temperature = temperature;
        const law<float> p = sampler::pipeline<sampler::temperature>{}(
            serial, row_view<float>{const_cast<float*>(row.data()), n}, with, {});
        REQUIRE(p.status == status::ok);
        CHECK(p.maximum == *std::ranges::max_element(row));
        double sum = 0.0;
        for (std::int32_t i = 0; i < n; ++i) { sum += static_cast<double>(p.weight(i)); }
        CHECK(std::abs(static_cast<double>(p.norm) * sum - 1.0) < 5e-7);
        for (std::size_t i = 7; i < expected.size(); i += 2) { CHECK(expected[i] == 1); }
        for (const team_shape& shape : rule_shapes) {
          std::vector<bits> seen(shape.size());
          shape.launch(1, [&](team::simulated& team, std::int32_t) {
            seen[static_cast<std::size_t>(team.rank())] = law_and_draws(team, row, temperature);
          });
          CHECK(std::ranges::all_of(seen, [&](const bits& b) { return b == expected; }));
        }
      }
    }
  }
}

TEST_CASE("cuts in the tail of a peaked row, where samples are asked for several times") {
  const std::int32_t n = 30000;
  std::vector<float> row = row_of(n, row_kind::smooth, 31);
  row[77] = 60.0f;
  const sampler_type sampler;
  for (const sampling_parameters& with : {sampling_parameters{0.1f, 50, 1.0f},
                                          {0.02f, n - 10, 1.0f},
                                          {3.0f, 0, 1.0f - 0x1.0p-20f},
                                          {0.5f, 0, 1.0f - 0x1.0p-24f}}) {
    CAPTURE(with.temperature);
    const auto law_on = [&](auto& team) {
      bits out;
      note(out, sampler(team, row_view<float>{row.data(), n}, with, {}));
      return out;
    };
    team::serial serial;
    const bits expected = law_on(serial);
    for (const team_shape& shape : rule_shapes) {
      std::vector<bits> seen(shape.size());
      shape.launch(1, [&](team::simulated& team, std::int32_t) {
        seen[static_cast<std::size_t>(team.rank())] = law_on(team);
      });
      CHECK(std::ranges::all_of(seen, [&](const bits& b) { return b == expected; }));
    }
  }
}

TEST_CASE("what is no number is found in every tile, whatever its bits") {
  const std::int32_t n = 3 * 4096 + 100;
  const sampler::pipeline<sampler::temperature> sampler;
  for (const std::uint32_t value : {0x7f800000u, 0x7fc00000u, 0xffc00000u, 0x7fc00001u, 0xffc00155u,
                                    0x7f800001u, 0xff800001u, 0x7fffffffu, 0xffffffffu}) {
    for (const float rest : {1.0f, -std::numeric_limits<float>::infinity()}) {
      for (const std::int32_t at : {0, 4095, 4096, 8191, 12287, 12288, n - 1}) {
        std::vector<float> row(static_cast<std::size_t>(n), rest);
        row[static_cast<std::size_t>(at)] = std::bit_cast<float>(value);
        team::serial team;
        CHECK(sampler(team, row_view<float>{row.data(), n}, {}, {}).status ==
              status::invalid_logits);
      }
    }
  }
}

TEST_CASE("what was summed last is forgotten at the next sum, and is asked for by its row") {
  const std::int32_t n = 5000;
  std::vector<float> first = row_of(n, row_kind::smooth, 1);
  std::vector<float> second = row_of(n, row_kind::sparse, 2);
  const sampler::pipeline<sampler::temperature> sampler;
  const auto law_of = [&](auto& team, std::vector<float>& row) {
    return sampler(team, row_view<float>{row.data(), n}, {}, {});
  };
  const auto draw_from = [&](auto& team, const law<float>& p) {
    return kernel::draw(team, n, weights_of<law<float>>{p}, mix(7));
  };
  team::serial fresh;
  team::serial team;
  const law<float> p = law_of(team, first);
  const law<float> q = law_of(team, second);
  CHECK(team.last_sum().row == second.data());
  // The sums in the scratch are q's: p must not be drawn from with them.
  CHECK(draw_from(team, p) == draw_from(fresh, p));
  CHECK(draw_from(team, q) == draw_from(fresh, q));
  team.sum(3, [](std::int64_t) { return 1.0f; });
  CHECK(team.last_sum() == team::summed{});
  CHECK(draw_from(team, q) == draw_from(fresh, q));
}

TEST_CASE("a list holds what is kept, once, and no more than there is room for") {
  for (const std::int32_t n : sizes) {
    const auto row = row_of(n, row_kind::sparse, 3);
    const auto keep = [&](std::int64_t i) { return row[static_cast<std::size_t>(i)] > 0.6f; };
    std::vector<std::int64_t> expected;
    for (std::int32_t i = 0; i < n; ++i) {
      if (keep(i)) { expected.push_back(3 * i); }
    }
    const auto count = static_cast<std::int32_t>(expected.size());
    for (const std::int32_t room : {count, count / 2, 0}) {
      const std::int32_t capacity = std::min(room, team::list_capacity);
      const auto is_right = [&](auto& team) {
        const std::int32_t found = team.compact(
            n, keep, [](std::int64_t i) { return 3 * i; }, capacity);
        const std::int64_t* const first = team.scratch().list;
        std::vector<std::int64_t> list(first, first + std::min(found, capacity));
        std::ranges::sort(list);
        return found == count && std::ranges::adjacent_find(list) == list.end() &&
               std::ranges::includes(expected, list);
      };
      team::serial serial;
      CHECK(is_right(serial));
      for (const team_shape& shape : rule_shapes) {
        std::vector<char> right(shape.size());
        shape.launch(1, [&](team::simulated& team, std::int32_t) {
          right[static_cast<std::size_t>(team.rank())] = is_right(team);
        });
        CHECK(std::ranges::all_of(right, [](char r) { return r != 0; }));
      }
    }
  }
}

TEST_CASE("what workers put is in the list, for all ranks") {
  for (const team_shape shape : shapes) {
    constexpr std::int32_t items = 37, each = 40;
    std::vector<std::int32_t> right(shape.size(), 0);
    team::simulated::launch(shape.blocks, shape.ranks, 1, [&](auto& team, std::int32_t) {
      for (const std::int64_t times : {1, 3}) {
        team.fill_by_worker(items, [=](auto&, std::int32_t i, const auto& put) {
          for (std::int32_t k = 0; k < each; ++k) { put(k * items + i, times * (k * items + i)); }
        });
        for (std::int32_t k = 0; k < items * each; ++k) {
          right[static_cast<std::size_t>(team.rank())] += team.scratch().list[k] == times * k;
        }
      }
    });
    for (const std::int32_t count : right) { CHECK(count == 2 * items * each); }
  }
}

TEST_CASE("the bin with which sums reach an amount") {
  dice random{11};
  constexpr std::int32_t n = 1500;
  std::vector<std::int32_t> bin;
  std::vector<std::int64_t> amount;
  std::int64_t all = 0;
  for (std::int32_t i = 0; i < n; ++i) {
    bin.push_back(random.below(11) == 0 ? -1 : random.below(random.below(2) == 0 ? 3 : 2048));
    amount.push_back(random.below(4) == 0 ? 0 : std::int64_t{random.below(1 << 20)} << 14);
    all += bin.back() < 0 ? 0 : amount.back();
  }
  const auto check = [&](auto& team, std::int64_t wanted, const auto& of) {
    std::vector<std::int64_t> sums(team::list_capacity, 0);
    for (std::size_t i = 0; i < bin.size(); ++i) {
      if (bin[i] >= 0) { sums[static_cast<std::size_t>(bin[i])] += of(static_cast<int>(i)); }
    }
    std::int64_t before = 0;
    std::int32_t expected = 0;
    while (expected < team::list_capacity &&
           before + sums[static_cast<std::size_t>(expected)] < wanted) {
      before += sums[static_cast<std::size_t>(expected++)];
    }
    const team::found_bin found = team.find_bin(
        n, wanted, [&](std::int64_t i) { return bin[static_cast<std::size_t>(i)]; }, of);
    return found.bin == expected && found.before == before &&
           found.within ==
               (expected < team::list_capacity ? sums[static_cast<std::size_t>(expected)] : 0);
  };
  const auto weighed = [&](std::int64_t i) { return amount[static_cast<std::size_t>(i)]; };
  const auto check_all = [&](auto& team) {
    bool right = true;
    for (const std::int64_t wanted : {std::int64_t(1), all / 3, all - 1, all, all + 1}) {
      right = check(team, wanted, weighed) && right;
    }
    for (const std::int64_t wanted : {1, 2, 700, 1499}) {
      right = check(team, wanted, team::one_each{}) && right;
    }
    return right;
  };
  team::serial serial;
  CHECK(check_all(serial));
  for (const team_shape shape : shapes) {
    std::vector<char> right(shape.size(), 0);
    team::simulated::launch(shape.blocks, shape.ranks, 1, [&](auto& team, std::int32_t) {
      right[static_cast<std::size_t>(team.rank())] = check_all(team) ? 1 : 0;
    });
    for (const char each : right) { CHECK(each == 1); }
  }
}

TEST_CASE("what all ranks know is noted in the list, and the rest of it stays") {
  const auto is_right = [](auto& team) {
    bool right = true;
    team.fill(10, [](std::int64_t i) { return 7 * i; });
    for (std::int32_t round = 0; round < 20; ++round) {
      const std::int64_t at = round % 10;
      team.put(round % 10, -round);
      for (std::int64_t i = 0; i < 10; ++i) {
        const std::int64_t last = i <= at ? round - at + i : round - at + i - 10;
        right = right && team.scratch().list[i] == (last < 0 ? 7 * i : -last);
      }
    }
    return right;
  };
  team::serial serial;
  CHECK(is_right(serial));
  for (const team_shape& shape : shapes) {
    std::vector<char> right(shape.size());
    shape.launch(1, [&](team::simulated& team, std::int32_t) {
      right[static_cast<std::size_t>(team.rank())] = is_right(team);
    });
    CHECK(std::ranges::all_of(right, [](char r) { return r != 0; }));
  }
}

/// An executor of simulated teams.
struct simulated_host {
  team_shape shape;
  template <class Body>
  void launch(std::int32_t count, const Body& body) {
    shape.launch(count, body);
  }
};

/// A text with repetitions.
std::vector<token> text_of(std::int32_t vocab, std::int32_t length) {
  std::vector<token> text;
  for (std::int32_t i = 0; i < length; ++i) { text.push_back(i * i % vocab); }
  return text;
}

/// A step over some sequences.
struct step_case {
  std::int32_t size;  ///< of the vocabulary
  row_kind kind;
  sampling_parameters with;
  child_law children = child_law::independent;
  std::vector<std::int32_t> shape = {-1, 0, 1, 2};  ///< the parent of each node
};

/// Fills a tree with draws from the laws of its nodes, the first of each given. Returns the number
/// of nodes that there was a token for.
std::int32_t draw_siblings(const step_case& c, const drafted_tokens& tree, const law<float>* q,
                           const shortlist& list, const std::int32_t* first, std::uint64_t seed) {
  team::serial team;
  for (std::int32_t node = 1; node < tree.count; ++node) {
    const std::int32_t above = tree.parent[node];
    const auto is_drawn = [&](std::int64_t at) {
      bool found = false;
      for (std::int32_t i = above + 1; i < node; ++i) {
        found = found || (tree.parent[i] == above && tree.drawn_at[i] == at);
      }
      return found;
    };
    const bool replaces = c.children == child_law::independent;
    const address where{seed, 1, static_cast<std::uint32_t>(node), 1, purpose::draft};
    const std::int32_t at = tree.next_child(above, above) == node ? first[above]
                            : q[above].status != status::ok
                                ? -1
                                : static_cast<std::int32_t>(random_source<>{}.categorical(
                                      team, where, list.size, [&](std::int64_t i) {
                                        return !replaces && is_drawn(i) ? 0.0f : q[above].weight(i);
                                      }));
    if (at < 0) { return node; }
    tree.drawn_at[node] = at;
    tree.tokens[node] = list.token_at(at);
  }
  return tree.count;
}

/// Laws, children, verdicts and log-probabilities of some sequences, through the bodies that a step
/// launches. They have a text before their draft, and sets of tokens that may come next.
template <class S, class V, class Executor>
bits step_bodies(Executor& executor, const step_case& c, S sampler, V verifier) {
  constexpr std::int32_t batch = 2;
  constexpr std::int32_t length = 6;
  constexpr std::int32_t top = 2;
  const std::int32_t n = c.size;
  const auto nodes = static_cast<std::int32_t>(c.shape.size());
  const auto all = static_cast<std::size_t>(batch * nodes);
  using draw_type = child_draw<random_source<>, V::shares_noise>;
  std::vector<std::vector<float>> rows;
  for (std::uint64_t i = 0; i < 2 * all; ++i) { rows.push_back(row_of(n, c.kind, i / 2)); }
  std::vector<law<float>> p(all);
  std::vector<law<float>> q(all);
  std::vector<token> tokens(all, 0);
  std::vector<token> first_child(all, no_token);
  std::vector<std::int32_t> drawn_at(all, 0);
  std::vector<std::int32_t> first_at(all, -1);
  std::vector<double> scratch(all);
  std::vector<std::int32_t> paths(all, -1);
  const auto words = static_cast<std::size_t>(allowed_words(n));
  std::vector<std::uint32_t> allowed(all * words);
  dice random{static_cast<std::uint64_t>(n)};
  for (std::uint32_t& w : allowed) {
    w = static_cast<std::uint32_t>(random.next() | random.next());
  }
  const row_range ranges[batch] = {{0, n}, {n / 2, n}};  // one sequence drafts from a shortlist
  // Both sequences have the same text: a prompt and two emitted tokens.
  const std::vector<token> text = text_of(n, length);
  counted_text census(n, text_of(n, length - 2), 2);
  for (std::size_t i = length - 2; i < length; ++i) { census.emit(text[i]); }
  std::vector<std::int32_t> parent = c.shape;
  std::vector<shortlist> lists;
  for (std::int32_t i = 0; i < batch * nodes; ++i) {
    const row_range& range = ranges[i / nodes];
    lists.push_back({&range, 1, range.end - range.begin, nullptr, nullptr, n});
  }
  const auto history = [&](std::int32_t k, std::int32_t node, const shortlist* list) {
    const std::size_t first = static_cast<std::size_t>(k * nodes);
    const std::uint32_t* set =
        c.with.constrained ? &allowed[(first + static_cast<std::size_t>(node)) * words] : nullptr;
    return row_history{list,           text.data(),   length, census.view(),
                       &tokens[first], parent.data(), node,   set};
  };

  // Every node has a law to draft from; what is drawn from it becomes its first child.
  std::vector<kernel::draft_row<float>> draft_rows;
  for (std::size_t i = 0; i < all; ++i) {
    const auto k = static_cast<std::int32_t>(i) / nodes;
    const auto node = static_cast<std::int32_t>(i) % nodes;
    draft_rows.push_back({{rows[2 * i + 1].data(), lists[i].size},
                          lists[i],
                          c.with,
                          history(k, 0, &lists[i]),
                          {static_cast<std::uint64_t>(k), length, static_cast<std::uint32_t>(node),
                           0, purpose::draft},
                          static_cast<std::uint32_t>(length + node),
                          &q[i],
                          &first_at[i],
                          &first_child[i]});
  }
  executor.launch(static_cast<std::int32_t>(all),
                  kernel::draw_children<float, S, draw_type>{draft_rows.data(), sampler, {}});

  using view_type = verify_view<sampled_laws<float, S>, stored_drafts<law<float>>>;
  std::vector<target_row<float>> target_rows;
  target_rows.reserve(all);
  std::vector<view_type> views;
  std::vector<verdict> verdicts(batch);
  for (std::int32_t k = 0; k < batch; ++k) {
    const std::int32_t at = k * nodes;
    drafted_tokens tree{nodes, tokens.data() + at, parent.data(), drawn_at.data() + at};
    tree.count = draw_siblings(c, tree, q.data() + at, lists[static_cast<std::size_t>(at)],
                               first_at.data() + at, static_cast<std::uint64_t>(k));
    for (std::int32_t node = 0; node < nodes; ++node) {
      target_rows.push_back({{rows[static_cast<std::size_t>(2 * (at + node))].data(), n},
                             c.with,
                             history(k, node, nullptr)});
    }
    views.push_back({tree,
                     c.children,
                     {target_rows.data() + at, p.data() + at, sampler},
                     {q.data() + at, lists.data() + at},
                     static_cast<std::uint64_t>(k),
                     length,
                     scratch.data() + at});
    verdicts[static_cast<std::size_t>(k)].path = paths.data() + at;
  }
  executor.launch(batch, kernel::verify_sequences<view_type, V, random_source<>>{
                             views.data(), verdicts.data(), verifier, {}});

  std::vector<kernel::log_probability_task<float>> tasks;
  std::vector<token_log_probability> reports(static_cast<std::size_t>(batch * (1 + top)));
  for (std::int32_t k = 0; k < batch; ++k) {
    const verdict& v = verdicts[static_cast<std::size_t>(k)];
    if (v.status != status::ok) { continue; }
    const std::int32_t node = v.accepted > 0 ? v.path[v.accepted - 1] : 0;
    tasks.push_back({p.data() + k * nodes + node, v.next, top, reports.data() + k * (1 + top)});
  }
  executor.launch(static_cast<std::int32_t>(tasks.size()),
                  kernel::report_log_probabilities<float>{tasks.data()});

  bits out;
  for (const law<float>& l : p) { note(out, l); }
  for (const law<float>& l : q) { note(out, l); }
  for (const token t : tokens) { out.push_back(static_cast<std::uint64_t>(t)); }
  for (const verdict& v : verdicts) {
    out.push_back(static_cast<std::uint64_t>(v.next));
    out.push_back(static_cast<std::uint64_t>(v.accepted));
    out.push_back(static_cast<std::uint64_t>(v.status));
    out.push_back(static_cast<std::uint64_t>(v.next_origin));
    out.push_back(v.empty_residual ? 1 : 0);
    for (std::int32_t i = 0; i < v.accepted; ++i) {
      out.push_back(static_cast<std::uint64_t>(v.path[i]));
    }
  }
  for (const token_log_probability& r : reports) {
    out.push_back(static_cast<std::uint64_t>(r.t));
    note(out, r.log_probability);
  }
  return out;
}

template <class S, class V, std::size_t Counts>
void check_teams(const step_case& c, S sampler, V verifier,
                 const team_shape (&shapes_of_team)[Counts]) {
  executor::host host;
  const bits expected = step_bodies(host, c, sampler, verifier);
  for (const team_shape& shape : shapes_of_team) {
    CAPTURE(c.size);
    CAPTURE(shape.blocks);
    CAPTURE(shape.ranks);
    simulated_host simulated{shape};
    CHECK(step_bodies(simulated, c, sampler, verifier) == expected);
  }
}

TEST_CASE("the bodies of a step") {
  for (const std::int32_t n : sizes) {
    for (const row_kind kind : kinds) {
      const auto check = [&](auto sampler, auto verifier, const sampling_parameters& with) {
        check_teams({n, kind, with}, sampler, verifier, shapes);
      };
      check(sampler_type{}, verifier::rejection{}, {0.9f, 0, 1.0f});
      check(sampler::greedy{}, verifier::greedy{}, {});
    }
  }
}

TEST_CASE("the bodies of every rule, and of every stage") {
  const std::vector<std::int32_t> bush{-1, 0, 0, 1, 1};
  for (const std::int32_t n : rule_sizes) {
    for (const row_kind kind : {row_kind::smooth, row_kind::tied}) {
      const auto check = [&](auto sampler, auto rule, child_law children, const auto& shape,
                             const sampling_parameters& with = {}) {
        check_teams({n, kind, with, children, shape}, sampler, rule, rule_shapes);
      };
      using enum child_law;
      const std::vector<std::int32_t> chain{-1, 0, 1, 2};
      const sampler::pipeline<sampler::temperature> plain;
      check(plain, verifier::block{}, independent, chain);
      check(plain, verifier::point_mass{}, independent, bush);
      check(plain, verifier::coupled{}, independent, chain);
      check(plain, verifier::typical{}, independent, bush);
      check(plain, verifier::top_k{std::max(1, n / 2)}, independent, bush);
      check(plain, verifier::rejection{}, independent, bush);
      check(plain, verifier::rejection{}, without_replacement, bush);
      const logit_bias biases[] = {{0, 1.0f}, {n / 2, 2.0f}, {n - 1, -1.0f}};
      sampling_parameters staged{0.9f, 0, 0.9f, 0.01f, 1.3f, 0.3f, 0.2f};
      staged.bias = biases;
      staged.bias_count = n > 2 ? 3 : 1;
      staged.constrained = true;
      check(every_stage{}, verifier::rejection{}, without_replacement, bush, staged);
      check(every_stage{}, verifier::coupled{}, independent, chain, staged);
    }
  }
}

/// Laws of rows that nobody has asked for yet, and the children that these rows rank.
template <class E>
bits laws_and_children(E executor, std::int32_t n, row_kind kind) {
  constexpr std::int32_t count = 5;
  std::vector<std::vector<float>> rows;  // what edits a row edits it once
  std::vector<target_row<float>> targets;
  std::vector<kernel::ranked_row<float>> ranked;
  const row_range range{0, n};
  const shortlist everything{&range, 1, n, nullptr, nullptr, n};
  const std::size_t all = 2 * std::size(parameters);
  const auto best = static_cast<std::size_t>((team::tiles_of(n) + 1) * count);
  std::vector<law<float>> laws(all);
  std::vector<std::int64_t> workspace(all * best);
  std::vector<token> children(all * count);
  std::vector<float> values(all * count);
  for (std::size_t i = 0; i < all; ++i) {
    rows.push_back(row_of(n, kind, 3 + i / 2));
    rows.push_back(rows.back());
    const sampling_parameters& with = parameters[i / 2];
    targets.push_back({{rows[2 * i].data(), n}, with, {}});
    ranked.push_back({.logits = {rows[2 * i + 1].data(), n},
                      .list = everything,
                      .parameters = with,
                      .history = {},
                      .value = -1.5f,
                      .count = count,
                      .best = workspace.data() + i * best,
                      .ranked_by = &laws[i],
                      .children = children.data() + i * count,
                      .values = values.data() + i * count});
  }
  std::vector<law<float>> made(all);
  executor.launch(static_cast<std::int32_t>(all),
                  kernel::make_laws<float, sampler_type>{{targets.data(), made.data(), {}}});
  executor.launch(static_cast<std::int32_t>(all),
                  kernel::rank_children<float, sampler_type>{ranked.data(), {}});
  bits out;
  for (const law<float>& l : made) { note(out, l); }
  for (const law<float>& l : laws) { note(out, l); }
  for (const token t : children) { out.push_back(static_cast<std::uint64_t>(t)); }
  for (const float v : values) { note(out, v); }
  return out;
}

TEST_CASE("laws of rows, and the children that are ranked by them") {
  for (const std::int32_t n : rule_sizes) {
    for (const row_kind kind : kinds) {
      const bits expected = laws_and_children(executor::host{}, n, kind);
      for (const team_shape& shape : rule_shapes) {
        CAPTURE(n);
        CAPTURE(shape.blocks);
        CAPTURE(shape.ranks);
        CHECK(laws_and_children(simulated_host{shape}, n, kind) == expected);
      }
    }
  }
}

TEST_CASE("the draft head over ranges") {
  for (const std::int32_t n : sizes) {
    for (const std::int32_t width : {16, 37}) {
      const auto weights = row_of(n * width, row_kind::smooth, 5);
      std::vector<bfloat16> halves(weights.size());
      std::ranges::transform(weights, halves.begin(), [](float x) { return to_bfloat16(x); });
      const auto hidden = row_of(width, row_kind::smooth, 6);
      const row_range ranges[] = {{0, (n + 1) / 2}, {std::min(n, n / 2 + 2), n}};
      const std::int32_t count = ranges[1].end > ranges[1].begin ? 2 : 1;
      const std::int32_t size = ranges[0].end + (count > 1 ? ranges[1].end - ranges[1].begin : 0);
      const shortlist list{ranges, count, size, nullptr, nullptr};
      const auto run = [&](auto&& launch, const auto* data) {
        std::vector<float> logits(static_cast<std::size_t>(size), -1.0f);
        launch([&](auto& team, std::int32_t) {
          kernel::range_gemv(
              team, kernel::head_weights<std::remove_cvref_t<decltype(*data)>>{data, n, width},
              list, hidden.data(), row_view<float>{logits.data(), size});
        });
        return logits;
      };
      const auto host = [](auto&& body) { executor::host{}.launch(1, body); };
      const auto check = [&](const auto* data) {
        const auto expected = run(host, data);
        for (std::int32_t i = 0; i < size; ++i) {  // against plain sums
          double sum = 0.0;
          double size = 0.0;
          for (std::int32_t k = 0; k < width; ++k) {
            const double term = static_cast<double>(to_float(data[list.token_at(i) * width + k])) *
                                static_cast<double>(hidden[static_cast<std::size_t>(k)]);
            sum += term;
            size += std::abs(term);
          }
          CHECK(std::abs(static_cast<double>(expected[static_cast<std::size_t>(i)]) - sum) <=
                1e-6 * size);
        }
        for (const team_shape& shape : shapes) {
          CHECK(run([&](auto&& body) { shape.launch(1, body); }, data) == expected);
        }
      };
      std::vector<std::int8_t> bytes(weights.size());
      std::ranges::transform(weights, bytes.begin(),
                             [](float x) { return static_cast<std::int8_t>(12.0f * x - 40.0f); });
      check(weights.data());
      check(halves.data());
      check(bytes.data());
    }
  }
}

TEST_CASE("the canonical order is what canonical.hpp says") {
  // A second implementation, from the words: lanes in order, halves folded, tiles in double.
  dice random{9};
  for (const std::int64_t n : {1, 127, 129, 4096, 4100, 9000, 262143, 262144, 262145, 300000}) {
    std::vector<float> x(static_cast<std::size_t>(n));
    for (float& v : x) { v = static_cast<float>(random.unit()); }
    double expected = 0.0;
    for (std::int64_t tile = 0; tile < n; tile += 4096) {
      std::vector<float> lanes(128, 0.0f);
      for (std::int64_t i = tile; i < std::min(n, tile + 4096); ++i) {
        lanes[static_cast<std::size_t>(i % 128)] += x[static_cast<std::size_t>(i)];
      }
      for (std::size_t half = 64; half > 0; half /= 2) {
        for (std::size_t l = 0; l < half; ++l) { lanes[l] += lanes[l + half]; }
      }
      expected += static_cast<double>(lanes[0]);
    }
    team::serial team;
    CHECK(team.sum(n, [&](std::int64_t i) { return x[static_cast<std::size_t>(i)]; }) == expected);
  }
}

}  // namespace
}  // namespace hunch::test
