// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include <engine/config_object.hpp>

namespace engine::text {

/// What a token of a model adds to a text: the "decoder" of a `tokenizer.json`. ByteLevel,
/// Metaspace, Replace, ByteFallback, Fuse, Strip of a space at the beginning, and Sequences of
/// them: texts whose tokens are decoded one by one.
class decoding {
 public:
  /// \throws std::runtime_error naming the field and what is supported.
  explicit decoding(const config_object& described);

  /// \param spelling of a token, in the vocabulary
  std::string operator()(std::string_view spelling) const;
  /// Whether a space at the very beginning of a text is not part of it.
  bool drops_first_space() const { return drops_first_space_; }

 private:
  void read_strip(const config_object& part, bool fused);

  std::vector<std::function<std::string(std::string)>> steps_;
  bool drops_first_space_ = false;
};

}  // namespace engine::text
