// SPDX-License-Identifier: Apache-2.0

// Whether the grid has a row for every policy that there is.

#include <cstddef>
#include <string>

#include <doctest/doctest.h>

#include "../support/policies.hpp"

namespace hunch::test {
namespace {

/// What is defined in the header of its name and is no policy of its own, or not a lossless one.
const names in_no_row{
    "drafter::length_slots",  // what drafters keep for a policy
    "length::meter",          // prices, for length::metered
    "selector::oracle",       // a router
    "verifier::top_k",        // lossy
    "verifier::typical",      // lossy
};

TEST_CASE("the grid has a row for every policy that the headers define") {
  std::size_t count = 0;
  for (const char* folder : {"drafter", "tree", "length", "selector", "sampler", "verifier"}) {
    const names policies = policies_in(folder);
    CHECK(policies.size() >= 3);
    for (const std::string& policy : policies) {
      CAPTURE(policy);
      CHECK(any_row_has({policy}) != in_no_row.contains(policy));
      ++count;
    }
  }
  CHECK(count > 30);
  // Negative control: a policy that is in none of them.
  CHECK_FALSE(any_row_has({"drafter::magic"}));
  CHECK_FALSE(
      is_in("hunch::length::one_of<hunch::length::cost, hunch::length::ewma>", {"length::cost"}));
}

TEST_CASE("every length policy and every shape is there with every drafter that takes one") {
  const auto pairs = [](const std::string& folder, const std::string& taken_as) {
    std::size_t count = 0;
    for (const std::string& drafter : policies_in("drafter", taken_as)) {
      for (const std::string& policy : policies_in(folder)) {
        if (in_no_row.contains(drafter) || in_no_row.contains(policy)) { continue; }
        CAPTURE(drafter);
        CAPTURE(policy);
        CHECK(any_row_has({drafter, policy}));
        ++count;
      }
    }
    return count;
  };
  CHECK(pairs("length", "LengthPolicy Policy = length::fixed") >= 4 * 7);
  CHECK(pairs("tree", "class Tree,") >= 3 * 4);
  // Negative control: what is looked up has no shape.
  CHECK_FALSE(any_row_has({"drafter::lookup", "tree::sampled"}));
}

}  // namespace
}  // namespace hunch::test
