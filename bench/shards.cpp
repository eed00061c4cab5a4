// SPDX-License-Identifier: Apache-2.0
#include <mpi.h>

#include <algorithm>
#include <bit>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <optional>
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
///
/// In the fewest exchanges, or in as many as are worth their time: see
/// `executor::sharded_options`. Each has its goal: exchanges, and time where messages are as fast
/// as here.
///
/// Two processes cannot be faster than two processors read: what these make of one that reads the
/// rows of such steps, and does nothing else, is measured beside it.

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
      place(i, (r.slot[i] * 5 + r.position[i]) % kinds, held_);
    }
    // The pass ends when all ranks have theirs: waiting for it is no part of verification.
    if (meet_ != nullptr) { meet_->all_gather(nullptr, 0, nullptr); }
    return {logits_.data()};
  }
  void commit(const kept_rows&) noexcept {}

  /// What a rank holds of a position's logits, as row i of a pass.
  void place(std::int32_t i, std::int32_t kind, const team::element_range& held) {
    std::memcpy(row(i) + held.begin, (*rows_)[static_cast<std::size_t>(kind)].data() + held.begin,
                static_cast<std::size_t>(held.size()) * sizeof(float));
  }
  /// Reads that much of row i, as fast as it can be read.
  std::uint32_t bits_of(std::int32_t i, const team::element_range& held) {
    std::uint32_t all = 0;
    for (std::int64_t v = held.begin; v < held.end; ++v) {
      all ^= std::bit_cast<std::uint32_t>(row(i)[v]);
    }
    return all;
  }

 private:
  float* row(std::int32_t i) {
    return logits_.data() + static_cast<std::ptrdiff_t>(i) * vocabulary;
  }

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

/// How a batch is decoded.
struct plan {
  std::int32_t batch = 1;
  std::int32_t tokens = 0;  ///< of each request
  generation_options asked = {};
  bool few_exchanges = false;
  std::optional<double> most_time = std::nullopt;
  std::optional<double> most_exchanges = std::nullopt;  ///< a step
};

/// Requests of a batch, to their ends.
template <class S, class Rule, class Shape, class Executor>
outcome decode(const row_pool& pool, Executor executor, team::element_range held, ranks* meet,
               const plan& of, S sampler, Rule rule, Shape shape) {
  const std::int32_t batch = of.batch;
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
  generation_options o = of.asked;
  o.max_new_tokens = of.tokens;
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
using top_k_sampler = sampler::pipeline<sampler::temperature, sampler::top_k>;
using top_p_sampler = sampler::pipeline<sampler::temperature, sampler::top_p>;
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

  /// Reading alone: of each sequence's rows as many as a step of the mean acceptance length reads,
  /// the last of them and a draft's once more for the residual.
  void read_alone(const std::string& name, std::int32_t batch) const {
    constexpr std::int32_t read = 4;
    positions_model target(pool.target, {0, vocabulary}, batch * (length + 1), nullptr);
    positions_model draft(pool.draft, {0, vocabulary}, batch * (length + 1), nullptr);
    const auto seconds = [&](const team::element_range& held, bool meets) {
      for (std::int32_t i = 0; i < batch * (length + 1); ++i) {
        draft.place(i, i % kinds, {0, vocabulary});
      }
      for (std::int32_t i = 0; i < batch * (length + 1); ++i) { target.place(i, i % kinds, held); }
      if (meets) { world.all_gather(nullptr, 0, nullptr); }
      const auto start = std::chrono::steady_clock::now();
      std::uint32_t bits = 0;
      for (std::int32_t b = 0; b < batch; ++b) {
        const std::int32_t first = b * (length + 1);
        const std::int32_t last = first + read - 1;
        for (std::int32_t i = first; i <= last; ++i) { bits ^= target.bits_of(i, held); }
        bits ^= target.bits_of(last, held) ^ draft.bits_of(last, held);
      }
      const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
      [[maybe_unused]] const volatile std::uint32_t used = bits;
      return elapsed.count();
    };
    std::vector<double> ratios;
    for (int round = 0; round < 21; ++round) {
      const double one = world.rank() == 0 ? seconds({0, vocabulary}, false) : 0.0;
      double two = 0.0;
      broadcast(world, two, 0);
      two = seconds(shards.tiles().held(), true);
      all_reduce(world, &two, 1, [](double x, double y) { return x > y ? x : y; });
      ratios.push_back(two / one);
    }
    add(name + ": reading alone, two against one", median(ratios), "x");
  }

  template <class S = plain_sampler, class Rule = verifier::rejection, class Shape = chain>
  void compare(const std::string& name, const plan& of, S sampler = {}, Rule rule = {},
               Shape shape = {}) {
    const team::element_range held = shards.tiles().held();
    std::vector<double> ratios, alone, together;
    double accepted = 0.0;
    executor::sharded executor(world, shards, {.few_exchanges = of.few_exchanges});
    std::int64_t steps = 0;
    for (int round = 0; round < 7; ++round) {
      double one = 0.0;
      outcome whole;
      if (world.rank() == 0) {
        whole = decode(pool, executor::host{}, {0, vocabulary}, nullptr, of, sampler, rule, shape);
        one = trimmed_mean(whole.seconds);
        accepted = whole.accepted;
      }
      double meeting = 0.0;
      broadcast(world, meeting, 0);  // the others wait, on processors of their own
      const outcome mine = decode(pool, executor, held, &world, of, sampler, rule, shape);
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
        of.most_time ? std::optional(bench::at_most(*of.most_time)) : std::nullopt);
    add(name + ": exchanges a step", per_step(sent.exchanges), "",
        of.most_exchanges ? std::optional(bench::at_most(*of.most_exchanges)) : std::nullopt);
    // Gathering, a rank sends its half of all rows.
    const double gathered =
        static_cast<double>(of.batch) * (length + 1) * vocabulary / 2.0 * sizeof(float);
    add(name + ": bytes a step, of gathering", per_step(sent.bytes) / gathered, "",
        of.batch == 64 ? std::optional(bench::at_most(1e-3)) : std::nullopt);
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
      const struct { std::int32_t batch, tokens; } batches[] = {{1, 400}, {8, 60}, {64, 16}};
      for (const auto& b : batches) {
        const std::string name = "rejection, batch " + std::to_string(b.batch);
        s.compare(name, {.batch = b.batch, .tokens = b.tokens, .most_time = 0.65});
        s.read_alone(name, b.batch);
        s.compare(
            name + ", few exchanges",
            {.batch = b.batch, .tokens = b.tokens, .few_exchanges = true, .most_exchanges = 3.0});
      }
      for (const bool few : {false, true}) {
        const char* const how = few ? ", few exchanges" : "";
        plan eight{.batch = 8, .tokens = 60, .few_exchanges = few};
        s.compare(std::string("block, batch 8") + how, eight, plain_sampler{}, verifier::block{});
        s.compare(std::string("tree of 21 nodes, batch 8") + how, eight, plain_sampler{},
                  verifier::rejection{}, tree::sampled<4, 2, 1>{});
        eight.asked.top_k = 50;
        s.compare(std::string("top-k, batch 8") + how, eight, top_k_sampler{});
        eight.asked.top_p = 0.9f;
        s.compare(std::string("top-k and top-p, batch 8") + how, eight, nucleus_sampler{});
        eight.asked.top_k = 0;
        s.compare(std::string("top-p, batch 8") + how, eight, top_p_sampler{});
      }
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
