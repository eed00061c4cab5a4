// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include <hunch/core/config.hpp>
#include <hunch/executor/executor.hpp>
#include <hunch/executor/owned_arrays.hpp>
#include <hunch/tree/shape.hpp>

namespace hunch::drafter {

/// A `TreeShape` where bodies reach it.
struct shape_view {
  std::int32_t* asked_at = nullptr;  ///< [places]
  std::int32_t* child_at = nullptr;  ///< [places, each]
  std::int32_t places = 0;
  std::int32_t each = 0;  ///< children of a place at most

  HUNCH_HOST_DEVICE std::int32_t asked(std::int32_t place) const { return asked_at[place]; }
  HUNCH_HOST_DEVICE std::int32_t child(std::int32_t place, std::int32_t i) const {
    return child_at[static_cast<std::int64_t>(place) * each + i];
  }
};

/// What `Tree::asked` and `Tree::child` say of every place that nodes have, in memory of an
/// executor: shapes are written for the host, and a device has no tables of constants to look into.
template <TreeShape Tree, class Executor>
shape_view make_shape(owned_arrays<Executor>& arrays) {
  constexpr auto each = static_cast<std::size_t>(Tree::max_children);
  std::vector<std::int32_t> asked;
  std::vector<std::int32_t> children;
  std::vector<std::int32_t> open{0};  // from the root down
  while (!open.empty()) {
    const std::int32_t place = open.back();
    const auto at = static_cast<std::size_t>(place);
    open.pop_back();
    if (at >= asked.size()) {
      asked.resize(at + 1, -1);
      children.resize((at + 1) * each, -1);
    }
    if (asked[at] >= 0) { continue; }
    asked[at] = Tree::asked(place);
    for (std::int32_t i = 0; i < asked[at]; ++i) {
      const std::int32_t child = Tree::child(place, i);
      children[at * each + static_cast<std::size_t>(i)] = child;
      if (child >= 0) { open.push_back(child); }
    }
  }
  shape_view made;
  made.places = static_cast<std::int32_t>(asked.size());
  made.each = Tree::max_children;
  arrays.give(made.places, made.asked_at);
  arrays.give(static_cast<std::int64_t>(children.size()), made.child_at);
  write_buffer(arrays.executor(), made.asked_at, asked.data(), asked.size());
  write_buffer(arrays.executor(), made.child_at, children.data(), children.size());
  return made;
}

}  // namespace hunch::drafter
