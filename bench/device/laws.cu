// SPDX-License-Identifier: Apache-2.0

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <string>
#include <type_traits>
#include <vector>

#include <hunch/distribution/law.hpp>
#include <hunch/distribution/random.hpp>
#include <hunch/sampler/pipeline.hpp>
#include <hunch/sampler/temperature.hpp>
#include <hunch/verifier/verify_rows.hpp>

#include "language_rows.hpp"
#include "sections.hpp"

namespace bench::device {

using namespace hunch;

namespace {

constexpr std::int32_t rows = 512;  // 263 MB: several times what a cache holds
constexpr std::int32_t batch = 64;
constexpr int rounds = 15;

}  // namespace

using plain = sampler::pipeline<sampler::temperature>;

/// The law of row `first + index`. \tparam ByCluster whether a cluster may share a row.
template <bool ByCluster>
struct law_of_row {
  float* logits;
  std::int32_t first;
  law<float>* to;
  static constexpr bool reads_rows = ByCluster;

  template <Team T>
  HUNCH_HOST_DEVICE void operator()(T& team, std::int32_t index) const {
    const std::int32_t row = first + index;
    const law<float> l = plain{}(
        team, row_view<float>{logits + static_cast<std::int64_t>(row) * vocab, vocab}, {}, {});
    if (team.rank() == 0) { to[row] = l; }
  }
};

/// A draw from the law of row `first + index`.
template <bool ByCluster>
struct draw_from_row {
  const law<float>* laws;
  std::int32_t first;
  token* to;
  static constexpr bool reads_rows = ByCluster;

  template <Team T>
  HUNCH_HOST_DEVICE void operator()(T& team, std::int32_t index) const {
    const std::int32_t row = first + index;
    const law<float> l = laws[row];
    const std::int64_t t = random_source<>{}.categorical(
        team, {1, static_cast<std::uint32_t>(row), 0, 0}, l.size(), weights_of<law<float>>{l});
    if (team.rank() == 0) { to[row] = static_cast<token>(t); }
  }
};

void measure_laws(report& out, cuda& executor, memory_copy& copy) {
  cuda::resident<float> logits(executor, static_cast<std::size_t>(rows) * vocab);
  cuda::resident<law<float>> laws(executor, rows);
  cuda::resident<token> drawn(executor, rows);
  executor.launch(rows, fill_rows{logits.data(), vocab, 0, 0.0f});
  executor.launch(rows, law_of_row<false>{logits.data(), 0, laws.data()});

  // All rows in turn, `at_once` of them in a launch, in one graph: the same row comes again when
  // all others have gone through the caches.
  const auto sweep = [&](std::int32_t at_once, auto&& body) {
    return recorded_work(executor, [&] {
      for (std::int32_t first = 0; first < rows; first += at_once) {
        executor.launch(at_once, body(first));
      }
    });
  };
  const auto law_of = [&](auto by_cluster) {
    return [&](std::int32_t first) {
      return law_of_row<decltype(by_cluster)::value>{logits.data(), first, laws.data()};
    };
  };
  const auto draw_of = [&](auto by_cluster) {
    return [&](std::int32_t first) {
      return draw_from_row<decltype(by_cluster)::value>{laws.data(), first, drawn.data()};
    };
  };
  using block = std::false_type;
  using cluster = std::true_type;
  recorded_work work[] = {sweep(1, law_of(block{})),     sweep(1, law_of(cluster{})),
                          sweep(batch, law_of(block{})), sweep(1, draw_of(block{})),
                          sweep(1, draw_of(cluster{})),  sweep(batch, draw_of(block{}))};
  const std::string names[] = {
      "law of a row, by a block",    "law of a row, by a cluster",    "laws of 64 rows",
      "draw from a law, by a block", "draw from a law, by a cluster", "draws from 64 laws"};
  const std::int32_t at_once[] = {1, 1, batch, 1, 1, batch};
  std::vector<candidate> candidates{copy.work()};
  for (std::size_t i = 0; i < std::size(work); ++i) {
    candidates.push_back(
        {[&work, i] { work[i].launch(); }, static_cast<double>(rows / at_once[i])});
  }
  const timings t = interleave_on(executor, rounds, candidates);
  for (std::size_t i = 0; i < std::size(work); ++i) {
    const double bytes = 4.0 * vocab * at_once[i];
    out.add(names[i] + ", V = 128256, cold", median(t[i + 1]) * 1e6, "us");
    out.add(names[i] + ": time / the rows at copy bandwidth",
            1.0 / share_of_copy(bytes, t[0], t[i + 1]), "");
  }
}

}  // namespace bench::device
