// SPDX-License-Identifier: Apache-2.0

// With the coupled verifier the drafter does not matter, bit for bit: the text is that of plain
// decoding with the same seed.

#include <cstdint>
#include <map>
#include <vector>

#include <hunch/verifier/coupled.hpp>
#include "../support/tree_drafter.hpp"
#include "exact.hpp"
#include "selectors.hpp"

namespace hunch::test {
namespace {

constexpr std::int32_t vocab = 40;
constexpr toy_world world{vocab, 71, flavour::smooth};

std::vector<request> some_requests() {
  std::vector<request> requests;
  for (std::int32_t i = 0; i < 64; ++i) {
    request r{{i % vocab, (7 * i) % vocab}, ask(24, i % 3 == 0 ? 0.7f : 1.0f)};
    if (i % 4 == 0) { r.options.top_p = 0.8f; }
    if (i % 5 == 0) { r.options.stop_tokens = {3}; }
    r.options.seed = static_cast<std::uint64_t>(1000 + i);
    requests.push_back(r);
  }
  return requests;
}

/// The texts of the requests, `batch` at a time, in the order `first, first + 1, ...` round about.
template <class Decoder>
std::vector<text> texts_of(Decoder& d, std::size_t batch, std::size_t first) {
  const std::vector<request> requests = some_requests();
  std::vector<text> texts(requests.size());
  std::map<request_id, std::size_t> of;
  std::size_t added = 0;
  while (added < requests.size() || d.running() > 0) {
    // Requests join one by one, so that they meet in ever other ways.
    if (added < requests.size() && d.running() < static_cast<std::int32_t>(batch)) {
      const std::size_t r = (first + added++) % requests.size();
      of[d.add(requests[r].prompt, requests[r].options)] = r;
    }
    for (const emission& e : d.step()) {
      text& t = texts[of.at(e.id)];
      t.insert(t.end(), e.tokens.begin(), e.tokens.end());
    }
  }
  return texts;
}

template <class Drafter, class Selector, class V = verifier::coupled>
std::vector<text> texts_with(Drafter drafter, Selector selector, std::size_t batch,
                             std::size_t first = 0, double* accepted = nullptr) {
  toy_target<float> target{world};
  decoder d{target,
            std::move(drafter),
            std::move(selector),
            top_p_sampler{},
            V{},
            decoder_options{.max_batch = static_cast<std::int32_t>(batch), .token_text = {}}};
  const auto texts = texts_of(d, batch, first);
  if (accepted != nullptr) { *accepted = d.stats().draft_acceptance_rate(); }
  return texts;
}

TEST_CASE("the drafter does not matter") {
  const selector::full all{vocab};
  const auto expected = texts_with(drafter::none{}, all, 1);
  toy_draft<float> perfect{world};
  toy_draft<float> unrelated{{vocab, 72, flavour::smooth}};
  toy_draft<float> adverse{{vocab, 73, flavour::one_hot}};
  for (const std::size_t batch : {1u, 7u, 64u}) {
    for (const std::size_t first : {0u, 40u}) {
      CAPTURE(batch);
      CAPTURE(first);
      double accepted = 0.0;
      const auto with = [&](auto drafter, auto selector) {
        return texts_with(std::move(drafter), std::move(selector), batch, first, &accepted);
      };
      CHECK(with(drafter::none{}, all) == expected);
      CHECK(with(drafter::autoregressive{unrelated, tree::chain<3>{}}, all) == expected);
      CHECK(accepted < 0.5);
      CHECK(with(drafter::autoregressive{adverse, tree::chain<5>{}}, all) == expected);
      CHECK(accepted < 0.2);
      CHECK(with(drafter::autoregressive{perfect, tree::chain<4>{}}, all) == expected);
      CHECK(accepted > 0.95);  // all but those after the cut at a stop
      CHECK(with(tree_drafter<child_law::ranked>{world, {-1, 0, 0, 1, 2}}, all) == expected);
      CHECK(with(tree_drafter<child_law::without_replacement>{world, {-1, 0, 0, 0, 1}}, all) ==
            expected);
    }
  }
  const auto order = shuffled_layout(vocab, 25);
  toy_draft<float> listed{world, order};
  CHECK(texts_with(drafter::autoregressive{listed, tree::chain<3>{}},
                   selector::frequency{order, 20}, 7) == expected);
  toy_draft<float> clustered{world, order};
  CHECK(texts_with(drafter::autoregressive{clustered, tree::chain<3>{}}, toy_selector{order}, 7) ==
        expected);
}

TEST_CASE("with other rules the drafter does matter: the comparison can fail") {
  const selector::full all{vocab};
  toy_draft<float> unrelated{{vocab, 72, flavour::smooth}};
  using drafter_type = drafter::autoregressive<toy_draft<float>&, tree::chain<3>>;
  CHECK(texts_with<drafter_type, selector::full, verifier::rejection>(drafter_type{unrelated}, all,
                                                                      7) !=
        texts_with<drafter::none, selector::full, verifier::rejection>(drafter::none{}, all, 7));
}

}  // namespace
}  // namespace hunch::test
