// SPDX-License-Identifier: Apache-2.0

// A drafter and a verifier that are chosen when the program runs: every pair writes the texts of a
// decoder that is composed of the two alone, driven by the host and repeated by its executor, or is
// refused where that does not compile.

#include <cstdint>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include <hunch/decoder/decoder.hpp>
#include <hunch/decoder/resident_decoder.hpp>
#include <hunch/drafter/one_of.hpp>
#include <hunch/verifier/block.hpp>
#include <hunch/verifier/coupled.hpp>
#include <hunch/verifier/greedy.hpp>
#include <hunch/verifier/one_of.hpp>
#include <hunch/verifier/point_mass.hpp>
#include <hunch/verifier/rejection.hpp>
#include <hunch/verifier/typical.hpp>
#include "../support/erased_decoders.hpp"
#include "../support/hidden_host.hpp"
#include "../support/padded_grid_models.hpp"
#include "../support/table.hpp"

namespace hunch::test::chosen_test {
namespace {

using table::asked;
using table::requests_of;

constexpr std::int32_t vocab = 40;
constexpr std::int32_t batch = 3;
constexpr std::int32_t chunk = 4;

exact_case worlds() { return {{vocab, 91, flavour::smooth}, {vocab, 92, flavour::smooth}, {}}; }

constexpr length::fixed policy;
constexpr auto copies = [](auto&) { return drafter::lookup<3>{1}; };

/// Calls use(make...) with what makes each drafter of models.
template <class Use>
auto with_makers(const Use& use) {
  return use(by_model(chain{}, policy), by_model(sampled_tree{}, policy),
             by_model(deep_tree{}, policy), by_heads(chain{}, policy), copies);
}

/// One type for the drafters of such models.
template <class Models>
using any_drafter = typename decltype(with_makers([]<class... Make>(const Make&...) {
  return std::type_identity<drafter::one_of<std::invoke_result_t<Make, Models&>...>>{};
}))::type;

using any_verifier = verifier::one_of<verifier::rejection, verifier::block, verifier::point_mass,
                                      verifier::coupled, verifier::greedy>;
static_assert(Verifier<any_verifier> && any_verifier::lossless);
static_assert(std::is_trivially_copyable_v<any_verifier>);
static_assert(!verifier::one_of<verifier::rejection, verifier::typical>::lossless);

template <class Use>
void for_each_verifier(const Use& use) {
  use(verifier::rejection{});
  use(verifier::block{});
  use(verifier::point_mass{});
  use(verifier::coupled{});
  use(verifier::greedy{});
}

/// Whether a pair is refused when it is compiled alone. What is certain has laws beside others.
template <class D, class V, class S>
constexpr bool fits() {
  const bool certain = is_certain<D>;
  const child_law children = certain ? child_law::independent : D::children;
  return (!V::needs_draft_law || children != child_law::ranked) &&
         V::accepts(children, D::is_chain) && (!V::needs_greedy || S::always_greedy);
}

/// A greedy sampler has no stages and takes no temperature.
template <class S>
const std::vector<request>& asked_of() {
  static const std::vector<request> requests = [] {
    std::vector<request> all = requests_of(S::always_greedy ? asked::little : asked::repetition);
    for (request& r : all) { r.options.temperature = S::always_greedy ? 0.0f : 1.0f; }
    return all;
  }();
  return requests;
}

/// Of a decoder of these parts, driven by the host that reads what a step makes.
template <class D, class S, class V>
outcome driven(grid_and_eagle& m, D drafter, S sampler, V rule) {
  decoder d{m.target,
            std::move(drafter),
            selector::full{vocab},
            std::move(sampler),
            rule,
            decoder_options{.max_batch = batch, .chunk = chunk, .token_text = {}}};
  stepped_by by(d);
  return outcome_of(by, asked_of<S>(), batch);
}
/// Repeated by an executor whose memory the host does not read.
template <class D, class S, class V>
outcome repeated(padded_grid_models& m, D drafter, S sampler, V rule) {
  resident_decoder d{m.target,
                     std::move(drafter),
                     selector::full{vocab},
                     std::move(sampler),
                     rule,
                     resident_options{.max_batch = batch, .max_length = 64, .chunk = chunk},
                     random_source<>{},
                     hidden_host{}};
  repeated_by by(d);
  return outcome_of(by, asked_of<S>(), batch, 1);
}

std::string refusal(const auto& make) {
  try {
    make();
  } catch (const std::invalid_argument& e) { return e.what(); }
  return {};
}

/// Calls use(make, rule, fits) with every pair.
template <class Models, class S, class Use>
void for_each_pair(const Use& use) {
  const auto with = [&](const auto& make) {
    using drafter_type = std::invoke_result_t<decltype(make), Models&>;
    for_each_verifier([&](const auto& rule) {
      using rule_type = std::remove_cvref_t<decltype(rule)>;
      use(make, rule, std::bool_constant<fits<drafter_type, rule_type, S>()>{});
    });
  };
  with_makers([&](const auto&... make) { (with(make), ...); });
}

grid_and_eagle models() { return {worlds(), selector::full{vocab}.layout()}; }

/// The text of a pair that was chosen, driven by the host.
template <class S>
outcome chosen(const auto& make, const auto& rule) {
  grid_and_eagle m = models();
  const outcome found = driven(m, any_drafter<grid_and_eagle>(make(m)), S{}, any_verifier(rule));
  m.target.cache().check();
  m.draft.cache().check();
  return found;
}

/// And of a decoder of the two alone. Where copies have a law, which they do not have alone, that
/// of a cascade whose other drafter drafts nothing.
template <class S>
outcome alone(const auto& make, const auto& rule) {
  grid_and_eagle m = models();
  using rule_type = std::remove_cvref_t<decltype(rule)>;
  if constexpr (is_certain<decltype(make(m))> && rule_type::needs_draft_law) {
    return driven(m, drafter::cascade{make(m), by_model(chain{}, length::fixed{0})(m)}, S{}, rule);
  } else {
    return driven(m, make(m), S{}, rule);
  }
}

template <class S>
void compare() {
  int pairs = 0;
  int refused = 0;
  for_each_pair<grid_and_eagle, S>([&](const auto& make, const auto& rule, auto fits) {
    // Sampled and greedy texts are compared where each kind of rule is at home.
    if constexpr (S::always_greedy != std::remove_cvref_t<decltype(rule)>::needs_greedy && fits) {
      return;
    } else if constexpr (fits) {
      CHECK(chosen<S>(make, rule) == alone<S>(make, rule));
      ++pairs;
    } else {
      const std::string why = refusal([&] { chosen<S>(make, rule); });
      CHECK(why.find("was chosen") != std::string::npos);
      ++refused;
    }
  });
  CHECK(pairs == (S::always_greedy ? 5 : 17));
  CHECK(refused == (S::always_greedy ? 3 : 8));
}

TEST_CASE("chosen when the program runs: sampled texts") { compare<every_stage>(); }
TEST_CASE("chosen when the program runs: greedy texts") { compare<sampler::greedy>(); }

TEST_CASE("the comparison can fail") {
  const auto draws = by_model(chain{}, policy);
  CHECK(chosen<every_stage>(draws, verifier::rejection{}) !=
        chosen<every_stage>(draws, verifier::coupled{}));
}

TEST_CASE("chosen when the program runs: who reads streams, and drafters of several drafters") {
  const auto streams = by_streams(chain{}, policy);
  const auto cascaded = [](auto& m) {
    return drafter::cascade{copies(m), by_model(chain{}, policy)(m)};
  };
  const auto merged = [](auto& m) {
    return drafter::ensemble{copies(m), by_model(chain{}, policy)(m)};
  };
  using any =
      drafter::one_of<decltype(streams(std::declval<grid_and_eagle&>())), drafter::lookup<3>,
                      decltype(cascaded(std::declval<grid_and_eagle&>())),
                      decltype(merged(std::declval<grid_and_eagle&>()))>;
  const auto compared = [](const auto& make) {
    grid_and_eagle m = models();
    grid_and_eagle other = models();
    CHECK(driven(m, any(make(m)), every_stage{}, verifier::point_mass{}) ==
          driven(other, make(other), every_stage{}, verifier::point_mass{}));
    // What others read is not asked for.
    CHECK(m.target.read == other.target.read);
    return m.target.read;
  };
  CHECK(compared(streams) > 0);
  CHECK(compared(copies) == 0);
  CHECK(compared(cascaded) == 0);
  CHECK(compared(merged) == 0);
}

TEST_CASE("chosen when the program runs: repeated by an executor") {
  for_each_pair<padded_grid_models, every_stage>(
      [&](const auto& make, const auto& rule, auto fits) {
        if constexpr (fits) {
          using drafter_type = any_drafter<padded_grid_models>;
          grid_and_eagle hidden = models();
          padded_grid_models padded(hidden, batch, batch * drafter_type::max_nodes + chunk);
          CHECK(repeated(padded, drafter_type(make(padded)), every_stage{}, any_verifier(rule)) ==
                chosen<every_stage>(make, rule));
          hidden.target.cache().check();
          hidden.draft.cache().check();
        }
      });
}

}  // namespace
}  // namespace hunch::test::chosen_test
