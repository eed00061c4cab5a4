// SPDX-License-Identifier: Apache-2.0

// Values of nodes and evidence about drafts where rounding, repeats and other requests could show.

#include <algorithm>
#include <cstdint>
#include <vector>

#include <doctest/doctest.h>

#include <hunch/drafter/heads.hpp>
#include <hunch/length/cost.hpp>
#include <hunch/tree/dynamic.hpp>
#include <hunch/tree/sampled.hpp>
#include <hunch/verifier/point_mass.hpp>
#include "../exact/exact.hpp"
#include "../support/toy_heads.hpp"

namespace hunch::test {
namespace {

/// The first head as it is; the later ones are sure of one token.
struct sure_heads : toy_heads<float> {
  using toy_heads<float>::toy_heads;

  void head(const states& s, const head_rows<float>& h) {
    toy_heads<float>::head(s, h);
    for (std::int32_t i = 0; i < h.size; ++i) {
      if (h.row[i] % heads() == 0) { continue; }
      for (std::int32_t at = 0; at < h.logits[i].size; ++at) {
        h.logits[i][at] = h.lists[i].token_at(at) == 3 ? 60.0f : 0.0f;
      }
    }
  }
};

TEST_CASE("a parent comes before its children, also where a head is sure") {
  // The target refuses rows whose parent is not there, and the step would throw.
  toy_hidden_target<float> target{{40, 5, flavour::smooth}};
  sure_heads model{{40, 6, flavour::sharp}, 3, vocab_layout::identity(40)};
  decoder d{target, drafter::heads{model, tree::dynamic<20, 3, 61>{}}, selector::full{40},
            plain_sampler{}, verifier::point_mass{}};
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    auto options = ask(20);
    options.seed = seed;
    d.add(text{1, 2}, options);
    while (d.running() > 0) { d.step(); }
  }
  target.cache().check();
  CHECK(d.stats().drafted > 10'000);
}

TEST_CASE("a policy that learns does so when a step is observed, not before") {
  static constexpr double curve[] = {1.0, 1.1, 1.6, 2.4, 3.4, 4.6, 6.0};
  for (const bool calibrated : {false, true}) {
    const length::cost policy{.draft = 0.1, .rows = curve, .calibrated = calibrated};
    length::cost::memory once;
    const std::int32_t first = policy.begin(once, 6);
    const double rate = once.rate;
    policy.continues(once, {1, 0.9, 0.9, 0.0, 5});
    policy.continues(once, {2, 0.2, 0.2, 0.0, 9});
    // The step was not made: it is begun again as it was.
    CHECK(policy.begin(once, 6) == first);
    CHECK(once.rate == rate);
    // Negative control: once it is observed, it may be begun otherwise.
    policy.continues(once, {1, 0.9, 0.9, 0.0, 5});
    policy.observe(once, 1, 0);
    policy.begin(once, 6);
    CHECK(once.rate != rate);
  }
}

TEST_CASE("drafts of a request by cost do not depend on the batch") {
  static constexpr double curve[] = {1.0, 1.1, 1.6, 2.4, 3.4, 4.6, 6.0};
  const auto texts = [&](std::vector<std::uint64_t> seeds) {
    toy_target<float> target{{9, 5, flavour::masked}};
    toy_draft<float> draft{{9, 5, flavour::masked}};
    decoder d{target,
              drafter::autoregressive{draft, tree::sampled<3, 2, 1, 1>{},
                                      length::cost{.draft = 0.1, .rows = curve}},
              selector::full{9},
              top_p_sampler{},
              verifier::rejection{},
              decoder_options{.max_batch = 4, .token_text = {}}};
    std::vector<text> out(seeds.size());
    std::vector<request_id> ids;
    for (const std::uint64_t seed : seeds) {
      auto options = ask(40, 1.0f, 0, 0.6f);
      options.seed = seed;
      ids.push_back(d.add(text{1, static_cast<token>(seed % 9)}, options));
    }
    while (d.running() > 0) {
      for (const emission& e : d.step()) {
        const auto at = static_cast<std::size_t>(std::ranges::find(ids, e.id) - ids.begin());
        out[at].insert(out[at].end(), e.tokens.begin(), e.tokens.end());
      }
    }
    return out;
  };
  for (std::uint64_t seed = 1; seed < 40; ++seed) {
    CHECK(texts({seed})[0] == texts({seed, seed + 50, seed + 100, seed + 150})[0]);
  }
}

}  // namespace
}  // namespace hunch::test
