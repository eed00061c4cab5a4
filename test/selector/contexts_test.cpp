// SPDX-License-Identifier: Apache-2.0

// Draft models say what they know of rows one by one, or of all rows of a pass: the same texts.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include <doctest/doctest.h>

#include <hunch/decoder/decoder.hpp>
#include <hunch/drafter/autoregressive.hpp>
#include <hunch/sampler/pipeline.hpp>
#include <hunch/sampler/temperature.hpp>
#include <hunch/selector/clustered.hpp>
#include <hunch/tree/dynamic.hpp>
#include <hunch/tree/sampled.hpp>
#include <hunch/verifier/point_mass.hpp>
#include <hunch/verifier/rejection.hpp>
#include "../support/toy_model.hpp"
#include "../support/toy_router.hpp"

namespace hunch::test {
namespace {

constexpr std::int32_t vocab = 61;
using plain_draft = toy_draft<float>;

/// Tells of all rows of a pass at once; between them lies what nobody may read.
struct tabled_draft : plain_draft {
  using plain_draft::plain_draft;
  static constexpr std::int32_t stride = toy_context_size + 3;

  bool knows = true;  ///< else it tells the same of all rows
  std::int64_t asked = 0;
  std::vector<float> table;

  struct hidden_states : plain_draft::hidden_states {
    tabled_draft* of;
    context_rows contexts() const {
      ++of->asked;
      return {of->table.data(), stride};
    }
  };

  hidden_states forward(const rows& r) {
    auto hidden = plain_draft::forward(r);
    table.assign(static_cast<std::size_t>(r.size) * stride,
                 std::numeric_limits<float>::quiet_NaN());
    for (std::int32_t i = 0; i < r.size; ++i) {
      if (r.wanted[i] == 0) { continue; }
      float* const to = table.data() + std::int64_t{i} * stride;
      std::fill_n(to, toy_context_size, 0.0f);
      if (knows) { std::copy_n(hidden.context(i), toy_context_size, to); }
    }
    return {hidden, this};
  }
};
static_assert(RoutedModel<plain_draft> && RoutedModel<tabled_draft>);

template <class Draft, class Tree, class V>
std::vector<std::vector<token>> texts(
    Draft& draft, Tree tree, V verifier,
    const selector::clustered<router::mlp<float>, budget::fixed>& selector) {
  toy_target<float> target{{vocab, 5, flavour::smooth}};
  decoder d{target,   drafter::autoregressive{draft, tree},
            selector, sampler::pipeline<sampler::temperature>{},
            verifier, decoder_options{.max_batch = 3, .token_text = {}}};
  std::vector<std::vector<token>> out(3);
  for (const std::uint64_t seed : {1u, 2u, 3u}) {
    generation_options options;
    options.max_new_tokens = 40;
    options.seed = seed;
    d.add(std::vector<token>(static_cast<std::size_t>(2 * seed), static_cast<token>(seed)),
          options);
  }
  while (d.running() > 0) {
    for (const emission& e : d.step()) {
      auto& text = out[static_cast<std::size_t>(e.id - 1)];
      text.insert(text.end(), e.tokens.begin(), e.tokens.end());
    }
  }
  return out;
}

TEST_CASE("contexts of all rows of a pass are those of each") {
  const auto layout = vocab_layout::identity(vocab).clustered({2, 9, 16, 17, 30, 45, vocab});
  const toy_router weights(toy_context_size, 6, 7);
  const selector::clustered selector{layout, weights.view(), budget::fixed{3}};
  const auto same = [&](auto tree, auto verifier) {
    plain_draft one_by_one{{vocab, 6, flavour::smooth}, layout};
    tabled_draft together{{vocab, 6, flavour::smooth}, layout};
    const auto expected = texts(one_by_one, tree, verifier, selector);
    CHECK(texts(together, tree, verifier, selector) == expected);
    CHECK(together.asked > 10);
    // Negative control: the texts show what the router was told.
    tabled_draft blind{{vocab, 6, flavour::smooth}, layout};
    blind.knows = false;
    CHECK(texts(blind, tree, verifier, selector) != expected);
  };
  same(tree::sampled<2, 2, 1>{}, verifier::rejection{});
  same(tree::dynamic<4, 3, 12>{}, verifier::point_mass{});
}

}  // namespace
}  // namespace hunch::test
