// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <exception>

namespace generate {

/// Runs what was added to a loop that does not wait for the host to its end. `ended()` says whether
/// the executor has nothing under way, and throws its errors; `use(entry)` gets what comes out, and
/// `looked()` is called after each look. What `use` throws is thrown when all requests have ended,
/// for a loop is not polled by what throws; nothing else is shown until then.
template <class Decoder, class Ended, class Use, class Looked>
void run_to_end(Decoder& decoder, Ended&& ended, Use&& use, Looked&& looked) {
  std::exception_ptr error;
  const auto take = [&](const auto& entry) noexcept {
    if (error != nullptr) { return; }
    try {
      use(entry);
    } catch (...) { error = std::current_exception(); }
  };
  decoder.run();
  while (decoder.running() > 0) {
    const bool stands = ended();
    decoder.poll(take);
    if (error == nullptr) { looked(); }
    if (stands && decoder.running() > 0) { decoder.run(); }
  }
  if (error != nullptr) { std::rethrow_exception(error); }
}

}  // namespace generate
