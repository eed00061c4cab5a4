// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <hunch/hunch.hpp>

#include "common.hpp"
#include "drafters/measure.hpp"

/// \file
/// Several drafters in one tree: what that gives over the best of them with as many nodes.

namespace bench::drafters {

/// What is looked up, an EAGLE head's dynamic tree, and both in one tree, each with as many nodes:
/// acceptance lengths along held-out text.
/// \tparam Tree a `tree::dynamic`. \param list that the head is over.
template <class Tree, class Model>
void compare_merged(report& out, const setting& where, Model& eagle,
                    const hunch::selector::any<>& list) {
  using namespace hunch;
  constexpr std::int32_t total = Tree::total;
  eagle.set_head_layout(list.layout());
  for (int t = 0; t < temperatures; ++t) {
    const std::string row =
        "one tree, " + std::to_string(total) + " nodes" + at_temperature(t) + ": ";
    const auto length_of = [&](const std::string& name, const auto& make) {
      const std::vector<double> lengths = length_along_text(
          where, verifier::point_mass{}, static_cast<float>(t), [&](auto counting) {
            return decoder{where.target, make(), selector::any<>(list), text_sampler{},
                           std::move(counting)};
          });
      for (std::size_t d = 0; d < where.domains.size(); ++d) {
        out.record(row + name + ", " + where.domains[d], lengths[d], "tokens");
      }
      out.add(row + name + ", acceptance length along text", mean(lengths), "tokens");
      return mean(lengths);
    };
    const double copied =
        length_of("lookup", [] { return drafter::lookup<std::min(total - 1, 63), 8>{1}; });
    const double expected = length_of("EAGLE-2", [&] {
      return drafter::autoregressive{eagle, Tree{}};
    });
    const double both = length_of("lookup and EAGLE-2", [&] {
      return drafter::ensemble{drafter::nodes<total>{},
                               drafter::lookup<std::min(total - 2, 16), 8>{4},
                               drafter::autoregressive{eagle, Tree{}}};
    });
    // A text that was drawn is not repeated as surely.
    out.add(row + "lookup and EAGLE-2 / the better one", both / std::max(copied, expected), "x",
            t == 0 ? std::optional(at_least(1.0)) : std::nullopt);
  }
}

}  // namespace bench::drafters
