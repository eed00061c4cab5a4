// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>

#include <hunch/tools/fingerprints.hpp>

namespace engine {

/// A model by name, and what it says of heads that do not fit it: messages with both names.
struct named_model {
  const std::string origin;  ///< where its weights come from

  /// \throws std::invalid_argument naming the files that two models come from, and what differs.
  void must_have(const char* what, const std::string& own, const std::string& head,
                 const std::string& of_head) const {
    if (own == of_head) { return; }
    throw std::invalid_argument("engine: the " + std::string(what) + " of " + head + " is " +
                                of_head + ", that of its target " + origin + " " + own);
  }
  void must_have(const char* what, std::int64_t own, const std::string& head,
                 std::int64_t of_head) const {
    must_have(what, std::to_string(own), head, std::to_string(of_head));
  }
  /// The same for what is no value of both: what a head `does`, and what this model `is`.
  [[noreturn]] void refuse_head(const std::string& head, const std::string& does,
                                const std::string& is) const {
    throw std::invalid_argument("engine: " + head + " " + does + ", and its target " + origin +
                                " " + is);
  }
  /// \throws std::runtime_error naming both if `head` drafts with another head than this model's.
  void must_share_head(std::uint64_t own, const named_model& head, std::uint64_t of_head) const {
    if (own == of_head) { return; }
    throw std::runtime_error(head.origin + ": the head that it drafts with is " +
                             hunch::fingerprint_text(of_head) + ", and that of its target " +
                             origin + " " + hunch::fingerprint_text(own));
  }
};

}  // namespace engine
