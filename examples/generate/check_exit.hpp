// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <stdexcept>
#include <string>

#include "generate/arguments.hpp"

namespace generate {

/// Streams begin with what their rows are after the layers below: an exit head that prunes before
/// they do is after one of these layers, or the last of them.
/// \param layers of the target, before the exit; \param below the streams.
/// \throws std::runtime_error naming both folders.
inline void check_exit(const arguments& a, int layers, int below) {
  if (layers <= below) { return; }
  throw std::runtime_error(a.exit + ": is an exit after layer " + std::to_string(layers) +
                           ", and the streams of " + a.draft + " begin after layer " +
                           std::to_string(below));
}

}  // namespace generate
