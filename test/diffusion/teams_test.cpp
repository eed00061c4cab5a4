// SPDX-License-Identifier: Apache-2.0

// What decides about unmaskings and drafts, by teams of threads: the host's results, bit for bit.
// And a loop on a thread of its own, to which requests come.

#include <bit>
#include <cstddef>
#include <cstdint>
#include <map>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include <hunch/diffusion/drafter/model_drafts.hpp>
#include <hunch/diffusion/order/entropy.hpp>
#include <hunch/diffusion/resident_decoder.hpp>
#include <hunch/diffusion/verifier/top_k.hpp>
#include <hunch/executor/host.hpp>
#include <hunch/sampler/top_p.hpp>
#include "../support/hidden_host.hpp"
#include "../support/padded_canvas.hpp"
#include "../support/shown_canvas.hpp"
#include "../support/team_executors.hpp"
#include "../support/threaded_host.hpp"
#include "fill.hpp"

namespace hunch::test {
namespace {

/// Everything that a run shows: the canvases of all passes, the unmaskings, and what a length
/// policy is told.
struct trace {
  std::vector<std::vector<std::vector<token>>> passes;
  std::vector<diffusion::unmasking> unmaskings;
  std::vector<std::uint64_t> told;
  std::vector<status> failed;

  bool operator==(const trace&) const = default;
};

struct noting {
  static constexpr bool needs_entropy = true;
  struct memory {};
  std::vector<std::uint64_t>* told = nullptr;

  std::int32_t begin(memory&, std::int32_t max_depth) const { return max_depth; }
  bool continues(memory&, const length_evidence& e) const {
    told->push_back(std::bit_cast<std::uint64_t>(e.probability));
    told->push_back(std::bit_cast<std::uint64_t>(e.entropy));
    return true;
  }
  void observe(memory&, std::int32_t, std::int32_t) const noexcept {}
};

/// Ties, and now and then a bad row.
canvas_world world_of(std::int32_t vocab) {
  return {{vocab, 61, flavour::tied},
          1,
          [](std::uint64_t h, std::int32_t n, double* row) {
            for (std::int32_t v = 0; v < n; ++v) { row[v] += static_cast<double>(v % 3); }
            if (mix(h) % 64 == 0) { row[0] = -std::numeric_limits<double>::quiet_NaN(); }
          },
          5};
}

template <class Toy, class O, class V, class E, class D>
trace run_by(E executor, std::int32_t vocab, O order, V verifier, D drafts) {
  using sampler_type = sampler::pipeline<sampler::temperature, sampler::top_p>;
  trace result;
  Toy model{world_of(vocab)};
  drafts.length.told = &result.told;
  diffusion::decoder d(model, order, sampler_type{}, verifier, drafts,
                       diffusion::decoder_options{.max_batch = 2}, random_source<philox>{},
                       executor);
  const std::vector<token> prompt{0};
  for (std::uint64_t seed = 0; seed < 2; ++seed) {
    generation_options options{.max_new_tokens = 5, .temperature = 0.7f * static_cast<float>(seed)};
    options.top_p = seed == 0 ? 1.0f : 0.9f;
    d.add(prompt, options, {.block_length = 3});
  }
  while (d.running() > 0) {
    for (const diffusion::emission& e : d.step()) {
      result.unmaskings.insert(result.unmaskings.end(), e.unmaskings.begin(), e.unmaskings.end());
      result.failed.push_back(e.status);
    }
  }
  result.passes = model.passes;
  return result;
}

template <class Toy = toy_masked<float>, class O, class V, class MakeDrafts>
void check_teams(O order, V verifier, const MakeDrafts& drafts) {
#if defined(__SANITIZE_THREAD__)
  const std::vector<std::int32_t> sizes{5, 133};
#else
  const std::vector<std::int32_t> sizes{2, 5, 33, 133, 4099};
#endif
  for (const std::int32_t vocab : sizes) {
    CAPTURE(vocab);
    const trace expected = run_by<Toy>(executor::host{}, vocab, order, verifier, drafts(vocab));
    CHECK(expected.unmaskings.size() >= 4);
    for (const threads& team_of :
         {threads{{}, 1, 3, 1}, threads{{}, 1, 8, 2}, threads{{}, 2, 2, 2}}) {
      CHECK(run_by<Toy>(team_of, vocab, order, verifier, drafts(vocab)) == expected);
    }
  }
}

TEST_CASE("unmaskings and drafts are the same on every team") {
  const auto by_itself = [](std::int32_t) { return diffusion::self_speculation<2, noting>{}; };
  check_teams(diffusion::order::confidence{}, diffusion::verifier::stepwise_exact{}, by_itself);
  check_teams(diffusion::order::entropy{}, diffusion::verifier::stepwise_exact{}, by_itself);
  check_teams(diffusion::order::confidence{}, diffusion::verifier::top_k{2}, by_itself);
  check_teams<toy_masked<float, cache_kind::of_blocks>>(
      diffusion::order::confidence{}, diffusion::verifier::stepwise_exact{}, by_itself);
}

TEST_CASE("drafts of a model are the same on every team") {
  const auto by_model = [](std::int32_t vocab) {
    toy_masked<float> model{world_of(vocab)};
    model.drafts = true;
    return diffusion::drafted_by<2>(std::move(model), noting{});
  };
  check_teams(diffusion::order::confidence{}, diffusion::verifier::stepwise_exact{}, by_model);
  check_teams(diffusion::order::entropy{}, diffusion::verifier::top_k{2}, by_model);
}

TEST_CASE("drafts of what reads the target's passes are the same on every team") {
  const auto by_head = [](std::int32_t vocab) {
    shown_canvas<float> head{world_of(vocab)};
    head.drafts = true;
    return diffusion::drafted_by<2>(std::move(head), noting{});
  };
  check_teams(diffusion::order::confidence{}, diffusion::verifier::stepwise_exact{}, by_head);
}

/// What a loop that its executor repeats unmasks, where the host reads nothing that a round makes.
/// \tparam Draft the model that drafts.
template <class Draft, class E>
std::vector<std::tuple<request_id, std::int32_t, token>> repeated_by(E executor) {
  constexpr std::int32_t vocab = 133;
  constexpr std::int32_t block = 3;
  toy_masked<float> toy{world_of(vocab)};
  Draft draft{world_of(vocab)};
  draft.drafts = true;
  padded_masked<toy_masked<float>, float> target(toy, 2 * 3 * (block + 3));
  padded_masked<Draft, float> drafts(draft, 2 * block);
  diffusion::resident_decoder d(
      target, diffusion::order::entropy{}, sampler::pipeline<sampler::temperature>{},
      diffusion::verifier::stepwise_exact{}, diffusion::drafted_by<2>(drafts),
      diffusion::resident_options{.max_batch = 2, .max_canvas = 6, .max_block = block},
      random_source<philox>{}, executor);
  const std::vector<token> prompt{0};
  for (std::uint64_t seed = 0; seed < 2; ++seed) {
    d.add(prompt, {.max_new_tokens = 5, .temperature = 0.7f, .seed = seed}, {.block_length = 3});
  }
  d.run();
  std::vector<std::tuple<request_id, std::int32_t, token>> out;
  d.poll([&](const ring_entry& e) { out.emplace_back(e.id, e.position, e.t); });
  return out;
}

template <class Draft>
void check_repeated() {
  const auto expected = repeated_by<Draft>(hidden_host{});
  CHECK(expected.size() > 4);
  for (const threads& team_of : {threads{{}, 1, 3, 1}, threads{{}, 2, 2, 2}}) {
    CHECK(repeated_by<Draft>(hidden_threads{team_of}) == expected);
  }
}

TEST_CASE("rounds that an executor repeats are the same on every team") {
  check_repeated<toy_masked<float>>();
  check_repeated<shown_canvas<float>>();
}

/// A request: a prompt of one token, and what is unmasked after it.
struct short_task {
  generation_options options;
  std::vector<diffusion::unmasking> unmasked;
};

std::vector<short_task> short_tasks() {
  std::vector<short_task> tasks(14);
  for (std::size_t n = 0; n < tasks.size(); ++n) {
    generation_options& options = tasks[n].options;
    options.max_new_tokens = 1 + static_cast<std::int32_t>(5 * n % 9);
    options.temperature = n % 3 == 0 ? 0.0f : 0.9f;
    options.seed = n;
  }
  return tasks;
}

TEST_CASE("requests join a loop that runs on a thread of its own") {
  using toy = toy_masked<double>;
  constexpr canvas_world world{{9, 31, flavour::smooth}, 8, nullptr, 6};
  const std::vector<token> prompt{1};
  std::vector<short_task> expected = short_tasks();
  toy alone{world};
  auto one = canvas_decoder<3>(alone);
  for (short_task& task : expected) {
    one.add(prompt, task.options, {.block_length = 4});
    while (one.running() > 0) {
      const auto unmaskings = one.step()[0].unmaskings;
      task.unmasked.insert(task.unmasked.end(), unmaskings.begin(), unmaskings.end());
    }
  }

  toy target{world};
  toy draft{world};
  draft.drafts = true;
  padded_masked<toy> padded(target, 3 * 4 * 8);
  padded_masked<toy> padded_draft(draft, 3 * 4);
  std::vector<short_task> found = short_tasks();
  {
    diffusion::resident_decoder d(
        padded, diffusion::order::confidence{}, fill_sampler{},
        diffusion::verifier::stepwise_exact{}, diffusion::drafted_by<3>(padded_draft),
        diffusion::resident_options{.max_batch = 3, .max_canvas = 12, .max_block = 4},
        random_source<philox>{}, threaded_host{});
    std::map<request_id, std::size_t> of;
    std::size_t added = 0;
    while (added < found.size() || d.running() > 0) {
      if (added < found.size() && d.running() < 3) {
        of[d.add(prompt, found[added].options, {.block_length = 4})] = added;
        ++added;
      }
      d.run();
      d.poll([&](const ring_entry& e) {
        found[of.at(e.id)].unmasked.push_back({.position = e.position, .t = e.t});
      });
      std::this_thread::yield();
    }
  }
  for (std::size_t n = 0; n < found.size(); ++n) {
    CAPTURE(n);
    CHECK(found[n].unmasked == expected[n].unmasked);
  }
  CHECK(!target.keeps_anything());
}

}  // namespace
}  // namespace hunch::test
