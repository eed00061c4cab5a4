// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include <hunch/decoder/statistics.hpp>
#include <hunch/executor/executor.hpp>

namespace hunch {

/// The sum of the counters [slots] that bodies have written; waits for the executor.
template <class E, std::int32_t N>
statistics<N> sum_of_slots(E& executor, const statistics<N>* counters, std::int32_t slots) {
  statistics<N> all;
  std::vector<statistics<N>> each(static_cast<std::size_t>(slots));
  read_buffer(executor, each.data(), counters, each.size());
  for (const statistics<N>& one : each) { all += one; }
  return all;
}

}  // namespace hunch
