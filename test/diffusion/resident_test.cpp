// SPDX-License-Identifier: Apache-2.0

// The loop that repeats its rounds unmasks what the loop does that the host drives, bit for bit,
// whether the host reads what a round makes or not: with every pair of policies.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <span>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include <hunch/diffusion/drafter/model_drafts.hpp>
#include <hunch/diffusion/order/entropy.hpp>
#include <hunch/diffusion/order/left_to_right.hpp>
#include <hunch/diffusion/resident_decoder.hpp>
#include <hunch/diffusion/verifier/top_k.hpp>
#include <hunch/length/confidence.hpp>
#include <hunch/length/entropy.hpp>
#include <hunch/length/ewma.hpp>
#include <hunch/sampler/bias.hpp>
#include <hunch/sampler/greedy.hpp>
#include <hunch/sampler/top_k.hpp>
#include <hunch/sampler/top_p.hpp>
#include "../support/hidden_host.hpp"
#include "../support/padded_canvas.hpp"
#include "../support/shown_canvas.hpp"
#include "../support/team_executors.hpp"
#include "fill.hpp"

namespace hunch::test::resident_test {
namespace {

constexpr std::int32_t vocab = 9;
constexpr std::int32_t max_batch = 17;
constexpr std::int32_t max_canvas = 24;
constexpr std::int32_t max_block = 8;
/// Some rows have no law.
constexpr canvas_world world{{vocab, 31, flavour::smooth},
                             8,
                             [](std::uint64_t h, std::int32_t, double* row) {
                               if (mix(h) % 64 == 0) {
                                 row[0] = std::numeric_limits<double>::quiet_NaN();
                               }
                             },
                             6};
constexpr canvas_world draft_world{{vocab, 33, flavour::smooth}, 8, nullptr, 6};

using staged =
    sampler::pipeline<sampler::bias, sampler::temperature, sampler::top_k, sampler::top_p>;

struct canvas_request {
  std::vector<token> prompt;
  generation_options options;
  std::vector<token> answer;
  std::int32_t block_length = 1;
  diffusion::canvas_options canvas() const {
    return {.block_length = block_length, .answer = answer};
  }
};

enum class sampling { by_temperature, greedy, staged };

template <class S>
constexpr sampling sampling_by = std::is_same_v<S, sampler::greedy> ? sampling::greedy
                                 : std::is_same_v<S, staged>        ? sampling::staged
                                                                    : sampling::by_temperature;

std::vector<canvas_request> requests_for(sampling by) {
  std::vector<canvas_request> requests;
  dice random{12};
  for (std::int32_t n = 0; n < 24; ++n) {
    canvas_request r;
    for (std::int32_t t = 0; t <= n % 4; ++t) { r.prompt.push_back(random.below(vocab - 1)); }
    r.options.max_new_tokens = 1 + 7 * n % 19;
    r.options.temperature = by == sampling::greedy || n % 4 == 3 ? 0.0f : 0.8f;
    r.options.seed = random.next();
    r.block_length = 1 + n % max_block;
    if (n % 3 == 0) { r.options.stop_tokens = {3, 6}; }
    if (n % 5 == 4) { r.answer = {world.mask, 2}; }
    if (static_cast<std::size_t>(r.options.max_new_tokens) < r.answer.size()) { r.answer.clear(); }
    if (by == sampling::staged) {
      r.options.top_k = n % 2 == 0 ? 5 : 0;
      r.options.top_p = 0.9f;
      if (n % 2 == 1) { r.options.bias = {{5, 1.5f}, {6, -2.0f}}; }
    }
    requests.push_back(r);
  }
  return requests;
}

/// What became of one request.
struct outcome {
  std::vector<diffusion::unmasking> unmaskings;
  std::vector<origin> origins;
  finish_reason finish = finish_reason::none;
  status failed = status::ok;
  std::int32_t failed_position = -1;
  friend bool operator==(const outcome&, const outcome&) = default;
};

void note(outcome& of, const ring_entry& e) {
  of.finish = e.finish;
  of.failed = e.status;
  if (e.t == no_token) {
    of.failed_position = e.position;
  } else {
    of.unmaskings.push_back({.position = e.position, .t = e.t});
    of.origins.push_back(e.origin);
  }
}

/// A decoder of either kind and any composition, so that what drives it is compiled once.
class any_driven {
 public:
  using outcomes = std::map<request_id, outcome*>;

  virtual request_id add(const canvas_request& r) = 0;
  virtual std::int32_t running() const = 0;
  virtual void advance(const outcomes& of, std::int32_t batch) = 0;

 protected:
  ~any_driven() = default;
};

void take(std::span<const diffusion::emission> emissions, const any_driven::outcomes& of) {
  for (const diffusion::emission& e : emissions) {
    outcome& o = *of.at(e.id);
    o.unmaskings.insert(o.unmaskings.end(), e.unmaskings.begin(), e.unmaskings.end());
    o.origins.insert(o.origins.end(), e.origins.begin(), e.origins.end());
    o.finish = e.finish;
    o.failed = e.status;
    o.failed_position = e.failed_position;
  }
}
void take(const ring_entry& e, const any_driven::outcomes& of) { note(*of.at(e.id), e); }

template <class D>
class driven_by_host final : public any_driven {
 public:
  explicit driven_by_host(D& d) : d_(&d) {}
  request_id add(const canvas_request& r) override {
    return d_->add(r.prompt, r.options, r.canvas());
  }
  std::int32_t running() const override { return d_->running(); }
  void advance(const outcomes& of, std::int32_t) override { take(d_->step(), of); }

 private:
  D* d_;
};
template <class D>
class driven_by_executor final : public any_driven {
 public:
  explicit driven_by_executor(D& d) : d_(&d) {}
  request_id add(const canvas_request& r) override {
    return d_->add(r.prompt, r.options, r.canvas());
  }
  std::int32_t running() const override { return d_->running(); }
  void advance(const outcomes& of, std::int32_t batch) override {
    d_->run(batch == 3 ? 1 : 1000);
    d_->poll([&](const ring_entry& e) { take(e, of); });
  }

 private:
  D* d_;
};

/// Adds requests as there is room, and advances the decoder until all have ended.
std::vector<outcome> all_of(any_driven& d, sampling by, std::int32_t batch) {
  const std::vector<canvas_request> requests = requests_for(by);
  std::vector<outcome> out(requests.size());
  any_driven::outcomes of;
  std::size_t added = 0;
  while (added < requests.size() || d.running() > 0) {
    while (added < requests.size() && d.running() < batch) {
      of[d.add(requests[added])] = &out[added];
      ++added;
    }
    d.advance(of, batch);
  }
  return out;
}

template <class E, class Model, class O, class S, class V, class D>
std::vector<outcome> driven(E executor, Model& model, O order, S sampler, V verifier, D drafts,
                            std::int32_t batch) {
  diffusion::decoder<Model&, O, S, V, D, random_source<philox>, E> d(
      model, std::move(order), std::move(sampler), std::move(verifier), std::move(drafts),
      diffusion::decoder_options{.max_batch = batch, .max_canvas = max_canvas}, {}, executor);
  driven_by_host any(d);
  return all_of(any, sampling_by<S>, batch);
}

void check_steps(std::int64_t steps) { CHECK(steps > 0); }

template <class E, class Model, class O, class S, class V, class D>
std::vector<outcome> repeated(E executor, Model& model, O order, S sampler, V verifier, D drafts,
                              std::int32_t batch) {
  diffusion::resident_decoder<Model&, O, S, V, D, random_source<philox>, E> d(
      model, std::move(order), std::move(sampler), std::move(verifier), std::move(drafts),
      diffusion::resident_options{.max_batch = batch,
                                  .max_canvas = max_canvas,
                                  .max_block = max_block,
                                  .ring = batch == 1 ? 6 : 64},
      {}, executor);
  driven_by_executor any(d);
  auto out = all_of(any, sampling_by<S>, batch);
  check_steps(d.stats().steps);
  return out;
}

/// Where drafts come from, over a model that the decoder's host reaches, or one that it does not.
template <std::int32_t N, class L = length::fixed>
struct by_itself {
  double spread = diffusion::default_spread;
  L length{};

  auto make() const { return diffusion::self_speculation<N, L>{length, spread}; }
  auto make_padded(std::int32_t) const { return make(); }
};

template <std::int32_t N, class L = length::fixed>
struct by_model {
  L length{};
  toy_masked<double> toy = drafting();

  static toy_masked<double> drafting() {
    toy_masked<double> model{draft_world};
    model.drafts = true;
    return model;
  }
  auto make() { return diffusion::drafted_by<N>(toy, length); }
  auto make_padded(std::int32_t batch) {
    return diffusion::drafted_by<N>(padded_masked<toy_masked<double>>(toy, batch * max_block),
                                    length);
  }
};

template <std::int32_t N>
struct by_head {
  shown_canvas<double> toy = drafting();

  static shown_canvas<double> drafting() {
    shown_canvas<double> model{draft_world};
    model.drafts = true;
    return model;
  }
  auto make() { return diffusion::drafted_by<N>(toy); }
  auto make_padded(std::int32_t batch) {
    return diffusion::drafted_by<N>(padded_masked<shown_canvas<double>>(toy, batch * max_block));
  }
};

/// Decoders of any composition. Each call makes them anew.
class composition {
 public:
  struct of_hidden {
    std::vector<outcome> repeated;
    std::vector<outcome> driven;
    bool keeps_anything;
  };

  virtual std::vector<outcome> driven() = 0;
  virtual std::vector<outcome> repeated(std::int32_t batch) = 0;
  /// Both on a host that does not read what a round makes.
  virtual of_hidden hidden(std::int32_t batch) = 0;

 protected:
  ~composition() = default;
};

template <class Toy, class O, class S, class V, class Drafts>
class composed final : public composition {
 public:
  composed(O order, S sampler, V verifier, Drafts drafts)
      : order_(order), sampler_(sampler), verifier_(verifier), drafts_(std::move(drafts)) {}

  std::vector<outcome> driven() override {
    Toy model{world};
    return resident_test::driven(executor::host{}, model, order_, sampler_, verifier_,
                                 drafts_.make(), max_batch);
  }
  std::vector<outcome> repeated(std::int32_t batch) override {
    Toy model{world};
    return resident_test::repeated(executor::host{}, model, order_, sampler_, verifier_,
                                   drafts_.make(), batch);
  }
  of_hidden hidden(std::int32_t batch) override {
    Toy model{world};
    constexpr std::int32_t canvases = decltype(drafts_.make())::max_drafts + 1;
    padded_masked<Toy> padded(model, batch * canvases * (max_block + canvases));
    of_hidden found;
    found.repeated = resident_test::repeated(hidden_host{}, padded, order_, sampler_, verifier_,
                                             drafts_.make_padded(batch), batch);
    found.driven = resident_test::driven(hidden_host{}, padded, order_, sampler_, verifier_,
                                         drafts_.make_padded(batch), batch);
    found.keeps_anything = model.keeps_anything();
    return found;
  }

 private:
  O order_;
  S sampler_;
  V verifier_;
  Drafts drafts_;
};

void both_ways(composition& of) {
  const std::vector<outcome> expected = of.driven();
  std::size_t failed = 0;
  for (const outcome& o : expected) { failed += o.failed == status::ok ? 0 : 1; }
  CHECK(failed > 0);
  CHECK(failed < expected.size() / 2);
  for (const std::int32_t batch : {1, 3, max_batch}) {
    CAPTURE(batch);
    CHECK(of.repeated(batch) == expected);
    const composition::of_hidden hidden = of.hidden(batch);
    CHECK(hidden.repeated == expected);
    CHECK(hidden.driven == expected);
    CHECK(!hidden.keeps_anything);
  }
}

template <class Toy = toy_masked<double>, class O, class S, class V, class Drafts>
void both_ways(O order, S sampler, V verifier, Drafts drafts) {
  composed<Toy, O, S, V, Drafts> of(order, sampler, verifier, std::move(drafts));
  both_ways(of);
}

using diffusion::order::confidence;
using diffusion::order::left_to_right;
using diffusion::verifier::stepwise_exact;
using diffusion::verifier::top_k;

TEST_CASE("drafts of the round before, both ways") {
  both_ways(confidence{}, fill_sampler{}, stepwise_exact{}, by_itself<0>{});
  both_ways(confidence{}, staged{}, stepwise_exact{}, by_itself<4>{});
  both_ways(diffusion::order::entropy{}, sampler::greedy{}, stepwise_exact{}, by_itself<3>{0.4});
  both_ways(left_to_right{}, fill_sampler{}, top_k{3}, by_itself<2, length::ewma>{});
  both_ways(diffusion::order::entropy{}, staged{}, top_k{2}, by_itself<3, length::entropy>{});
  both_ways(left_to_right{}, sampler::greedy{}, stepwise_exact{}, by_itself<5>{});
  both_ways(confidence{}, sampler::greedy{}, top_k{2}, by_itself<4>{0.0});
}

TEST_CASE("drafts of a model, both ways") {
  both_ways(confidence{}, fill_sampler{}, stepwise_exact{}, by_model<3>{});
  both_ways(diffusion::order::entropy{}, sampler::greedy{}, top_k{2},
            by_model<2, length::confidence>{});
  both_ways(left_to_right{}, staged{}, stepwise_exact{}, by_model<1>{});
}

TEST_CASE("drafts of what reads the target's passes, both ways") {
  both_ways(confidence{}, staged{}, stepwise_exact{}, by_head<3>{});
  both_ways(diffusion::order::entropy{}, fill_sampler{}, top_k{3}, by_head<2>{});
}

TEST_CASE("a block cache, both ways") {
  using cached = toy_masked<double, cache_kind::of_blocks>;
  both_ways<cached>(confidence{}, fill_sampler{}, stepwise_exact{}, by_itself<3>{});
  both_ways<cached>(confidence{}, sampler::greedy{}, stepwise_exact{}, by_model<2>{});
}

TEST_CASE("rounds that are repeated by teams of threads") {
  const auto unmasked = [](auto executor) {
    toy_masked<double> model{world};
    return repeated(executor, model, confidence{}, fill_sampler{}, stepwise_exact{},
                    by_itself<3>{}.make(), 3);
  };
  CHECK(unmasked(threads{{}, 1, 3, 2}) == unmasked(executor::host{}));
}

/// A model in whose passes something happens besides.
struct interrupted : toy_masked<double> {
  using base = toy_masked<double>;
  using base::base;
  std::function<void()> meanwhile;

  auto evaluate(const diffusion::canvases& asked) {
    if (meanwhile) { meanwhile(); }
    return base::evaluate(asked);
  }
};

TEST_CASE("requests come, are cancelled and are polled while a loop runs") {
  const std::vector<canvas_request> requests = requests_for(sampling::by_temperature);
  const auto make = [](interrupted& model) {
    return diffusion::resident_decoder<interrupted&, confidence, fill_sampler, stepwise_exact>(
        model, {}, {}, {}, {},
        diffusion::resident_options{.max_batch = 4, .max_canvas = max_canvas});
  };
  interrupted alone{world};
  std::vector<outcome> expected;
  for (const canvas_request& r : requests) {
    auto d = make(alone);
    d.add(r.prompt, r.options, r.canvas());
    outcome& o = expected.emplace_back();
    d.run();
    d.poll([&](const ring_entry& e) { note(o, e); });
  }

  interrupted model{world};
  auto d = make(model);
  std::map<request_id, std::size_t> of;
  std::vector<outcome> found(requests.size());
  std::vector<std::size_t> cancelled;
  std::size_t added = 0;
  std::int32_t passes = 0;
  const auto add_some = [&] {
    while (added < requests.size()) {
      const canvas_request& r = requests[added];
      try {
        of[d.add(r.prompt, r.options, r.canvas())] = added;
      } catch (const std::length_error&) { return; }  // the ends of others are not polled
      ++added;
    }
  };
  model.meanwhile = [&] {
    CHECK(d.runs());
    d.poll([&](const ring_entry& e) { note(found[of.at(e.id)], e); });
    add_some();
    if (++passes % 11 == 0 && d.cancel(of.rbegin()->first)) {
      cancelled.push_back(of.rbegin()->second);
    }
  };
  while (added < requests.size() || d.running() > 0) {
    add_some();
    d.run();
    d.poll([&](const ring_entry& e) { note(found[of.at(e.id)], e); });
  }
  CHECK(cancelled.size() > 1);
  CHECK(cancelled.size() < 12);
  for (const std::size_t n : cancelled) { found[n] = expected[n]; }
  CHECK(found == expected);
}

TEST_CASE("one answer, as it is asked for, and what a loop refuses") {
  toy_masked<double> model{draft_world, 30};
  diffusion::resident_decoder d(model, confidence{}, fill_sampler{}, stepwise_exact{},
                                diffusion::self_speculation<3>{},
                                diffusion::resident_options{.max_block = 6, .max_stop_tokens = 1});
  static_assert(decltype(d)::lossless);
  auto host = canvas_decoder<3>(model);
  const std::vector<token> prompt{1, 2};
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    const generation_options options{
        .max_new_tokens = 12, .temperature = 0.9f, .seed = seed, .stop_tokens = {4}};
    const finished_text found = d.generate(prompt, options, {.block_length = 5});
    const finished_text expected = host.generate(prompt, options, {.block_length = 5});
    CHECK(found.tokens == expected.tokens);
    CHECK(found.finish == expected.finish);
  }
  const auto why = [&](const generation_options& options, std::int32_t block_length) {
    try {
      d.add(prompt, options, {.block_length = block_length});
    } catch (const std::invalid_argument& e) { return std::string(e.what()); }
    return std::string();
  };
  const auto contains = [](const std::string& text, const char* part) {
    return text.starts_with("hunch::diffusion::resident_decoder: ") &&
           text.find(part) != std::string::npos;
  };
  CHECK(contains(why({.max_new_tokens = 9}, 7), "max_block"));
  CHECK(contains(why({.max_new_tokens = 9, .stop_tokens = {1, 2}}, 4), "max_stop_tokens"));
  CHECK(contains(why({.max_new_tokens = 40}, 4), "the decoder has room for 30"));
  CHECK(why({.max_new_tokens = 5}, 40).empty());  // one block of five
  CHECK(d.running() == 1);
}

TEST_CASE("a masked model that moves its logits is refused where a loop is repeated") {
  toy_masked<double> toy{draft_world};
  struct moving : padded_masked<toy_masked<double>> {
    using base = padded_masked<toy_masked<double>>;
    using base::base;
    std::vector<double> other = std::vector<double>(1000 * vocab);
    bool moved = false;
    struct evaluation {
      moving* of;
      base::evaluation inner;
      row_view<double> logits(std::int32_t i) const {
        return of->moved ? row_view<double>{of->other.data() + i * vocab, vocab} : inner.logits(i);
      }
    };
    evaluation evaluate(const diffusion::canvases& asked) { return {this, base::evaluate(asked)}; }
  };
  moving model{toy, 400};
  diffusion::resident_decoder d(model, confidence{}, fill_sampler{}, stepwise_exact{},
                                diffusion::self_speculation<3>{},
                                diffusion::resident_options{.max_canvas = 12, .max_block = 4},
                                random_source<philox>{}, hidden_host{});
  d.add(std::vector<token>{1}, {.max_new_tokens = 8}, {.block_length = 4});
  d.run(1);
  model.moved = true;
  CHECK_THROWS_AS(d.run(1), std::logic_error);
  model.moved = false;
  d.run();
  std::int32_t unmasked = 0;
  d.poll([&](const ring_entry&) { ++unmasked; });
  CHECK(unmasked == 8);
}

}  // namespace
}  // namespace hunch::test::resident_test
