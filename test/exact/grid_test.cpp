// SPDX-License-Identifier: Apache-2.0

// Whether every policy that there is has a row in the grid, a line in the umbrella and a page.

#include <cstddef>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <regex>
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

/// A folder of policies, and the page about them.
struct room {
  const char* folder;
  const char* page;
};
constexpr room rooms[] = {{"drafter", "drafters.md"}, {"tree", "trees.md"},
                          {"length", "lengths.md"},   {"selector", "selectors.md"},
                          {"sampler", "samplers.md"}, {"verifier", "verifiers.md"}};

std::string text_of(const std::filesystem::path& file) {
  CAPTURE(file.string());
  std::ifstream in(file);
  REQUIRE(in);
  return {std::istreambuf_iterator<char>(in), {}};
}

/// Whether a page names a policy in code, with or without the namespace of its room.
bool names_policy(const std::string& page, const std::string& policy) {
  const std::string name = policy.substr(policy.find("::") + 2);
  return std::regex_search(page,
                           std::regex("`(" + policy + "|" + name + ")\\b|\\b" + policy + "\\b"));
}

TEST_CASE("the grid has a row for every policy that the headers define") {
  std::size_t count = 0;
  for (const room& of : rooms) {
    const names policies = policies_in(of.folder);
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
  // What could have been chosen.
  const std::string row =
      "hunch::drafter::one_of<hunch::drafter::heads<hunch::tree::chain<3> >, "
      "hunch::drafter::none>, hunch::selector::full";
  CHECK_FALSE(is_in(row, {"drafter::heads"}));
  CHECK_FALSE(is_in(row, {"drafter::none"}));
  CHECK(is_in(row, {"drafter::one_of", "selector::full"}));
}

TEST_CASE("every policy is in the umbrella and on its page") {
  const std::filesystem::path headers(HUNCH_HEADERS);
  const std::string umbrella = text_of(headers / "hunch.hpp");
  for (const room& of : rooms) {
    const std::string folder = of.folder;
    const std::string page = of.page;
    const std::string about = text_of(headers / "../../docs/policies" / page);
    for (const std::string& policy : policies_in(folder)) {
      if (policy == "drafter::length_slots") { continue; }  // stands on the page of lengths
      CAPTURE(policy);
      CAPTURE(page);
      const std::string name = policy.substr(policy.find("::") + 2);
      const std::string line = "#include <hunch/" + folder + "/" + name + ".hpp>";
      CHECK(umbrella.find(line) != std::string::npos);
      CHECK(names_policy(about, policy));
    }
    CHECK_FALSE(names_policy(about, folder + "::magic"));  // negative control
  }
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
  // Negative control: who drafts nothing has no shape.
  CHECK_FALSE(any_row_has({"drafter::none", "tree::sampled"}));
}

TEST_CASE("every kind of draft model is there with every shape") {
  for (const std::string model : {"test::toy_draft", "test::rereading_draft", "test::toy_view"}) {
    for (const std::string& tree : policies_in("tree")) {
      CAPTURE(model);
      CAPTURE(tree);
      CHECK(any_row_has({"drafter::autoregressive", model, tree}));
    }
  }
  // Negative control: heads are no draft model.
  CHECK_FALSE(any_row_has({"drafter::autoregressive", "test::toy_heads"}));
}

}  // namespace
}  // namespace hunch::test
