// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include <hunch/length/cost.hpp>
#include <hunch/length/length.hpp>

namespace generate {

/// How deep drafts are: as deep as the decoder says, or, once its costs have been measured, as deep
/// as pays.
struct length_choice {
  bool automatic = false;
  hunch::length::cost by_cost;
};

/// The policy of that choice, which may change while a decoder exists.
struct chosen_length {
  static constexpr bool needs_entropy = hunch::length::cost::needs_entropy;
  using memory = hunch::length::cost::memory;

  const length_choice* choice;

  std::int32_t begin(memory& m, std::int32_t max_depth) const {
    return choice->automatic ? choice->by_cost.begin(m, max_depth) : max_depth;
  }
  bool goes_on(memory& m, const hunch::length_evidence& e) const {
    return !choice->automatic || choice->by_cost.goes_on(m, e);
  }
  void observe(memory& m, std::int32_t drafted, std::int32_t accepted) const noexcept {
    if (choice->automatic) { choice->by_cost.observe(m, drafted, accepted); }
  }
};

static_assert(hunch::LengthPolicy<chosen_length>);

}  // namespace generate
