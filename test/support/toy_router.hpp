// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include <hunch/selector/clustered.hpp>
#include <hunch/selector/router.hpp>
#include "hash.hpp"
#include "toy_world.hpp"

namespace hunch::test {

/// The weights of a random router.
struct toy_router {
  static constexpr std::int32_t width = 7;
  std::vector<float> first, first_bias, second, second_bias;

  toy_router(std::int32_t inputs, std::int32_t clusters, std::uint64_t seed) {
    dice random{seed};
    const auto fill = [&](std::vector<float>& x, std::int32_t n) {
      for (std::int32_t i = 0; i < n; ++i) {
        x.push_back(static_cast<float>(4.0 * random.unit() - 2.0));
      }
    };
    fill(first, width * inputs);
    fill(first_bias, width);
    fill(second, clusters * width);
    fill(second_bias, clusters);
  }

  router::mlp<float> view() const {
    const auto clusters = static_cast<std::int32_t>(second_bias.size());
    const auto inputs = static_cast<std::int32_t>(first.size()) / width;
    return {{first.data(), width, inputs},
            first_bias.data(),
            {second.data(), clusters, width},
            second_bias.data()};
  }
};

/// Clusters of one, two, one, two... rows after a core.
inline vocab_layout toy_clusters(const vocab_layout& order, std::int32_t core) {
  std::vector<std::int32_t> begin{core};
  while (begin.back() < order.head_rows()) {
    const std::int32_t next = begin.back() + 1 + static_cast<std::int32_t>(begin.size() % 2 == 0);
    begin.push_back(next < order.head_rows() ? next : order.head_rows());
  }
  return order.clustered(begin);
}

/// A clustered selector over toy contexts.
template <class B>
auto toy_clustered(const vocab_layout& order, std::int32_t core, B budget) {
  vocab_layout layout = toy_clusters(order, core);
  static const toy_router weights[] = {{toy_context_size, 1, 1}, {toy_context_size, 2, 2},
                                       {toy_context_size, 3, 3}, {toy_context_size, 4, 4},
                                       {toy_context_size, 5, 5}, {toy_context_size, 6, 6}};
  const toy_router& router = weights[layout.clusters() - 1];
  return selector::clustered{std::move(layout), router.view(), budget};
}

}  // namespace hunch::test
