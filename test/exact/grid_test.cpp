// SPDX-License-Identifier: Apache-2.0

// Whether the grid has a row for every policy that there is.

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <regex>
#include <set>
#include <string>

#include "grid.hpp"

namespace hunch::test {
namespace {

/// What is defined in the header of its name and is no policy of its own, or not a lossless one.
const std::set<std::string> in_no_row{
    "drafter::ahead",            // the base of heads and streaming
    "drafter::growth",           // what drafters with trees share
    "drafter::kept_states",      // likewise
    "drafter::level_lists",      // likewise
    "length::slots",             // what drafters keep for a policy
    "selector::oracle",          // a router
    "selector::router_weights",  // a file
    "verifier::top_k",           // lossy
    "verifier::typical",         // lossy
};

/// The policies of a folder: what a header of its name defines.
std::set<std::string> policies_in(const std::string& folder) {
  std::set<std::string> found;
  for (const auto& file :
       std::filesystem::directory_iterator(std::filesystem::path(HUNCH_HEADERS) / folder)) {
    const std::string name = file.path().stem().string();
    std::ifstream in(file.path());
    const std::string code{std::istreambuf_iterator<char>(in), {}};
    if (std::regex_search(code, std::regex("\\b(struct|class) " + name + "\\b"))) {
      found.insert(folder + "::" + name);
    }
  }
  return found;
}

/// Whether a row is made of a policy. What a `one_of` could be is not what it is.
bool is_in(const std::string& row, const std::string& policy) {
  static const std::regex choices("(hunch::length::one_of)<[^>]*>");
  return std::regex_search(std::regex_replace(row, choices, "$1"),
                           std::regex("\\bhunch::" + policy + "\\b"));
}

TEST_CASE("the grid has a row for every policy that the headers define") {
  std::size_t count = 0;
  for (const char* folder : {"drafter", "tree", "length", "selector", "sampler", "verifier"}) {
    const std::set<std::string> policies = policies_in(folder);
    CHECK(policies.size() >= 3);
    for (const std::string& policy : policies) {
      CAPTURE(policy);
      const bool found = std::ranges::any_of(
          grid_rows(), [&](const std::string& row) { return is_in(row, policy); });
      CHECK(found != in_no_row.contains(policy));
      ++count;
    }
  }
  CHECK(count > 30);
  // Negative control: a policy that is in none of them.
  CHECK_FALSE(is_in(*grid_rows().begin(), "drafter::magic"));
  CHECK_FALSE(
      is_in("hunch::length::one_of<hunch::length::cost, hunch::length::ewma>", "length::cost"));
}

}  // namespace
}  // namespace hunch::test
