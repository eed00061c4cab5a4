// SPDX-License-Identifier: Apache-2.0

// Published known answers of Philox, and that no composition ever asks for an address twice.

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <type_traits>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include <hunch/verifier/block.hpp>
#include <hunch/verifier/coupled.hpp>
#include <hunch/verifier/point_mass.hpp>
#include "../exact/exact.hpp"
#include "../exact/selectors.hpp"
#include "../support/full.hpp"
#include "../support/stages.hpp"
#include "../support/tree_drafter.hpp"

namespace hunch::test {
namespace {

TEST_CASE("Philox4x32-10 gives the published answers") {
  using words = philox::words;
  CHECK(philox::generate({{0, 0, 0, 0}}, 0, 0) ==
        words{{0x6627e8d5u, 0xe169c58du, 0xbc57ac4cu, 0x9b00dbd8u}});
  constexpr std::uint32_t ones = 0xffffffffu;
  CHECK(philox::generate({{ones, ones, ones, ones}}, ones, ones) ==
        words{{0x408f276du, 0x41c83b0eu, 0xa20bc7c6u, 0x6d5451fdu}});
  CHECK(philox::generate({{0x243f6a88u, 0x85a308d3u, 0x13198a2eu, 0x03707344u}}, 0xa4093822u,
                         0x299f31d0u) ==
        words{{0xd16cfe09u, 0x94fdccebu, 0x5001e420u, 0x24126ea1u}});
}

TEST_CASE("every field of an address reaches the word") {
  const address base{0x1234567890abcdefull, 7, 3, 1, purpose::accept};
  std::vector<std::uint64_t> words{philox{}(base)};
  const auto with = [&](auto change) {
    address a = base;
    change(a);
    words.push_back(philox{}(a));
  };
  with([](address& a) { a.seed ^= 1; });
  with([](address& a) { a.seed ^= std::uint64_t(1) << 32; });
  with([](address& a) { ++a.length; });
  with([](address& a) { ++a.node; });
  with([](address& a) { ++a.sibling; });
  for (const purpose p : {purpose::draft, purpose::residual, purpose::bonus}) {
    with([p](address& a) { a.what = p; });
  }
  std::ranges::sort(words);
  CHECK(std::ranges::adjacent_find(words) == words.end());
}

/// The production source, writing down what it is asked for.
struct recording_source {
  using record = std::pair<std::uint64_t, std::uint64_t>;
  using records = std::shared_ptr<std::vector<record>>;
  records asked = std::make_shared<std::vector<record>>();
  records noise = std::make_shared<std::vector<record>>();  ///< places whose addresses may return
  random_source<philox> inner;

  static record pack(const address& a) {
    require(a.node < 256 && a.sibling < 256, "an address that this test cannot pack");
    return {a.seed, (static_cast<std::uint64_t>(a.length) << 32) | (a.node << 16) |
                        (a.sibling << 8) | static_cast<std::uint32_t>(a.what)};
  }
  void note(const address& a) const {
    require(a.what != purpose::noise, "a decision by the noise that returns");
    asked->push_back(pack(a));
  }
  bool bernoulli(const address& a, double num, double den) const {
    note(a);
    return inner.bernoulli(a, num, den);
  }
  template <Team T, class Weight>
  std::int64_t categorical(T& team, const address& a, std::int64_t n, Weight&& weight) const {
    note(a);
    return inner.categorical(team, a, n, weight);
  }
  template <Team T, class Real, class... List>
  token noisy_argmax(T& team, const address& a, const law<Real>& l, const List&... list) const {
    require(a.what == purpose::noise, "noise with words of something else");
    noise->push_back(pack(a));
    return inner.noisy_argmax(team, a, l, list...);
  }
  static bool repeats(records of) {
    std::ranges::sort(*of);
    return std::ranges::adjacent_find(*of) != of->end();
  }
  bool repeats() const { return repeats(asked); }
};

static_assert(NoiseSource<recording_source>);

/// Keeps a decoder busy with requests of distinct seeds until it has made `steps` sequence steps.
/// \param stages whether the decoder's sampler has all of them.
template <class Decoder>
void keep_busy(Decoder& d, std::int64_t steps, float temperature, bool stages) {
  dice random{17};
  std::uint64_t seed = 0;
  while (d.stats().steps < steps) {
    if (d.running() < 4 && random.below(3) > 0) {
      text prompt;
      for (std::int32_t i = random.below(9); i >= 0; --i) { prompt.push_back(random.below(5)); }
      generation_options o = ask(1 + random.below(60), temperature);
      o.seed = seed++;
      o.stop_tokens = {4};
      if (stages) { o = with_some_stages(o, 5, random); }
      d.add(prompt, o);
    }
    if (random.below(50) == 0) { d.draft_length(random.below(5)); }
    d.step();
  }
}

template <class Drafter, class Selector, class S, class V>
recording_source recorded(Drafter drafter, Selector selector, S, V, float temperature = 1.0f) {
  recording_source source;
  toy_target<float> target{{5, 51}};
  decoder d{target,
            std::move(drafter),
            std::move(selector),
            S{},
            V{},
            decoder_options{.max_batch = 4, .chunk = 4, .draft_length = 4, .token_text = {}},
            source};
  keep_busy(d, full_run() ? 1'000'000 : 100'000, temperature, std::is_same_v<S, every_stage>);
  return source;
}

template <class Drafter, class Selector, class S, class V>
void check_addresses(Drafter drafter, Selector selector, S sampler, V rule,
                     float temperature = 1.0f) {
  const auto source = recorded(std::move(drafter), std::move(selector), sampler, rule, temperature);
  CHECK(source.asked->size() >= (V::needs_greedy ? std::size_t(0) : std::size_t(100'000)));
  CHECK(source.noise->empty());
  CHECK_FALSE(source.repeats());
}

TEST_CASE("no composition asks for an address twice") {
  toy_draft<float> draft{{5, 52}};
  toy_draft<float> shuffled{{5, 52}, shuffled_layout(5, 5)};
  using chain = drafter::autoregressive<toy_draft<float>&, tree::chain<4>>;
  const selector::full all{5};
  check_addresses(drafter::none{}, all, plain_sampler{}, verifier::rejection{});
  check_addresses(chain{draft}, all, plain_sampler{}, verifier::rejection{});
  check_addresses(chain{draft}, all, plain_sampler{}, verifier::block{});
  check_addresses(chain{draft}, all, plain_sampler{}, verifier::point_mass{});
  check_addresses(chain{draft}, all, every_stage{}, verifier::rejection{});
  check_addresses(chain{draft}, all, every_stage{}, verifier::block{});
  check_addresses(chain{draft}, all, sampler::greedy{}, verifier::rejection{}, 0.0f);
  check_addresses(chain{draft}, all, sampler::greedy{}, verifier::greedy{}, 0.0f);
  check_addresses(chain{shuffled}, selector::frequency{shuffled_layout(5, 5), 3}, plain_sampler{},
                  verifier::rejection{});
  check_addresses(chain{shuffled}, toy_selector{shuffled_layout(5, 5)}, plain_sampler{},
                  verifier::rejection{});
}

/// Several siblings at several nodes of several depths.
template <child_law Children>
tree_drafter<Children, 8> bushy() {
  return {{5, 52}, {-1, 0, 0, 1, 0, 1, 2, 3}};
}

TEST_CASE("no composition on trees asks for an address twice") {
  using enum child_law;
  const selector::full all{5};
  const toy_selector some{shuffled_layout(5, 5)};
  check_addresses(bushy<independent>(), all, plain_sampler{}, verifier::rejection{});
  check_addresses(bushy<without_replacement>(), all, plain_sampler{}, verifier::rejection{});
  check_addresses(bushy<without_replacement>(), some, every_stage{}, verifier::rejection{});
  check_addresses(bushy<independent>(), some, every_stage{}, verifier::point_mass{});
  check_addresses(bushy<ranked>(), all, plain_sampler{}, verifier::point_mass{});
}

TEST_CASE("with the coupled rule noise returns, and nothing else does") {
  toy_draft<float> draft{{5, 52}};
  using chain = drafter::autoregressive<toy_draft<float>&, tree::chain<4>>;
  const auto check = [](const recording_source& source, bool drafter_shares) {
    CHECK(source.noise->size() >= 100'000);
    CHECK(recording_source::repeats(source.noise) == drafter_shares);
    CHECK(source.asked->empty() == drafter_shares);
    CHECK_FALSE(source.repeats());
  };
  const selector::full all{5};
  check(recorded(chain{draft}, all, plain_sampler{}, verifier::coupled{}), true);
  check(recorded(chain{draft}, all, every_stage{}, verifier::coupled{}), true);
  // Distinct siblings cannot all be the argmax of one noise: they are drawn with words of their
  // own.
  check(recorded(bushy<child_law::without_replacement>(), all, every_stage{}, verifier::coupled{}),
        false);
  // In plain decoding no place of a text is drawn for twice.
  const auto plain = recorded(drafter::none{}, all, plain_sampler{}, verifier::coupled{});
  CHECK(plain.noise->size() >= 100'000);
  CHECK_FALSE(recording_source::repeats(plain.noise));
}

TEST_CASE("the record would show a source that is asked twice") {
  recording_source source;
  toy_target<float> target{{5, 51}};
  decoder d{target,          drafter::none{},       selector::full{5},
            plain_sampler{}, verifier::rejection{}, decoder_options{},
            source};
  for (int i = 0; i < 2; ++i) {  // two requests of one seed and one length
    generation_options o = ask(1);
    o.seed = 3;
    for (const token t : d.generate(text{1}, o)) { CHECK(t >= 0); }
  }
  CHECK(source.repeats());
}

}  // namespace
}  // namespace hunch::test
