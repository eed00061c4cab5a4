// SPDX-License-Identifier: Apache-2.0

// Where rows lie, as bodies see it: the same whether they are found by their distance or in a
// table.

#include <cstddef>
#include <cstdint>
#include <vector>

#include <doctest/doctest.h>

#include <hunch/executor/host.hpp>
#include <hunch/model/found_rows.hpp>
#include "../support/hidden_host.hpp"

namespace hunch::test {
namespace {

constexpr std::int32_t size = 5;

/// The places of rows that begin at these elements of an array, checked one by one.
template <class E>
row_places<const float> places_of(const std::vector<std::int64_t>& begin,
                                  std::int32_t last_size = size) {
  static const std::vector<float> all(1000);
  E executor;
  step_memory<E> memory{executor};
  const auto count = static_cast<std::int64_t>(begin.size());
  static std::vector<found_rows<const float, step_memory<E>>> found;  // places refer to it
  found.emplace_back(memory, count + 2);
  for (std::int64_t i = 0; i < count; ++i) {
    found.back()[i] = {all.data() + begin[static_cast<std::size_t>(i)],
                       i + 1 < count ? size : last_size};
  }
  const row_places<const float> places = found.back().places(count);
  for (std::int64_t i = 0; i < count; ++i) {
    CHECK(places[i].data == all.data() + begin[static_cast<std::size_t>(i)]);
    CHECK(places[i].size == (i + 1 < count ? size : last_size));
  }
  return places;
}

TEST_CASE("rows that are equally far apart are found without a table") {
  const auto by_distance = [](const std::vector<std::int64_t>& begin) {
    const auto places = places_of<hidden_host>(begin);
    CHECK(places.exist());
    return places.table == nullptr;
  };
  CHECK(by_distance({0, 5, 10, 15}));
  CHECK(by_distance({7, 15, 23}));      // with padding between them
  CHECK(by_distance({90, 60, 30, 0}));  // backwards
  CHECK(by_distance({40, 40, 40}));     // all the same
  CHECK(by_distance({40}));
  CHECK(!by_distance({0, 5, 10, 16}));
  CHECK(!by_distance({0, 10, 5}));
}

TEST_CASE("rows of different sizes are in a table") {
  CHECK(places_of<hidden_host>({0, 5, 10}, size - 1).table != nullptr);
}

TEST_CASE("where the host reads the memory of a step, the table lies there") {
  CHECK(places_of<executor::host>({0, 5, 10}).table != nullptr);
}

TEST_CASE("no rows") { CHECK(!row_places<const float>{}.exist()); }

}  // namespace
}  // namespace hunch::test
