// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace generate {

/// Runs what was added to a loop that does not wait for the host to its end. `ended()` says whether
/// the executor has nothing under way, and throws its errors; `use(entry)` gets what comes out, and
/// `looked()` is called after each look.
template <class Decoder, class Ended, class Use, class Looked>
void run_to_end(Decoder& decoder, Ended&& ended, Use&& use, Looked&& looked) {
  decoder.run();
  while (decoder.running() > 0) {
    const bool stands = ended();
    decoder.poll(use);
    looked();
    if (stands && decoder.running() > 0) { decoder.run(); }
  }
}

}  // namespace generate
