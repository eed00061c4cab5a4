// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>

#include <hunch/core/config.hpp>
#include <hunch/executor/executor.hpp>
#include <hunch/executor/owned_arrays.hpp>
#include <hunch/model/rows.hpp>

namespace hunch {

/// Where rows lie that a model has made, as bodies see it. Rows that are equally long and equally
/// far apart, those of an array, are found by what a launch carries; of others there is a table,
/// which a device reads across the bus, where the host has written it. A trivially copyable view.
template <class Real>
struct row_places {
  Real* first = nullptr;
  std::int64_t stride = 0;
  std::int32_t size = 0;                  ///< of a row
  const row_view<Real>* table = nullptr;  ///< nullptr: they are equally far apart

  HUNCH_HOST_DEVICE row_view<Real> operator[](std::int64_t i) const {
    return table != nullptr ? table[i] : row_view<Real>{first + i * stride, size};
  }
  /// Whether there are any.
  HUNCH_HOST_DEVICE bool exist() const { return table != nullptr || first != nullptr; }
};

/// The first `count` of `rows`, if they are equally long and equally far apart; else none.
template <class Real>
row_places<Real> equally_apart(const row_view<Real>* rows, std::int64_t count) {
  const auto address = [](const row_view<Real>& row) {
    return reinterpret_cast<std::intptr_t>(row.data);
  };
  constexpr std::intptr_t element = sizeof(Real);
  if (count < 1) { return {}; }
  const std::int64_t stride = count > 1 ? (address(rows[1]) - address(rows[0])) / element : 0;
  for (std::int64_t i = 0; i < count; ++i) {
    if (rows[i].size != rows[0].size ||
        address(rows[i]) != address(rows[0]) + i * stride * element) {
      return {};
    }
  }
  return {rows[0].data, stride, rows[0].size, nullptr};
}

/// What the host notes of where rows lie, in memory with a capacity fixed at construction.
/// \tparam M the memory of a step, see `step_memory`.
template <class Real, class M>
class found_rows {
 public:
  found_rows(M& memory, std::int64_t capacity) : owned_(memory) {
    owned_.give_host_written(capacity, table_);
    std::fill_n(table_, capacity, row_view<Real>{});
  }

  /// Row i, as it was noted last.
  row_view<Real>& operator[](std::int64_t i) const { return table_[i]; }

  /// The first `count`, all of which have been noted unless the host reads the memory of the step:
  /// then bodies read the table, for it lies where they do.
  row_places<Real> places(std::int64_t count) const {
    if constexpr (!host_reads<M>) {
      const row_places<Real> found = equally_apart(table_, count);
      if (found.exist()) { return found; }
    }
    return {.table = table_};
  }

 private:
  owned_arrays<M> owned_;
  row_view<Real>* table_ = nullptr;  ///< [capacity]
};

}  // namespace hunch
