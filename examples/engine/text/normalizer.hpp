// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>
#include <vector>

#include <engine/config_object.hpp>

namespace engine::text {

/// What is done to a text before it is cut: the "normalizer" of a `tokenizer.json`. NFC, NFD, NFKC,
/// NFKD, Lowercase, Strip, Prepend, Replace, and Sequences of them.
class normalizer {
 public:
  /// Of a file that has none: changes nothing.
  normalizer() = default;
  /// \throws std::runtime_error naming the field and what is supported.
  explicit normalizer(const config_object& described);

  /// \param text well-formed UTF-8
  std::string operator()(std::string text) const;

 private:
  std::vector<std::function<std::string(std::string)>> steps_;
};

}  // namespace engine::text
