// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>

#include "../../materialised.hpp"

/// \file
/// What the operations are held against: one copy, as fast as this machine can, whatever the rest
/// is compiled with.

namespace bench {

struct baselines {
  bool optimised;
  bool avx2;
  bool avx512;

  float (*read_once)(const float* first, std::size_t count);

  /// See `materialised_chain`.
  using chain_rule =
      std::function<chain_outcome(const float* p, const float* q, const std::int32_t* drafted,
                                  const double* accept, double last)>;
  chain_rule (*materialised)(std::int32_t length, std::int32_t vocab);
  chain_rule (*naive)(std::int32_t length, std::int32_t vocab);
};

/// All that its library shows.
[[gnu::visibility("default")]] const baselines& all_baselines();

}  // namespace bench
