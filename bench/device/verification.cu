// SPDX-License-Identifier: Apache-2.0

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include <hunch/distribution/random.hpp>

#include "chains.hpp"
#include "language_rows.hpp"
#include "sections.hpp"

namespace bench::device {
namespace {

using namespace hunch;

constexpr int rounds = 15;

/// Uniforms that accept every drafted token but the last of a chain.
struct refuse_the_last {
  HUNCH_HOST_DEVICE std::uint64_t operator()(const address& a) const {
    if (a.what != purpose::accept) { return philox{}(a); }
    return a.node == chain_length - 1 ? ~std::uint64_t(0) : 0;
  }
};
using source = random_source<refuse_the_last>;
using chains = chain_batch<source>;

/// What must be read of a chain whose last draft is refused: the target's row after the root and
/// after each accepted draft, and for the residual the last of these and the draft's row.
constexpr std::int32_t rows_read = chain_length + 2;

/// Several batches, of which each finds its rows in memory because the others have been read since;
/// or in the caches, if they share their rows.
class chain_sets {
 public:
  chain_sets(cuda& executor, std::int32_t batch, std::int32_t sets, bool share_rows)
      : target_(executor, size(batch, share_rows ? 1 : sets, chain_nodes)),
        draft_(executor, size(batch, share_rows ? 1 : sets, chain_length)) {
    const std::int32_t stored = share_rows ? 1 : sets;
    // Rows of their own for the draft, so that its favourites are unlikely for the target.
    executor.launch(stored * batch * chain_nodes, fill_rows{target_.data(), vocab, 0, 0.0f});
    executor.launch(stored * batch * chain_length,
                    fill_rows{draft_.data(), vocab, std::uint64_t{1} << 32, 0.0f});
    for (std::int32_t s = 0; s < sets; ++s) {
      const std::size_t at = share_rows ? 0 : static_cast<std::size_t>(s);
      sets_.push_back(std::make_unique<chains>(
          executor, batch, vocab, target_.data() + at * size(batch, 1, chain_nodes),
          draft_.data() + at * size(batch, 1, chain_length), nullptr, source{}));
    }
  }

  void forget() {
    for (const auto& s : sets_) { s->forget(); }
  }
  void verify(bool side_by_side) {
    for (const auto& s : sets_) {
      if (side_by_side) { s->make_laws(); }
      s->verify();
    }
  }
  void check_verdicts() {
    for (const auto& s : sets_) {
      for (const verdict& v : s->verdicts()) {
        if (v.status != status::ok || v.accepted != chain_length - 1) {
          throw std::logic_error("the bench is wrong: a chain has " + std::to_string(v.accepted) +
                                 " accepted drafts");
        }
      }
    }
  }
  double count() const { return static_cast<double>(sets_.size()); }

 private:
  static std::size_t size(std::int32_t batch, std::int32_t sets, std::int32_t rows) {
    return static_cast<std::size_t>(batch) * static_cast<std::size_t>(sets) *
           static_cast<std::size_t>(rows) * static_cast<std::size_t>(vocab);
  }

  cuda::resident<float> target_;
  cuda::resident<float> draft_;
  std::vector<std::unique_ptr<chains>> sets_;
};

const char* way(bool side_by_side) {
  return side_by_side ? "laws side by side" : "laws when asked for";
}

void measure_batch(report& out, cuda& executor, memory_copy& copy, std::int32_t batch,
                   std::int32_t sets) {
  chain_sets all(executor, batch, sets, false);
  const auto candidate_of = [&](bool side_by_side) {
    return candidate{[&all, side_by_side] { all.verify(side_by_side); }, all.count(),
                     [&all] { all.forget(); }};
  };
  const timings t =
      interleave_on(executor, rounds, {copy.work(), candidate_of(true), candidate_of(false)});
  all.check_verdicts();
  for (const bool side_by_side : {true, false}) {
    const std::vector<double>& times = t[side_by_side ? 1 : 2];
    const std::string name =
        "verify, 5 drafts, B = " + std::to_string(batch) + ", " + way(side_by_side);
    out.add(name, median(times) * 1e6, "us");
    out.add(name + ": time / 7 rows each at copy bandwidth",
            1.0 / share_of_copy(4.0 * vocab * rows_read * batch, t[0], times), "", at_most(1.4));
  }
}

/// One sequence, many verifications after each other in a graph.
void measure_one(report& out, cuda& executor) {
  constexpr std::int32_t sets = 48;  // 271 MB
  chain_sets cold(executor, 1, sets, false);
  chain_sets warm(executor, 1, sets, true);
  struct measured {
    const char* where;
    chain_sets* sets;
    bool side_by_side;
    std::optional<goal> wanted;
  };
  const measured all[] = {
      {"rows in memory", &cold, true, at_most(12.0)},
      {"rows in memory", &cold, false, std::nullopt},
      {"rows in the cache", &warm, true, std::nullopt},
      {"rows in the cache", &warm, false, std::nullopt},
  };
  std::vector<recorded_work> graphs;
  std::vector<candidate> candidates;
  for (const measured& m : all) {
    graphs.emplace_back(executor, [&] { m.sets->verify(m.side_by_side); });
  }
  for (std::size_t i = 0; i < graphs.size(); ++i) {
    candidates.push_back({[&graphs, i] { graphs[i].launch(); }, all[i].sets->count(),
                          [&all, i] { all[i].sets->forget(); }});
  }
  const timings t = interleave_on(executor, rounds, candidates);
  cold.check_verdicts();
  warm.check_verdicts();
  for (std::size_t i = 0; i < graphs.size(); ++i) {
    out.add(std::string("verify in a graph, 5 drafts, B = 1, ") + way(all[i].side_by_side) + ", " +
                all[i].where,
            median(t[i]) * 1e6, "us", all[i].wanted);
  }
}

}  // namespace

void measure_verification(report& out, cuda& executor, memory_copy& copy) {
  measure_one(out, executor);
  measure_batch(out, executor, copy, 64, 4);
  measure_batch(out, executor, copy, 256, 2);
}

}  // namespace bench::device
