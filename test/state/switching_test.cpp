// SPDX-License-Identifier: Apache-2.0

// Requests that change their drafter between steps: each is ended in one decoder and goes on in
// another one with the text that it has. With noise that belongs to places of the text, and with
// greedy text, the result is known: that of plain decoding.

#include <algorithm>
#include <cstdint>
#include <memory>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include <hunch/drafter/cascade.hpp>
#include <hunch/drafter/ensemble.hpp>
#include <hunch/drafter/heads.hpp>
#include <hunch/drafter/lookup.hpp>
#include <hunch/drafter/pruned.hpp>
#include <hunch/drafter/streaming.hpp>
#include <hunch/length/cost.hpp>
#include <hunch/length/ewma.hpp>
#include <hunch/tree/dynamic.hpp>
#include <hunch/tree/fixed.hpp>
#include <hunch/tree/sampled.hpp>
#include <hunch/verifier/coupled.hpp>
#include "../exact/exact.hpp"
#include "../support/full.hpp"
#include "../support/toy_heads.hpp"
#include "../support/toy_streams.hpp"

namespace hunch::test::switching_test {
namespace {

constexpr std::int32_t vocab = 7;
constexpr toy_world target_world{vocab, 71, flavour::sharp};
constexpr toy_world draft_world{vocab, 71, flavour::smooth};
constexpr tree::choices some{{0}, {1}, {0, 0}, {1, 0}};
constexpr double curve[] = {1.0, 1.1, 1.2, 1.4, 1.6, 1.8};

/// A decoder of any type, with a target of its own.
struct any_decoder {
  virtual ~any_decoder() = default;
  virtual request_id add(const text& prompt, const generation_options& options) = 0;
  virtual void cancel(request_id id) = 0;
  virtual std::span<const emission> step() = 0;
  virtual void draft_length(std::int32_t length) = 0;
  virtual void check() = 0;
  virtual std::int64_t accepted() const = 0;
};

using some_target = toy_stream_target<float>;

/// \tparam Make makes its drafter of the target.
template <class Make, class V, class S>
struct decoder_of final : any_decoder {
  decoder_of(const Make& make, V verifier, S sampler, std::int32_t max_batch)
      : all{target,
            make(target),
            selector::full{vocab},
            S(sampler),
            V(verifier),
            decoder_options{.max_batch = max_batch, .chunk = 3, .token_text = {}}} {}

  request_id add(const text& prompt, const generation_options& options) override {
    return all.add(prompt, options);
  }
  void cancel(request_id id) override { REQUIRE(all.cancel(id)); }
  std::span<const emission> step() override { return all.step(); }
  void draft_length(std::int32_t length) override { all.draft_length(length); }
  void check() override { target.cache().check(); }
  std::int64_t accepted() const override { return all.stats().accepted; }

  some_target target{target_world};
  decoder<some_target&, std::invoke_result_t<Make, some_target&>, selector::full, S, V> all;
};

/// Decoders of every drafter, by one rule.
template <class V, class S>
std::vector<std::unique_ptr<any_decoder>> decoders(V verifier, S sampler, std::int32_t max_batch) {
  std::vector<std::unique_ptr<any_decoder>> all;
  const auto add_made = [&](auto make) {
    all.push_back(
        std::make_unique<decoder_of<decltype(make), V, S>>(make, verifier, sampler, max_batch));
  };
  const auto add = [&](auto drafter) { add_made([drafter](some_target&) { return drafter; }); };
  const auto model = [] { return toy_draft<float>{draft_world}; };
  const auto heads = [] { return toy_heads<float>{draft_world, 3, vocab_layout::identity(vocab)}; };
  add(drafter::none{});
  add(drafter::autoregressive{model(), tree::chain<4>{}});
  add(drafter::autoregressive{model(), tree::chain<4>{}, length::ewma{}});
  add(drafter::autoregressive{model(), tree::sampled<2, 2>{}});
  add(drafter::autoregressive{model(), tree::dynamic<2, 3, 6>{},
                              length::cost{.draft = 0.1, .rows = curve}});
  add(drafter::autoregressive{toy_draft<float>{draft_world, 16}, tree::fixed<some>{}});
  add(drafter::heads{heads(), tree::dynamic<3, 2, 5>{}});
  add(drafter::heads{heads(), tree::sampled<2, 1>{}});
  add(drafter::lookup<4>{});
  add(drafter::ensemble{drafter::nodes<7>{}, drafter::lookup<4>{},
                        drafter::heads{heads(), tree::dynamic<3, 2, 5>{}}});
  add(drafter::cascade{drafter::lookup<4>{2}, drafter::autoregressive{model(), tree::chain<4>{}}});
  const auto head = [] {
    return toy_stream_head<float>{draft_world, 3, vocab_layout::identity(vocab)};
  };
  add(drafter::streaming{head(), tree::dynamic<3, 3, 6>{}});
  add_made([head](some_target& target) {
    return drafter::pruned{
        drafter::streaming{head(), tree::dynamic<3, 3, 9>{}},
        toy_view<some_target, float>{target, draft_world, vocab_layout::identity(vocab)}, 4};
  });
  return all;
}

/// One request that wanders.
struct wanderer {
  generation_options options;
  std::size_t prompt = 0;
  text committed;
  text expected;
  std::size_t at = 0;  ///< its decoder
  request_id id = 0;

  std::int32_t left() const {
    return options.max_new_tokens - static_cast<std::int32_t>(committed.size() - prompt);
  }
};

template <class V, class S>
void wander(V verifier, S sampler, float temperature, std::uint64_t seed) {
  constexpr std::int32_t batch = 4;
  auto all = decoders(verifier, sampler, batch);
  dice random{seed};
  std::vector<wanderer> running;
  const auto enter = [&](wanderer& w, std::size_t at) {
    generation_options rest = w.options;
    rest.max_new_tokens = w.left();
    w.at = at;
    w.id = all[at]->add(w.committed, rest);
  };
  std::int64_t moved = 0;
  std::int64_t finished = 0;
  for (std::int64_t i = full_run() ? 200'000 : 20'000; i > 0; --i) {
    const std::int32_t dice_roll = random.below(100);
    if (dice_roll < 25 && running.size() < batch) {
      wanderer w;
      for (std::int32_t n = random.below(8); n >= 0; --n) {
        w.committed.push_back(random.below(vocab));
      }
      w.prompt = w.committed.size();
      w.options = ask(1 + random.below(30), temperature);
      w.options.seed = random.next();
      // What plain decoding makes of it, in a decoder that it has for itself.
      toy_hidden_target<float> alone{target_world};
      decoder plain{alone, drafter::none{}, selector::full{vocab}, sampler, verifier};
      for (const token t : plain.generate(w.committed, w.options)) { w.expected.push_back(t); }
      enter(w, static_cast<std::size_t>(random.below(static_cast<std::int32_t>(all.size()))));
      running.push_back(std::move(w));
    } else if (dice_roll < 45 && !running.empty()) {
      wanderer& w = running[static_cast<std::size_t>(
          random.below(static_cast<std::int32_t>(running.size())))];
      all[w.at]->cancel(w.id);
      enter(w, static_cast<std::size_t>(random.below(static_cast<std::int32_t>(all.size()))));
      ++moved;
    } else if (dice_roll < 55) {
      all[static_cast<std::size_t>(random.below(static_cast<std::int32_t>(all.size())))]
          ->draft_length(random.below(6));
    } else {
      for (auto& d : all) {
        for (const emission& e : d->step()) {
          REQUIRE(e.status == status::ok);
          const auto found = std::ranges::find_if(running, [&](const wanderer& w) {
            return w.id == e.id && all[w.at].get() == d.get();
          });
          REQUIRE(found != running.end());
          found->committed.insert(found->committed.end(), e.tokens.begin(), e.tokens.end());
          if (e.finish == finish_reason::none) { continue; }
          const text emitted(found->committed.begin() + static_cast<std::ptrdiff_t>(found->prompt),
                             found->committed.end());
          REQUIRE(emitted == found->expected);
          ++finished;
          running.erase(found);
        }
        d->check();
      }
    }
  }
  CHECK(moved > 1000);
  CHECK(finished > 100);
  for (std::size_t d = 1; d < all.size(); ++d) {
    CAPTURE(d);
    CHECK(all[d]->accepted() > 0);
  }
}

TEST_CASE("requests that change their drafter, with noise of places") {
  wander(verifier::coupled{}, plain_sampler{}, 0.8f, 21);
}

TEST_CASE("requests that change their drafter, greedy") {
  wander(verifier::coupled{}, plain_sampler{}, 0.0f, 22);
  wander(verifier::greedy{}, sampler::greedy{}, 0.0f, 23);
}

}  // namespace
}  // namespace hunch::test::switching_test
