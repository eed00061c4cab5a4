// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace hunch {

/// What one step of a decoder did, and how long all of it took. "Levels" are those of the drafts of
/// all sequences together.
struct step_summary {
  std::int32_t draft_length = 0;      ///< levels that the decoder allowed
  std::int32_t sequences = 0;         ///< that were verified
  std::int32_t finished = 0;          ///< of these, that ended
  std::int32_t deepest = 0;           ///< levels of the longest draft
  std::int64_t levels = 0;            ///< that were drafted
  std::int32_t deepest_computed = 0;  ///< levels of the longest draft that took a pass of a drafter
  std::int64_t computed = 0;          ///< such levels: the others were found in the text
  std::int64_t tested = 0;            ///< levels after accepted ones only, copies too
  std::int64_t accepted = 0;
  std::int64_t drafted = 0;  ///< nodes, roots excluded
  std::int64_t emitted = 0;
  std::int64_t prompt_rows = 0;  ///< that the target read besides
  double draft_seconds = 0.0;
  double target_seconds = 0.0;
  double verify_seconds = 0.0;  ///< and the commit

  double seconds() const { return draft_seconds + target_seconds + verify_seconds; }
};

}  // namespace hunch
