// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "../common.hpp"
#include "compiled/baselines.hpp"
#include "compiled/operations.hpp"

namespace bench {

/// Ends the program unless `holds`: a bench that measures something else than it says is worth less
/// than none.
void need(bool holds, const std::string& what);

/// The operations as compiled with one set of flags.
struct variant {
  std::string name;
  const operations* run;  ///< nullptr: not for this processor
};

/// All there are, "native" first. Each runs its own code, which is checked.
const std::vector<variant>& variants();
inline const operations& native() { return *variants().front().run; }

/// Reads floats as fast as one thread can.
void read_once(const float* first, std::size_t count);

/// Goals of an operation.
struct goals {
  std::optional<goal> against_stream = std::nullopt;
  goal against_native = at_most(1.3);
};

/// The candidates of one operation, a candidate for each set of flags, and what is said of them.
class compared {
 public:
  /// candidates: where `add` puts its candidates, and where they are found in timings.
  template <class Candidates, class Make>
  static compared add(Candidates& candidates, const Make& make) {
    compared out;
    for (const variant& v : variants()) {
      out.places_.push_back(candidates.size());
      if (v.run != nullptr) { candidates.push_back(make(*v.run)); }
    }
    return out;
  }

  /// Of the native one.
  std::size_t native() const { return places_.front(); }

  /// Rows for every set of flags: against the stream if there is a `stream`, and against native.
  void say(report& out, const std::string& name, const timings& t,
           std::optional<std::size_t> stream, const goals& wanted) const;

 private:
  std::vector<std::size_t> places_;
};

}  // namespace bench
