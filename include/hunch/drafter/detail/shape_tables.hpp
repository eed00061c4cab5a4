// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include <hunch/core/config.hpp>
#include <hunch/executor/executor.hpp>
#include <hunch/tree/shape.hpp>

namespace hunch::drafter {

/// A `TreeShape` where bodies reach it.
struct shape_view {
  const std::int32_t* asked_at = nullptr;  ///< [places]
  const std::int32_t* child_at = nullptr;  ///< [places, each]
  std::int32_t each = 0;                   ///< children of a place at most

  HUNCH_HOST_DEVICE std::int32_t asked(std::int32_t place) const { return asked_at[place]; }
  HUNCH_HOST_DEVICE std::int32_t child(std::int32_t place, std::int32_t i) const {
    return child_at[static_cast<std::int64_t>(place) * each + i];
  }
};

/// What `Tree::asked` and `Tree::child` say of every place that nodes have, in memory of an
/// executor: shapes are written for the host, and a device has no tables of constants to look into.
template <TreeShape Tree, class Executor>
class shape_tables {
 public:
  explicit shape_tables(Executor& executor) : shape_tables(executor, collect()) {}

  shape_view view() const { return {asked_.data(), child_.data(), Tree::max_children}; }

 private:
  struct places {
    std::vector<std::int32_t> asked;
    std::vector<std::int32_t> child;
  };
  template <class T>
  using buffer = typename Executor::template buffer<T>;

  shape_tables(Executor& executor, const places& of)
      : asked_(executor, of.asked.size()), child_(executor, of.child.size()) {
    write_buffer(executor, asked_.data(), of.asked.data(), of.asked.size());
    write_buffer(executor, child_.data(), of.child.data(), of.child.size());
  }

  /// From the root down.
  static places collect() {
    constexpr auto each = static_cast<std::size_t>(Tree::max_children);
    places of;
    std::vector<std::int32_t> open{0};
    while (!open.empty()) {
      const std::int32_t place = open.back();
      const auto at = static_cast<std::size_t>(place);
      open.pop_back();
      if (at >= of.asked.size()) {
        of.asked.resize(at + 1, -1);
        of.child.resize((at + 1) * each, -1);
      }
      if (of.asked[at] >= 0) { continue; }
      of.asked[at] = Tree::asked(place);
      for (std::int32_t i = 0; i < of.asked[at]; ++i) {
        const std::int32_t child = Tree::child(place, i);
        of.child[at * each + static_cast<std::size_t>(i)] = child;
        if (child >= 0) { open.push_back(child); }
      }
    }
    return of;
  }

  buffer<std::int32_t> asked_;
  buffer<std::int32_t> child_;
};

}  // namespace hunch::drafter
