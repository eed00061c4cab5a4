// SPDX-License-Identifier: Apache-2.0

// Which presets the suites of benchmarks go through.

#include <cstdint>
#include <set>
#include <string>

#include <doctest/doctest.h>

#include "generate/presets.hpp"
#include "presets.hpp"

namespace hunch::test {

TEST_CASE("suites go through every preset that drafts for a target, in batches of any size") {
  for (const std::int32_t max_batch : {1, 32}) {
    CAPTURE(max_batch);
    std::set<std::string> left;
    for (const generate::preset& p : generate::presets()) { left.emplace(p.name); }
    for (const bench::asked_preset& p : bench::drafting_presets({}, 2, max_batch)) {
      CAPTURE(p.name);
      CHECK(left.erase(p.name) == 1);
      CHECK(p.asked.threads == 2);
      CHECK(p.asked.batch == max_batch);
      CHECK_FALSE(p.asked.decodes_plainly());
    }
    CHECK(left == std::set<std::string>{"canvas-head", "diffusion", "plain", "ssd-paper"});
  }
  bench::choice one;
  one.preset = "diffusion";
  CHECK(bench::drafting_presets(one, 1, 8).empty());
  one.preset = "eagle";
  CHECK(bench::drafting_presets(one, 1, 8).size() == 1);
}

}  // namespace hunch::test
