// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

#include <engine/config_object.hpp>

namespace engine::text {

/// A sign that is written for a space, as SentencePiece does.
struct metaspace {
  enum class prepended { never, first, always };

  std::string sign = "\u2581";
  prepended scheme =
      prepended::always;  ///< in front of which pieces a sign is put, if it lacks one

  metaspace() = default;
  /// Reads "replacement", "prepend_scheme" and the older "add_prefix_space".
  /// \throws std::runtime_error naming the field and what is supported.
  explicit metaspace(const config_object& described);

  /// \param first  whether the piece begins where the text begins
  std::string written(std::string_view piece, bool first) const;
  /// The text of a token, with spaces.
  std::string read(std::string_view token) const;
};

}  // namespace engine::text
