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
    row_places<Real> found;
    if (host_reads<M> || !equally_apart(count)) {
      found.table = table_;
    } else {
      found = {table_[0].data, stride(count), table_[0].size, nullptr};
    }
    return found;
  }

 private:
  static std::intptr_t address(const row_view<Real>& row) {
    return reinterpret_cast<std::intptr_t>(row.data);
  }
  static constexpr std::intptr_t element = sizeof(Real);

  std::int64_t stride(std::int64_t count) const {
    return count > 1 ? (address(table_[1]) - address(table_[0])) / element : 0;
  }
  bool equally_apart(std::int64_t count) const {
    const std::intptr_t bytes = stride(count) * element;
    for (std::int64_t i = 0; i < count; ++i) {
      if (table_[i].size != table_[0].size ||
          address(table_[i]) != address(table_[0]) + i * bytes) {
        return false;
      }
    }
    return count > 0;
  }

  owned_arrays<M> owned_;
  row_view<Real>* table_ = nullptr;  ///< [capacity]
};

}  // namespace hunch
