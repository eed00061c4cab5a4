// SPDX-License-Identifier: Apache-2.0

// What the drafters of an ensemble are told of a tree in which not all of them had room.

#include <cstdint>

#include <doctest/doctest.h>

#include <hunch/drafter/detail/merging.hpp>
#include <hunch/drafter/length_slots.hpp>
#include <hunch/executor/host.hpp>
#include <hunch/executor/owned_arrays.hpp>

namespace hunch::test {
namespace {

/// Remembers what it was told.
struct told_length {
  static constexpr bool needs_entropy = false;
  struct memory {
    std::int32_t levels = -1;
    std::int32_t kept = -1;
  };
  HUNCH_HOST_DEVICE std::int32_t begin(memory&, std::int32_t max_depth) const { return max_depth; }
  HUNCH_HOST_DEVICE bool continues(memory&, const length_evidence&) const { return true; }
  HUNCH_HOST_DEVICE void observe(memory& m, std::int32_t levels, std::int32_t kept) const noexcept {
    m = {levels, kept};
  }
};
static_assert(LengthPolicy<told_length>);

TEST_CASE("a drafter of an ensemble does not take for refused what had no room") {
  executor::host host;
  owned_arrays<executor::host> arrays(host);
  drafter::merged_trees merged{.max_nodes = 5, .room = 4, .max_batch = 1};
  merged.allocate(arrays, 2);
  // 0 -> 1 -> 2 is the first one's draft; the second one drew a chain of four, of which node 3
  // below the root had room.
  merged.counts[0] = 4;
  const std::int32_t parents[] = {-1, 0, 1, 0};
  const std::int32_t first[] = {0, 1, 2, -1};
  const std::int32_t second[] = {0, -1, -1, 1};
  for (std::int32_t node = 0; node < 4; ++node) {
    merged.parents[node] = parents[node];
    merged.nodes_of(0, 0)[node] = first[node];
    merged.nodes_of(1, 0)[node] = second[node];
  }
  const std::int32_t path[] = {3};
  const draft_outcome outcome{.slot = 0, .path = path, .kept = 1};
  draft_outcome shares[2];
  std::int32_t paths[10];
  host.launch(1, drafter::share_outcomes{
                     merged, 2, {.slots = 1, .of = &outcome, .states = {}}, shares, paths});

  const auto told = [](const draft_outcome& share, std::int32_t drew) {
    drafter::slot_lengths<told_length>::slot_state state{
        .memory = {}, .asked = true, .limit = 4, .levels = drew};
    const drafter::slot_lengths<told_length> lengths{{}, &state};
    lengths.observe(0, share);
    return state.memory;
  };
  CHECK(told(shares[0], 2).levels == 2);
  CHECK(told(shares[0], 2).kept == 0);
  CHECK(told(shares[1], 4).levels == 1);
  CHECK(told(shares[1], 4).kept == 1);
  CHECK(shares[1].path[0] == 1);
  // Not of an ensemble: everything that was drawn was seen.
  CHECK(told(outcome, 4).levels == 4);
  // Of an ensemble in another one, which had room for one level.
  draft_outcome without_room = outcome;
  without_room.seen_levels = 1;
  host.launch(1, drafter::share_outcomes{
                     merged, 2, {.slots = 1, .of = &without_room, .states = {}}, shares, paths});
  CHECK(told(shares[0], 2).levels == 1);
  CHECK(told(shares[1], 4).levels == 1);
}

}  // namespace
}  // namespace hunch::test
