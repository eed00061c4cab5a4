// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cxxabi.h>

#include <cstdlib>
#include <set>
#include <string>
#include <typeinfo>

namespace hunch::test {

/// What the decoders of a program's tests are made of: the spelled-out types of those that are
/// recorded, and of their selectors.
inline std::set<std::string>& recorded_rows() {
  static std::set<std::string> rows;
  return rows;
}

/// A type with all its template arguments, defaults too.
template <class T>
std::string spelled_out() {
  int failed = 0;
  char* const name = abi::__cxa_demangle(typeid(T).name(), nullptr, nullptr, &failed);
  const std::string out = failed == 0 ? name : "";
  std::free(name);
  return out;
}

/// Noted before any test runs, of every row of the grid that is compiled.
template <class Decoder, class Selector>
struct grid_entry {
  static inline const bool recorded = (recorded_rows().insert(spelled_out<Decoder>()),
                                       recorded_rows().insert(spelled_out<Selector>()), true);
};

}  // namespace hunch::test
