// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <utility>

#include "generate/arguments.hpp"
#include "generate/resident.hpp"
#include "generate/resident_canvas.hpp"

namespace generate {

/// What the flags ask for, with models and loops on an executor.
/// \tparam Platform as of `resident_program`.
template <class Platform>
void run_on_executor(const arguments& a, typename Platform::executor where) {
  if (a.method == method_kind::speculative) {
    resident_program<Platform>(a, std::move(where)).run();
  } else {
    resident_canvas_program<Platform>(a, std::move(where)).run();
  }
}

}  // namespace generate
