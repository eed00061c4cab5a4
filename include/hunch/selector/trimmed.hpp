// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <stdexcept>
#include <utility>

#include <hunch/selector/full.hpp>

namespace hunch::selector {

/// A head that has only the rows of some tokens, all of which are computed: VocabTrim, with the
/// tokens of calibration text that the target wrote (arXiv:2506.22694), or a draft vocabulary that
/// was fixed in training, as EAGLE-3's. Lossless, as every selector.
class trimmed : public full {
 public:
  /// \param kept the order of these rows, such as `first_rows` or `from_d2t` of a checkpoint gives.
  /// \throws std::invalid_argument for a head with a row for every token: that is `full`.
  explicit trimmed(vocab_layout kept) : full(std::move(kept)) {
    if (layout().head_rows() == layout().vocab_size()) {
      throw std::invalid_argument("hunch::selector::trimmed: no token is left out");
    }
  }
};

}  // namespace hunch::selector
