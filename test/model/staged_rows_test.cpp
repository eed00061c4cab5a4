// SPDX-License-Identifier: Apache-2.0

// The arrays of a step: what is pushed is what a model reads.

#include <cstdint>

#include <doctest/doctest.h>

#include <hunch/executor/host.hpp>
#include <hunch/model/staged_rows.hpp>

namespace hunch::test {
namespace {

TEST_CASE("rows are read as they were pushed") {
  executor::host host;
  staged_rows<executor::host> staged(host, 3);
  CHECK(
      staged.push(
          {.slot = 4, .id = 0, .parent = end_of_cache, .position = 7, .t = 11, .wanted = false}) ==
      0);
  CHECK(staged.push({.slot = 4, .id = 1, .parent = 0, .position = 8, .t = 12, .wanted = true}) ==
        1);
  staged.arrays().pad(2);
  const rows r = staged.view(5);
  CHECK(r.size == 2);
  CHECK(r.streams == 5);
  CHECK(r.slot[0] == 4);
  CHECK(r.id[1] == 1);
  CHECK(r.parent[0] == end_of_cache);
  CHECK(r.parent[1] == 0);
  CHECK(r.position[1] == 8);
  CHECK(r.tokens[0] == 11);
  CHECK(r.wanted[0] == 0);
  CHECK(r.wanted[1] == 1);
  CHECK(r.slot[2] == no_slot);
  staged.clear();
  CHECK(staged.view().size == 0);
  CHECK(staged.push({.slot = 1, .t = 1, .wanted = true}) == 0);
}

TEST_CASE("kept rows and released slots are lists of their own") {
  executor::host host;
  kept_list<executor::host> list(host, 4, 2);
  list.keep({.slot = 1, .id = 0});
  list.keep({.slot = 1, .id = 2});
  list.release(3);
  const kept_rows kept = list.view();
  CHECK(kept.size == 2);
  CHECK(kept.slot[1] == 1);
  CHECK(kept.id[1] == 2);
  CHECK(kept.release_count == 1);
  CHECK(kept.released[0] == 3);
  list.clear();
  CHECK(list.view().size == 0);
  CHECK(list.view().release_count == 0);
}

}  // namespace
}  // namespace hunch::test
