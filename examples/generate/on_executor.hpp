// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <utility>

#include "generate/arguments.hpp"
#include "generate/resident.hpp"

namespace generate {

/// The program over canvases on an executor. It is defined in resident_canvas.hpp, which a source
/// file of its own instantiates, like `tree_loops`.
/// \tparam Platform as of `resident_program`.
template <class Platform>
struct canvas_loops {
  static void run(const arguments& a, typename Platform::executor where);
};

/// What the flags ask for, with models and loops on an executor.
template <class Platform>
void run_on_executor(const arguments& a, typename Platform::executor where) {
  if (a.method == method_kind::speculative) {
    resident_program<Platform>(a, std::move(where)).run();
  } else {
    canvas_loops<Platform>::run(a, std::move(where));
  }
}

}  // namespace generate
