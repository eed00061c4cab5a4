// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "../compositions.hpp"
#include "shipped.hpp"

// At temperature 0 the text is llama.cpp's own greedy text, whatever is drafted.

namespace llama_cpp::test {
namespace {

constexpr int length = 40;

struct setup {
  std::string name;
  shape drafts;
  std::string head;
  bool drafts_for_itself;
  std::int32_t draft_length;
  std::int32_t batch;
  std::int32_t threads;
  std::int32_t chunk;
};

const setup setups[] = {
    {"plain", shape::none, "full", false, 0, 1, 1, 256},
    {"chain of 1", shape::chain, "full", false, 1, 1, 1, 256},
    {"chain", shape::chain, "full", false, 4, 1, 1, 256},
    {"chain, two threads", shape::chain, "full", false, 4, 1, 2, 256},
    {"long chain, prompt in pieces", shape::chain, "full", false, 16, 1, 1, 5},
    {"batch of 3", shape::chain, "full", false, 4, 3, 1, 256},
    {"batch of 3, prompt in pieces", shape::chain, "full", false, 4, 3, 2, 7},
    {"tree", shape::ranked, "full", false, 4, 1, 1, 256},
    {"trees, batch of 3", shape::ranked, "full", false, 4, 3, 1, 7},
    {"tree of drawn tokens", shape::sampled, "full", false, 4, 1, 1, 256},
    {"FR-Spec", shape::chain, "frequency:3200", false, 4, 1, 1, 256},
    {"FR-Spec, one row", shape::chain, "frequency:1", false, 4, 1, 1, 256},
    {"FR-Spec, all rows", shape::chain, "frequency:32000", false, 4, 1, 2, 256},
    {"FR-Spec, trees, batch of 3", shape::ranked, "frequency:3200", false, 4, 3, 1, 7},
    {"DynaSpec", shape::chain, "dynaspec:1600", true, 4, 1, 1, 256},
    {"DynaSpec, trees, batch of 3", shape::ranked, "dynaspec:1600", true, 4, 3, 2, 7},
};

}  // namespace

TEST_CASE("texts at temperature 0 are llama.cpp's") {
  const auto all = prompts(24);
  std::vector<greedy_text> references;
  for (const auto& p : all) { references.push_back(greedy_by_llama(target(), p, length, 1)); }
  std::size_t texts = 0;
  std::size_t same = 0;
  std::map<std::string, double> accepted;
  for (const setup& each : setups) {
    CAPTURE(each.name);
    const weights& drafting = each.drafts_for_itself ? four_bits() : draft();
    const draft_head head = shipped_head(each.head, drafting);
    const auto by = compose(target(), drafting,
                            {.drafts = each.drafts,
                             .draft_length = each.draft_length,
                             .selector = head.selector,
                             .batch = each.batch,
                             .threads = each.threads,
                             .chunk = each.chunk,
                             .cells = 256});
    const run found = write(*by, all, {.max_new_tokens = length, .temperature = 0.0f}, each.batch);
    for (std::size_t i = 0; i < all.size(); ++i) {
      CHECK(found.texts[i].finish == hunch::finish_reason::length);
      ++texts;
      CHECK(agrees(found.texts[i].tokens, references[i]));
      same += found.texts[i].tokens == references[i].tokens ? 1 : 0;
    }
    accepted[each.name] = found.stats.draft_acceptance_rate();
    // The most frequent row ends a text.
    const bool may_accept = each.drafts != shape::none && each.head != "frequency:1";
    CHECK((found.stats.accepted > 0) == may_accept);
  }
  MESSAGE(same << " of " << texts << " texts are the same to the last token");
  CHECK(same * 20 >= texts * 19);
  // A head of our own that computes all rows drafts what llama.cpp's does: the text would be the
  // same with states of other rows, and few drafts accepted.
  MESSAGE("accepted: chain " << accepted.at("chain") << ", all rows by our head "
                             << accepted.at("FR-Spec, all rows"));
  CHECK(std::abs(accepted.at("FR-Spec, all rows") / accepted.at("chain") - 1.0) < 0.03);
}

}  // namespace llama_cpp::test
