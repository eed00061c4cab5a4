// SPDX-License-Identifier: Apache-2.0

// A cache whose cells have ids of sequences, as an engine keeps it, against what rows say that they
// attend to.

#include <algorithm>
#include <cstdint>
#include <random>
#include <set>
#include <stdexcept>
#include <vector>

#include <doctest/doctest.h>

#include <hunch/model/branch_plan.hpp>
#include <hunch/model/fitted_pass.hpp>
#include "../support/tagged_cache.hpp"

namespace hunch::test::branch_plan_test {
namespace {

using tokens = std::vector<token>;

/// Rows by their definition: what is committed, and what is staged with its parents.
struct contract {
  struct staged {
    token t;
    std::int32_t parent;
  };
  tokens committed;
  std::vector<staged> rows;

  tokens path(std::int32_t id) const {
    tokens result;
    for (; id != end_of_cache; id = rows[static_cast<std::size_t>(id)].parent) {
      result.push_back(rows[static_cast<std::size_t>(id)].t);
    }
    std::reverse(result.begin(), result.end());
    return result;
  }
  tokens attended(std::int32_t id) const {
    tokens result = committed;
    const tokens more = path(id);
    result.insert(result.end(), more.begin(), more.end());
    return result;
  }
};

struct pass {
  std::vector<std::int32_t> slot, id, parent, position;
  tokens t;
  rows view() const {
    return {.size = static_cast<std::int32_t>(slot.size()),
            .slot = slot.data(),
            .id = id.data(),
            .parent = parent.data(),
            .position = position.data(),
            .tokens = t.data()};
  }
};

constexpr std::int32_t slots = 3;
constexpr std::int32_t branches = 6;
constexpr std::int32_t most_staged = 24;

struct engine {
  branch_plan<branches> plan{slots, slots* most_staged, most_staged};
  tagged_cache cache;
  std::vector<contract> texts{static_cast<std::size_t>(slots)};
  std::int64_t rows_checked = 0;
  std::int64_t marked_twice = 0;  ///< rows that were written under several ids

  void edit() {
    for (const cache_edit& e : plan.edits()) { cache.apply(e); }
    plan.edited();
  }
  void run(const pass& p) {
    plan.stage(p.view());
    edit();
    for (std::size_t i = 0; i < p.slot.size(); ++i) {
      const auto ids = plan.sequences(static_cast<std::int32_t>(i));
      const std::set<std::int32_t> distinct(ids.begin(), ids.end());
      REQUIRE(distinct.size() == ids.size());
      for (const std::int32_t s : ids) {
        REQUIRE(s / branches == p.slot[i]);
        // What it is written after: as many cells of the sequence as it has positions before it.
        REQUIRE(cache.of(s).size() == static_cast<std::size_t>(p.position[i]));
      }
      cache.cells.push_back({p.t[i], p.position[i], distinct});
      const contract& text = texts[static_cast<std::size_t>(p.slot[i])];
      for (const std::int32_t s : ids) { REQUIRE(cache.of(s) == text.attended(p.id[i])); }
      ++rows_checked;
      marked_twice += ids.size() > 1 ? 1 : 0;
    }
  }
};

}  // namespace

TEST_CASE("branches of random drafts attend to what their rows say, over random steps") {
  std::mt19937 random(7);
  const auto below = [&random](std::int32_t n) {
    return static_cast<std::int32_t>(random() % static_cast<std::uint32_t>(n));
  };
  engine e;
  token next = 0;
  for (int step = 0; step < 600; ++step) {
    CAPTURE(step);
    for (contract& text : e.texts) { text.rows.clear(); }
    std::vector<std::int32_t> leaves(slots, 0);
    const std::int32_t passes = 1 + below(4);
    for (std::int32_t n = 0; n < passes; ++n) {
      pass p;
      for (std::int32_t slot = 0; slot < slots; ++slot) {
        contract& text = e.texts[static_cast<std::size_t>(slot)];
        std::vector<bool> has_child(most_staged, false);
        for (const contract::staged& r : text.rows) {
          if (r.parent != end_of_cache) { has_child[static_cast<std::size_t>(r.parent)] = true; }
        }
        const std::int32_t count = text.rows.empty() ? 1 + below(5) : below(6);
        for (std::int32_t i = 0; i < count; ++i) {
          const auto id = static_cast<std::int32_t>(text.rows.size());
          if (id == most_staged) { break; }
          // Mostly a chain, then wider; a parent may be of any pass.
          const std::int32_t parent = id == 0 ? end_of_cache : below(3) == 0 ? below(id) : id - 1;
          if (parent != end_of_cache && has_child[static_cast<std::size_t>(parent)]) {
            if (leaves[static_cast<std::size_t>(slot)] + 1 == branches) { break; }
            ++leaves[static_cast<std::size_t>(slot)];
          }
          if (parent != end_of_cache) { has_child[static_cast<std::size_t>(parent)] = true; }
          text.rows.push_back({next, parent});
          p.slot.push_back(slot);
          p.id.push_back(id);
          p.parent.push_back(parent);
          p.position.push_back(static_cast<std::int32_t>(text.attended(id).size()) - 1);
          p.t.push_back(next++);
        }
      }
      e.run(p);
    }
    if (below(8) == 0) { continue; }  // an abandoned step
    std::vector<std::int32_t> kept_slot, kept_id, released;
    for (std::int32_t slot = 0; slot < slots; ++slot) {
      contract& text = e.texts[static_cast<std::size_t>(slot)];
      if (below(12) == 0) {
        released.push_back(slot);
        text.committed.clear();
      } else if (below(6) != 0) {
        std::vector<std::int32_t> path;
        for (std::int32_t id = below(static_cast<std::int32_t>(text.rows.size()));
             id != end_of_cache; id = text.rows[static_cast<std::size_t>(id)].parent) {
          path.push_back(id);
        }
        for (auto id = path.rbegin(); id != path.rend(); ++id) {
          kept_slot.push_back(slot);
          kept_id.push_back(*id);
          text.committed.push_back(text.rows[static_cast<std::size_t>(*id)].t);
        }
      }
    }
    e.plan.keep({.size = static_cast<std::int32_t>(kept_slot.size()),
                 .slot = kept_slot.data(),
                 .id = kept_id.data(),
                 .release_count = static_cast<std::int32_t>(released.size()),
                 .released = released.data()});
    if (below(2) == 0) { e.edit(); }  // else before the next pass
    for (std::int32_t slot = 0; slot < slots; ++slot) {
      REQUIRE(e.plan.length(slot) ==
              static_cast<std::int32_t>(e.texts[static_cast<std::size_t>(slot)].committed.size()));
    }
  }
  CHECK(e.rows_checked > 10000);
  CHECK(e.marked_twice > 500);
  // Nothing is left behind: an empty step and a release of all slots clear the cache.
  const std::int32_t all[slots] = {0, 1, 2};
  e.plan.keep({.release_count = slots, .released = all});
  e.edit();
  CHECK(e.cache.cells.empty());
}

TEST_CASE("a chain costs one removal before the next step, and nothing where all was kept") {
  branch_plan<1> plan(1, 4, 4);
  const std::int32_t slot[] = {0, 0, 0}, id[] = {0, 1, 2}, parent[] = {end_of_cache, 0, 1};
  std::int32_t position[] = {0, 1, 2};
  const token t[] = {5, 6, 7};
  const rows pass{
      .size = 3, .slot = slot, .id = id, .parent = parent, .position = position, .tokens = t};
  plan.stage(pass);
  CHECK(plan.edits().empty());
  plan.keep({.size = 2, .slot = slot, .id = id});
  CHECK(plan.edits().empty());
  CHECK(plan.length(0) == 2);
  for (std::int32_t& p : position) { p += 2; }
  plan.stage(pass);
  REQUIRE(plan.edits().size() == 1);
  CHECK(plan.edits()[0] == cache_edit{.sequence = 0, .first = 2});
  CHECK(plan.edits()[0].removes());
  plan.edited();
  plan.keep({.size = 3, .slot = slot, .id = id});
  for (std::int32_t& p : position) { p += 3; }
  plan.stage(pass);
  CHECK(plan.edits().empty());
}

TEST_CASE("a draft of more branches, rows or staged ids than there is room for is refused") {
  branch_plan<2> plan(1, 4, 4);
  const std::int32_t slot[] = {0, 0, 0, 0, 0}, id[] = {0, 1, 2, 3, 4};
  const std::int32_t wide[] = {end_of_cache, 0, 0, 0, 0};
  const std::int32_t chain[] = {end_of_cache, 0, 1, 2, 3};
  const std::int32_t position[] = {0, 1, 1, 1, 1};
  const token t[] = {5, 6, 7, 8, 9};
  rows pass{.size = 3, .slot = slot, .id = id, .parent = wide, .position = position, .tokens = t};
  CHECK_NOTHROW(plan.stage(pass));
  CHECK(plan.sequence_count() == 2);
  pass.size = 4;
  CHECK_THROWS_WITH_AS(plan.stage(pass),
                       "hunch::branch_plan: a draft of more than 2 branches, see max_branches",
                       std::length_error);
  pass.size = 5;
  CHECK_THROWS_WITH_AS(plan.stage(pass), "hunch::branch_plan: a pass of 5 rows, and room for 4",
                       std::length_error);
  // What was refused has been read by nobody, and is removed as what was is.
  pass.size = 1;
  plan.stage(pass);
  REQUIRE(plan.sequences(0).size() == 1);
  CHECK(plan.sequences(0)[0] == 0);
  CHECK(plan.edits().back() == cache_edit{.sequence = 0, .first = 0});

  branch_plan<2> short_of_ids(1, 8, 4);
  pass.size = 5;
  pass.parent = chain;
  CHECK_THROWS_WITH_AS(short_of_ids.stage(pass),
                       "hunch::branch_plan: staged id 4, and room for 4 rows of a sequence",
                       std::length_error);
}

TEST_CASE("a pass that does not fit is refused before an engine is asked") {
  fitted_pass fitted(1);
  const std::int32_t slot[] = {0, 1};
  CHECK_THROWS_WITH_AS(fitted.read({.size = 2, .slot = slot},
                                   [](const rows&) {
                                     FAIL("an engine was asked");
                                     return true;
                                   }),
                       "hunch::fitted_pass: a pass of 2 rows, and room for 1", std::length_error);
}

}  // namespace hunch::test::branch_plan_test
