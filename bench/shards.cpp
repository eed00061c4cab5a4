// SPDX-License-Identifier: Apache-2.0
#include <mpi.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include <hunch/collective/mpi.hpp>
#include <hunch/collective/vocab_shards.hpp>
#include <hunch/executor/sharded.hpp>
#include <hunch/hunch.hpp>

#include "common.hpp"

/// \file
/// Verification by two processes that have half of the vocabulary each, against one that has it
/// all. Programs that mpirun has started: rank 0 reports. One process and two take turns; the time
/// is that of a decoder's stage from logits to the outcome, of the slower rank, without the models:
/// these leave the rows where a head leaves them, in a cache or not.

namespace {

using namespace hunch;
using ranks = collective::mpi;

constexpr std::int32_t vocabulary = 128256;
constexpr std::int32_t length = 5;  // of a draft
constexpr std::int32_t kinds = 12;  // of positions

/// The rows of positions: a target's, and those of a draft that is accepted about as often as one
/// of a language model.
struct row_pool {
  std::vector<std::vector<float>> target;
  std::vector<std::vector<float>> draft;

  row_pool() {
    std::mt19937 generator(7);
    std::normal_distribution<float> normal;
    for (std::int32_t k = 0; k < kinds; ++k) {
      std::vector<float> p(vocabulary), q(vocabulary);
      for (std::int32_t v = 0; v < vocabulary; ++v) {
        const auto at = static_cast<std::size_t>(v);
        p[at] = 2.0f * normal(generator);
        q[at] = p[at] + 0.4f * normal(generator);
      }
      // A few tokens have most of the mass, in all parts of the vocabulary.
      for (std::int32_t i = 0; i < 24; ++i) {
        const auto at = static_cast<std::size_t>(generator() % vocabulary);
        p[at] = 12.0f + 2.0f * normal(generator);
        q[at] = p[at] + 0.6f * normal(generator);
      }
      target.push_back(std::move(p));
      draft.push_back(std::move(q));
    }
  }
};

/// A model whose logits are those of the row's position. Of a target, the part that a rank
/// computes.
class positions_model {
 public:
  positions_model(const std::vector<std::vector<float>>& rows, team::element_range held,
                  std::int32_t max_rows, ranks* meet)
      : rows_(&rows),
        held_(held),
        meet_(meet),
        logits_(static_cast<std::size_t>(max_rows) * vocabulary) {}

  struct pass {
    float* all;
    hunch::status status(std::int32_t) const { return hunch::status::ok; }
    row_view<float> logits(std::int32_t i) const {
      return {all + static_cast<std::ptrdiff_t>(i) * vocabulary, vocabulary};
    }
  };

  static std::int32_t vocab_size() { return vocabulary; }
  pass evaluate(const rows& r) {
    for (std::int32_t i = 0; i < r.size; ++i) {
      if (r.wanted[i] == 0) { continue; }
      const auto kind = static_cast<std::size_t>((r.slot[i] * 5 + r.position[i]) % kinds);
      std::memcpy(logits_.data() + static_cast<std::ptrdiff_t>(i) * vocabulary + held_.begin,
                  (*rows_)[kind].data() + held_.begin,
                  static_cast<std::size_t>(held_.size()) * sizeof(float));
    }
    // The pass ends when all ranks have theirs: waiting for it is no part of verification.
    if (meet_ != nullptr) { meet_->all_gather(nullptr, 0, nullptr); }
    return {logits_.data()};
  }
  void commit(const kept_rows&) noexcept {}

 private:
  const std::vector<std::vector<float>>* rows_;
  team::element_range held_;
  ranks* meet_;
  std::vector<float> logits_;
};

struct outcome {
  std::vector<token> text;
  std::vector<double> seconds;  ///< of each step's verification
  double accepted = 0.0;        ///< a step
  std::int64_t steps = 0;
};

/// Requests of a batch, to their ends.
template <class S, class Rule, class Shape, class Executor>
outcome decode(const row_pool& pool, Executor executor, team::element_range held, ranks* meet,
               std::int32_t batch, std::int32_t tokens, const generation_options& asked, S sampler,
               Rule rule, Shape shape) {
  const std::int32_t max_rows = batch * (Shape::max_nodes + 1) + 8;
  positions_model target(pool.target, held, max_rows, meet);
  positions_model draft(pool.draft, {0, vocabulary}, max_rows, nullptr);
  decoder d{target,
            drafter::autoregressive{full_logits{draft}, shape},
            selector::full{vocabulary},
            sampler,
            rule,
            decoder_options{.max_batch = batch, .token_text = {}},
            random_source<>{},
            executor};
  generation_options o = asked;
  o.max_new_tokens = tokens;
  for (std::int32_t b = 0; b < batch; ++b) {
    o.seed = static_cast<std::uint64_t>(b + 1);
    const std::vector<token> prompt{1, 2};
    d.add(prompt, o);
  }
  outcome out;
  while (d.running() > 0) {
    const bool full = d.running() == batch;
    for (const emission& e : d.step()) {
      out.text.insert(out.text.end(), e.tokens.begin(), e.tokens.end());
    }
    ++out.steps;
    if (full && out.steps > 1) { out.seconds.push_back(d.last_step().verify_seconds); }
  }
  out.accepted = d.stats().mean_acceptance_length();
  return out;
}

double median(std::vector<double> of) {
  std::sort(of.begin(), of.end());
  return of.empty() ? 0.0 : of[of.size() / 2];
}

/// The mean of steps without the slowest and the fastest tenth: steps do not take alike.
double trimmed_mean(std::vector<double> of) {
  std::sort(of.begin(), of.end());
  const std::size_t cut = of.size() / 10;
  double sum = 0.0;
  for (std::size_t i = cut; i < of.size() - cut; ++i) { sum += of[i]; }
  return sum / static_cast<double>(of.size() - 2 * cut);
}

using chain = tree::chain<length>;
using plain_sampler = sampler::pipeline<sampler::temperature>;
using nucleus_sampler = sampler::pipeline<sampler::temperature, sampler::top_k, sampler::top_p>;

struct suite {
  bench::report* out;  ///< of rank 0
  ranks& world;
  const row_pool& pool;
  vocab_shards shards;

  void add(const std::string& name, double value, const std::string& unit,
           std::optional<bench::goal> wanted = std::nullopt) const {
    if (out != nullptr) { out->add(name, value, unit, wanted); }
  }

  template <class S = plain_sampler, class Rule = verifier::rejection, class Shape = chain>
  void compare(const std::string& name, std::int32_t batch, std::int32_t tokens,
               const generation_options& asked, std::int64_t most_exchanges,
               std::optional<double> most_time, S sampler = {}, Rule rule = {}, Shape shape = {}) {
    const team::element_range held = shards.tiles().held();
    std::vector<double> ratios, alone, together;
    double accepted = 0.0;
    executor::sharded executor(world, shards);
    std::int64_t steps = 0;
    for (int round = 0; round < 7; ++round) {
      double one = 0.0;
      outcome whole;
      if (world.rank() == 0) {
        whole = decode(pool, executor::host{}, {0, vocabulary}, nullptr, batch, tokens, asked,
                       sampler, rule, shape);
        one = trimmed_mean(whole.seconds);
        accepted = whole.accepted;
      }
      double meeting = 0.0;
      broadcast(world, meeting, 0);  // the others wait, on processors of their own
      const outcome mine =
          decode(pool, executor, held, &world, batch, tokens, asked, sampler, rule, shape);
      steps += mine.steps;
      if (world.rank() == 0 && mine.text != whole.text) {
        throw std::logic_error(name + ": two processes have written another text than one");
      }
      std::vector<double> slowest = mine.seconds;
      all_reduce(world, slowest.data(), slowest.size(),
                 [](double a, double b) { return a > b ? a : b; });
      const double two = trimmed_mean(slowest);
      alone.push_back(one);
      together.push_back(two);
      ratios.push_back(two / one);
    }
    const auto& sent = executor.traffic();
    const auto per_step = [&](std::int64_t n) {
      return static_cast<double>(n) / static_cast<double>(steps);
    };
    add(name + ": mean acceptance length", accepted, "");
    add(name + ": one process", median(alone) * 1e3, "ms");
    add(name + ": two processes", median(together) * 1e3, "ms");
    add(name + ": two against one", median(ratios), "x",
        most_time ? std::optional(bench::at_most(*most_time)) : std::nullopt);
    add(name + ": exchanges a step", per_step(sent.exchanges), "",
        most_exchanges > 0 ? std::optional(bench::at_most(static_cast<double>(most_exchanges)))
                           : std::nullopt);
    // Gathering, a rank sends its half of all rows.
    const double gathered =
        static_cast<double>(batch) * (length + 1) * vocabulary / 2.0 * sizeof(float);
    add(name + ": bytes a step, of gathering", per_step(sent.bytes) / gathered, "",
        batch == 64 && most_exchanges > 0 ? std::optional(bench::at_most(1e-3)) : std::nullopt);
  }
};

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int status = 0;
  {
    ranks world(MPI_COMM_WORLD);
    const row_pool pool;
    const auto own = vocab_shards::whole_tiles(vocabulary, world.size(), world.rank());
    const vocab_shards shards(world, static_cast<std::int32_t>(own.begin),
                              static_cast<std::int32_t>(own.end), vocabulary);
    const auto all = [&](bench::report* out) {
      suite s{out, world, pool, shards};
      generation_options plain;
      s.compare("rejection, batch 1", 1, 400, plain, 3, 0.65);
      s.compare("rejection, batch 8", 8, 60, plain, 3, 0.65);
      s.compare("rejection, batch 64", 64, 16, plain, 3, 0.65);
      s.compare("block, batch 8", 8, 60, plain, 0, std::nullopt, plain_sampler{},
                verifier::block{});
      s.compare("tree of 21 nodes, batch 8", 8, 60, plain, 0, std::nullopt, plain_sampler{},
                verifier::rejection{}, tree::sampled<4, 2, 1>{});
      generation_options nucleus;
      nucleus.top_p = 0.9f;
      nucleus.top_k = 50;
      s.compare("top-k and top-p, batch 8", 8, 60, nucleus, 0, std::nullopt, nucleus_sampler{});
    };
    if (world.rank() == 0) {
      status = bench::run("shards", argc, argv, [&](bench::report& out) { all(&out); });
    } else {
      all(nullptr);
    }
  }
  if (status != 0) { MPI_Abort(MPI_COMM_WORLD, status); }
  MPI_Finalize();
  return status;
}
