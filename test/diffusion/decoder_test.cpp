// SPDX-License-Identifier: Apache-2.0

// The loop around the rule: batches, stops, known parts of answers, draft lengths, temperatures,
// counters. What is unmasked depends on the request alone.

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <stdexcept>
#include <vector>

#include <doctest/doctest.h>

#include <hunch/core/logit.hpp>
#include <hunch/diffusion/drafter/model_drafts.hpp>
#include <hunch/diffusion/order/entropy.hpp>
#include <hunch/diffusion/order/left_to_right.hpp>
#include <hunch/diffusion/verifier/top_k.hpp>
#include <hunch/length/confidence.hpp>
#include <hunch/length/cost.hpp>
#include <hunch/length/entropy.hpp>
#include <hunch/length/ewma.hpp>
#include <hunch/length/one_of.hpp>
#include <hunch/sampler/greedy.hpp>
#include <hunch/sampler/top_k.hpp>
#include <hunch/sampler/top_p.hpp>
#include "../support/chi_squared.hpp"
#include "../support/padded_canvas.hpp"
#include "../support/poisoned_host.hpp"
#include "fill.hpp"

namespace hunch::test {
namespace {

constexpr std::int32_t vocab = 9;
/// Most drafts are accepted in the first world, and few in the second.
constexpr canvas_world world{{vocab, 31, flavour::sharp}, 8, nullptr, 7};
constexpr canvas_world smooth_world{{vocab, 32, flavour::smooth}, 8, nullptr, 4};

canvas_task some_task(std::uint64_t seed) {
  dice random{seed};
  canvas_task task;
  const std::int32_t prompt = 1 + random.below(5);
  for (std::int32_t i = 0; i < prompt; ++i) { task.canvas.push_back(random.below(vocab - 1)); }
  const std::int32_t length = 1 + random.below(12);
  for (std::int32_t i = 0; i < length; ++i) {
    const bool known = i > 0 && random.below(5) == 0;
    task.canvas.push_back(known ? random.below(vocab - 1) : world.mask);
  }
  task.answer = prompt;
  task.block_length = 1 + random.below(6);
  task.temperature = random.below(2) == 0 ? 0.0 : 0.5 + 0.5 * random.below(3);
  task.seed = random.next();
  if (random.below(2) == 0) { task.stop_tokens = {random.below(vocab - 1), 3}; }
  return task;
}

/// Tasks that come in at different rounds, more than run at the same time.
std::map<std::uint64_t, fill_result> in_a_batch(any_canvas_decoder& d, std::int32_t tasks,
                                                bool cached) {
  std::map<std::uint64_t, fill_result> results;
  std::map<request_id, std::uint64_t> seeds;
  dice random{77};
  std::uint64_t next = 0;
  while (d.running() > 0 || next < static_cast<std::uint64_t>(tasks)) {
    try {
      while (next < static_cast<std::uint64_t>(tasks) && random.below(3) > 0) {
        canvas_task task = some_task(next);
        task.cached = cached;
        seeds[add(d, task)] = next;
        ++next;
      }
    } catch (const std::length_error&) { CHECK(d.running() == 4); }
    for (const diffusion::emission& e : d.step()) { append(results[seeds.at(e.id)], e); }
  }
  return results;
}

void check_batches(any_canvas_decoder& d, const canvas_world& of, bool cached) {
  const auto results = in_a_batch(d, 300, cached);
  std::int32_t wrong = 0;
  std::int32_t stopped = 0;
  for (const auto& [seed, found] : results) {
    canvas_task task = some_task(seed);
    task.cached = cached;
    wrong += agrees(found, fill_stepwise(of, task)) ? 0 : 1;
    stopped += found.finish == finish_reason::stop_token ? 1 : 0;
  }
  CHECK(results.size() == 300);
  CHECK(wrong == 0);
  CHECK(stopped > 30);
  CHECK(d.stats().accepted > 50);
}

template <class Model>
void check_batches(const canvas_world& of, bool cached) {
  Model model{of};
  auto d = canvas_decoder<4>(model, 4);
  canvas_decoder_of any(d);
  check_batches(any, of, cached);
  CHECK(!model.keeps_anything());
}

TEST_CASE("batches of requests that come and go") {
  check_batches<toy_masked<double>>(world, false);
  check_batches<toy_masked<double>>(smooth_world, false);
  check_batches<toy_masked<double, cache_kind::of_blocks>>(world, true);
}

template <class Half>
void round_row(std::uint64_t, std::int32_t size, double* row) {
  for (std::int32_t v = 0; v < size; ++v) {
    row[v] = static_cast<double>(to_float(to_logit<Half>(static_cast<float>(row[v]))));
  }
}

std::vector<fill_result> some_filled(any_canvas_decoder& d) {
  std::vector<fill_result> out;
  for (std::uint64_t seed = 0; seed < 40; ++seed) { out.push_back(fill(d, some_task(seed))); }
  return out;
}

/// What a decoder over logits of type Logit writes, which are rounded to the 16-bit type.
template <class Logit, class Half, bool ByModel>
std::vector<fill_result> filled(auto order, auto verifier) {
  canvas_world of = smooth_world;
  of.edit = round_row<Half>;
  toy_masked<Logit> model{of};
  const sampler::pipeline stages{sampler::temperature{}, sampler::top_k{}, sampler::top_p{}};
  if constexpr (ByModel) {
    canvas_world of_draft = world;
    of_draft.edit = round_row<Half>;
    toy_masked<Logit> draft{of_draft};
    draft.drafts = true;
    diffusion::decoder d(model, order, stages, verifier, diffusion::drafted_by<3>(draft),
                         diffusion::decoder_options{});
    canvas_decoder_of any(d);
    return some_filled(any);
  } else {
    auto d = canvas_decoder<3>(model, 1, order, verifier, stages);
    canvas_decoder_of any(d);
    return some_filled(any);
  }
}

void check_same(const std::vector<fill_result>& halves, const std::vector<fill_result>& copies) {
  for (std::size_t i = 0; i < halves.size(); ++i) {
    CHECK(halves[i].unmaskings == copies[i].unmaskings);
    CHECK(halves[i].canvas == copies[i].canvas);
    CHECK(halves[i].rounds == copies[i].rounds);
    CHECK(halves[i].failed == copies[i].failed);
  }
}

template <class Half, bool ByModel = false>
void check_halves(auto order, auto verifier) {
  check_same(filled<Half, Half, ByModel>(order, verifier),
             filled<float, Half, ByModel>(order, verifier));
}

TEST_CASE_TEMPLATE("logits of 16 bits give what their copies in float give", Half, bfloat16,
                   float16) {
  check_halves<Half>(diffusion::order::confidence{}, diffusion::verifier::stepwise_exact{});
  check_halves<Half>(diffusion::order::entropy{}, diffusion::verifier::stepwise_exact{});
  check_halves<Half>(diffusion::order::left_to_right{}, diffusion::verifier::top_k{2});
  check_halves<Half, true>(diffusion::order::confidence{}, diffusion::verifier::stepwise_exact{});
}

TEST_CASE("drafts of a model that does not change its mind are all accepted") {
  toy_masked<float> model{{world.rows, world.mask, nullptr, 8}};
  auto d = chain_decoder<4>(model);
  canvas_task task{std::vector<token>(21, world.mask), 1, 8};
  task.canvas[0] = 2;
  const fill_result found = fill(d, task);
  CHECK(found.finish == finish_reason::length);
  CHECK(found.unmaskings.size() == 20);
  // One token in the first pass, then five a pass, the last of which finds four masks.
  CHECK(found.rounds == 5);
  CHECK(d.stats().target_passes == 5);
  CHECK(d.stats().target_rows == 1 + 3 * 5 + 4);
  CHECK(d.stats().drafted == 15);
  CHECK(d.stats().accepted == 15);
  CHECK(d.stats().emitted == 20);
  CHECK(d.stats().mean_acceptance_length() == 4.0);
  CHECK(d.stats().histogram[0] == 1);
  CHECK(d.stats().histogram[4] == 3);
  // And as many where the top-k rule accepts everything.
  auto lossy =
      chain_decoder<4>(model, 1, diffusion::order::confidence{}, diffusion::verifier::top_k{vocab});
  CHECK(fill(lossy, task).rounds == 5);
}

TEST_CASE("a level was tested where a draft was accepted, or refused for what was unmasked") {
  toy_masked<double> model{smooth_world};
  int left_alone = 0;  // levels that no canvas had after what was accepted, of sets
  for (const double spread : {0.0, diffusion::default_spread}) {
    auto d = canvas_decoder<4>(model, 1, diffusion::order::confidence{},
                               diffusion::verifier::stepwise_exact{}, fill_sampler{}, spread);
    std::int64_t corrected = 0;
    for (std::uint64_t seed = 0; seed < 50; ++seed) {
      canvas_task task{std::vector<token>(9, smooth_world.mask), 1, 8, 1.0, seed};
      task.canvas[0] = 2;
      add(d, task);
      while (d.running() > 0) {
        const auto before = d.stats();
        for (const diffusion::emission& e : d.step()) {
          const auto refused = std::ranges::count(e.origins, origin::corrected);
          corrected += refused;
          const auto accepted = std::ranges::count(e.origins, origin::accepted);
          std::int64_t levels = 0;
          for (int i = 0; i < 4; ++i) {
            levels += d.stats().proposed_at[i] - before.proposed_at[i];
          }
          left_alone += spread > 0.0 && refused == 0 && accepted < levels ? 1 : 0;
        }
      }
    }
    CHECK(d.stats().accepted > 20);
    CHECK(corrected > 20);
    CHECK(d.stats().tested == d.stats().accepted + corrected);
  }
  CHECK(left_alone > 5);
}

TEST_CASE("a block cache ends drafts with the block") {
  using model_type = toy_masked<double, cache_kind::of_blocks>;
  model_type model{world};
  auto d =
      chain_decoder<4>(model, 1, diffusion::order::confidence{}, diffusion::verifier::top_k{vocab});
  canvas_task task{std::vector<token>(13, world.mask), 1, 4};
  task.canvas[0] = 2;
  const fill_result found = fill(d, task);
  // Each block: one unmasking of the pass that opens it, then two drafts and the last one.
  CHECK(found.rounds == 6);
  CHECK(d.stats().target_rows == 3 * (1 + 3));
}

TEST_CASE("a draft length that changes between rounds changes no unmasking") {
  toy_masked<double> model{world};
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    const canvas_task task = some_task(seed);
    auto d = canvas_decoder<4>(model);
    fill_result found;
    add(d, task);
    for (std::uint64_t round = 0; d.running() > 0; ++round) {
      d.draft_length(static_cast<std::int32_t>(mix(seed + round) % 7) - 1);
      for (const diffusion::emission& e : d.step()) {
        CHECK(static_cast<std::int32_t>(e.unmaskings.size()) <= d.draft_length() + 1);
        append(found, e);
      }
    }
    CHECK(agrees(found, fill_stepwise(world, task)));
  }
}

std::int32_t wrong_in_a_batch(any_canvas_decoder& d, std::int32_t tasks) {
  std::int32_t wrong = 0;
  for (const auto& [seed, found] : in_a_batch(d, tasks, false)) {
    wrong += agrees(found, fill_stepwise(world, some_task(seed))) ? 0 : 1;
  }
  return wrong;
}

void check_drafting(any_canvas_decoder& d) {
  CHECK(wrong_in_a_batch(d, 100) == 0);
  CHECK(d.stats().drafted > 20);
}

template <class L>
void check_length(L policy) {
  toy_masked<double> model{world};
  diffusion::decoder d(
      model, diffusion::order::confidence{}, fill_sampler{}, diffusion::verifier::stepwise_exact{},
      diffusion::self_speculation<4, L>{policy}, diffusion::decoder_options{.max_batch = 4});
  canvas_decoder_of any(d);
  check_drafting(any);
}

TEST_CASE("every length policy unmasks the same") {
  const std::vector<double> rows{1.0, 1.1, 1.2, 1.3, 1.4};
  check_length(length::fixed{2});
  check_length(length::confidence{0.9});
  check_length(length::entropy{});
  check_length(length::ewma{2});
  check_length(length::cost{.draft = 0.0, .rows = rows});
  using any = length::one_of<length::fixed, length::entropy>;
  check_length(any{length::entropy{0.9}});
}

/// Asks for nothing, and notes what it is told.
struct listening {
  static constexpr bool needs_entropy = true;
  struct memory {};
  std::vector<length_evidence>* told = nullptr;

  std::int32_t begin(memory&, std::int32_t max_depth) const { return max_depth; }
  bool continues(memory&, const length_evidence& e) const {
    told->push_back(e);
    return true;
  }
  void observe(memory&, std::int32_t, std::int32_t) const noexcept {}
};

TEST_CASE("what length policies are told") {
  toy_masked<double> model{smooth_world};
  std::vector<length_evidence> told;
  diffusion::self_speculation<3, listening> drafts{{&told}};
  diffusion::decoder d(model, diffusion::order::confidence{}, fill_sampler{},
                       diffusion::verifier::stepwise_exact{}, drafts);
  canvas_task task{std::vector<token>(7, world.mask), 1, 6};
  task.canvas[0] = 2;
  add(d, task);
  const diffusion::unmasking first = d.step()[0].unmaskings[0];
  d.step();
  REQUIRE(told.size() == 2);  // the third draft is the last there is room for
  // The first draft is the surest of what was left.
  double most = 0.0;
  double its_entropy = 0.0;
  for (std::int32_t p = 1; p < 7; ++p) {
    if (p == first.position) { continue; }
    status error = status::ok;
    const std::vector<double> w =
        textbook::weights(smooth_world.logits(task.canvas, p), world.mask, 1.0, error);
    const double sure = textbook::score(w, textbook::pick(w, task, p), rank_by::confidence);
    if (sure < most) { continue; }
    most = sure;
    its_entropy = -textbook::score(w, 0, rank_by::entropy);
  }
  CHECK(told[0].probability == doctest::Approx(most).epsilon(1e-12));
  CHECK(told[0].entropy == doctest::Approx(its_entropy).epsilon(1e-12));
  CHECK(told[0].depth == 1);
  CHECK(told[0].rows == 2);
  CHECK(told[0].max_rows == 4);
  CHECK(!told[0].drawn);
  CHECK(told[1].depth == 2);
  CHECK(told[1].reach == told[0].probability * told[1].probability);
}

/// From right to left within a block.
struct backwards : diffusion::order::by_score {
  template <Team T, class Real>
  double score(T&, const law<Real>&, token) const {
    return 0.0;
  }
  static constexpr bool before(const diffusion::candidate& a, const diffusion::candidate& b) {
    return a.block != b.block ? a.block < b.block : a.what.position > b.what.position;
  }
};

TEST_CASE("a stop token ends the text once all before it is unmasked") {
  toy_masked<double> model{world};
  auto d = canvas_decoder<3>(model, 1, backwards{});
  canvas_task task{std::vector<token>(7, world.mask), 1, 3};
  task.canvas[0] = 2;
  const fill_result whole = fill(d, task);
  REQUIRE(whole.unmaskings.size() == 6);
  CHECK(whole.finish == finish_reason::length);
  CHECK(whole.answer == std::vector<token>(whole.canvas.begin() + 1, whole.canvas.end()));
  task.stop_tokens = {whole.unmaskings[0].t};  // at position 3
  const fill_result stopped = fill(d, task);
  CHECK(stopped.finish == finish_reason::stop_token);
  REQUIRE(stopped.unmaskings.size() == 3);
  CHECK(std::ranges::equal(stopped.unmaskings, std::span(whole.unmaskings).first(3)));
  CHECK(stopped.answer.back() == task.stop_tokens[0]);
  CHECK(stopped.answer.size() <= 3);
}

TEST_CASE("one answer, as it is asked for") {
  toy_masked<double> model{world};
  auto d = canvas_decoder<4>(model);
  const std::vector<token> prompt{1, 2, 3};
  const finished_text found = d.generate(
      prompt, {.max_new_tokens = 10, .temperature = 0.8f, .seed = 5}, {.block_length = 4});
  canvas_task task{{1, 2, 3}, 3, 4, static_cast<double>(0.8f), 5};
  task.canvas.resize(13, world.mask);
  const textbook_result expected = fill_stepwise(world, task);
  CHECK(found.tokens == std::vector<token>(expected.canvas.begin() + 3, expected.canvas.end()));
  CHECK(found.finish == finish_reason::length);
  // Another seed is another text, the same seed the same.
  const auto again = [&](std::uint64_t seed) {
    return d
        .generate(prompt, {.max_new_tokens = 10, .temperature = 5.0f, .seed = seed},
                  {.block_length = 4})
        .tokens;
  };
  CHECK(again(5) == again(5));
  CHECK(again(5) != again(6));
}

TEST_CASE("samplers with cuts and biases, and the greedy one") {
  using cut = sampler::pipeline<sampler::temperature, sampler::top_k, sampler::top_p>;
  toy_masked<float> model{smooth_world};
  const auto same = [&](auto the_sampler, const generation_options& options) {
    const std::vector<token> prompt{1, 2, 3};
    auto quick = canvas_decoder<3>(model, 1, diffusion::order::confidence{},
                                   diffusion::verifier::stepwise_exact{}, the_sampler);
    auto slow = canvas_decoder<0>(model, 1, diffusion::order::confidence{},
                                  diffusion::verifier::stepwise_exact{}, the_sampler);
    const auto tokens = quick.generate(prompt, options, {.block_length = 5}).tokens;
    CHECK(tokens == slow.generate(prompt, options, {.block_length = 5}).tokens);
    return tokens;
  };
  generation_options options{.max_new_tokens = 20, .temperature = 1.0f, .seed = 3};
  options.top_k = 3;
  options.top_p = 0.8f;
  same(cut{}, options);
  options.top_k = 1;
  const auto narrow = same(cut{}, options);
  CHECK(narrow == same(sampler::greedy{}, {.max_new_tokens = 20}));
}

TEST_CASE("memory that begins as garbage, and an executor of one's own") {
  toy_masked<double> toy{world};
  padded_masked<toy_masked<double>> model(toy, 4 * 4 * 12);
  diffusion::decoder d(model, diffusion::order::confidence{}, fill_sampler{},
                       diffusion::verifier::stepwise_exact{}, diffusion::self_speculation<3>{},
                       diffusion::decoder_options{.max_batch = 4}, random_source<philox>{},
                       poisoned_host{});
  canvas_decoder_of any(d);
  CHECK(wrong_in_a_batch(any, 60) == 0);
}

TEST_CASE("requests are cancelled between rounds, and slots are used again") {
  toy_masked<double, cache_kind::of_blocks> model{world};
  {
    auto d = canvas_decoder<4>(model, 2);
    canvas_task task{std::vector<token>(13, world.mask), 1, 4};
    task.canvas[0] = 2;
    task.cached = true;
    const request_id first = add(d, task);
    const request_id second = add(d, task);
    CHECK_THROWS_AS(add(d, task), std::length_error);
    d.step();
    CHECK(d.cancel(first));
    CHECK(!d.cancel(first));
    CHECK(!d.is_running(first));
    CHECK(d.is_running(second));
    CHECK(d.running() == 1);
    const request_id third = add(d, task);
    CHECK(agrees(finish(d)[third], fill_stepwise(world, task)));
    CHECK(d.step().empty());
    add(d, task);
    d.step();
  }
  CHECK(!model.keeps_anything());  // the decoder's end cancels what runs
}

/// Noise that forgets the position.
struct stuck_source : random_source<philox> {
  template <Team T, class Real, class... List>
  token noisy_argmax(T& team, address a, const law<Real>& l, const List&... list) const {
    a.length = 0;
    return random_source<philox>::noisy_argmax(team, a, l, list...);
  }
};

/// Chi-squared of the texts of many seeds against the product of the laws of their tokens.
template <class Random>
double text_statistic(Random random) {
  constexpr canvas_world of{{4, 33, flavour::smooth}, 3};
  toy_masked<double> model{of};
  diffusion::decoder d(model, diffusion::order::left_to_right{}, fill_sampler{},
                       diffusion::verifier::stepwise_exact{}, diffusion::self_speculation<2>{},
                       diffusion::decoder_options{}, random);
  const std::vector<token> empty{0, 3, 3, 3};
  std::vector<double> law(27);
  for (std::int32_t code = 0; code < 27; ++code) {
    std::vector<token> canvas = empty;
    double p = 1.0;
    for (std::int32_t i = 0, rest = code; i < 3; ++i, rest /= 3) {
      status error = status::ok;
      const std::vector<double> w = textbook::weights(of.logits(canvas, i + 1), 3, 1.0, error);
      p *= textbook::score(w, rest % 3, rank_by::confidence);
      canvas[static_cast<std::size_t>(i) + 1] = rest % 3;
    }
    law[static_cast<std::size_t>(code)] = p;
  }
  std::vector<std::int64_t> counts(27);
  for (std::uint64_t seed = 0; seed < 60000; ++seed) {
    const auto t =
        d.generate(std::span(empty).first(1), {.max_new_tokens = 3, .seed = seed}).tokens;
    ++counts[static_cast<std::size_t>(t[0] + 3 * t[1] + 9 * t[2])];
  }
  return chi_squared(counts, law);
}

TEST_CASE("from left to right, texts have the law of drawing token by token") {
  const double right = text_statistic(random_source<philox>{});
  const double stuck = text_statistic(stuck_source{});
  MESSAGE("chi-squared " << right << " of 26 degrees of freedom, " << stuck
                         << " with noise that forgets the position");
  CHECK(right < bound(26.0));
  CHECK(stuck > bound(26.0));
}

}  // namespace
}  // namespace hunch::test
