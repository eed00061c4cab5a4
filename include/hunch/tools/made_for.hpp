// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <charconv>
#include <cstdint>
#include <optional>
#include <string>
#include <system_error>

#include <hunch/tools/fingerprints.hpp>
#include <hunch/tools/tensor_file.hpp>

namespace hunch {

/// The head that a file is made for, or is about to be used with.
struct made_for {
  std::int32_t vocab_size = 0;
  std::uint64_t vocabulary = 0;   ///< `vocabulary_fingerprint` of its tokenizer; 0: not known
  std::uint64_t head = 0;         ///< `head_fingerprint`; 0: not known, or of any
  std::string name = "the head";  ///< for messages: whose it is, such as a model's directory

  /// Notes it in a file.
  void put(tensor_file& file) const {
    file.about["vocab_size"] = std::to_string(vocab_size);
    file.about["vocabulary"] = fingerprint_text(vocabulary);
    file.about["head"] = fingerprint_text(head);
  }

  /// Compares it with what a file says: what both know must be the same, and there must be
  /// something that both know.
  /// \throws std::runtime_error naming the file, the head and what differs; also for a file that
  ///         does not say what it was made for.
  void check(const tensor_file& file) const {
    const std::int64_t tokens = number(file, "vocab_size");
    if (tokens != vocab_size) {
      file.fail("is for a vocabulary of " + std::to_string(tokens) + " tokens, not of " +
                std::to_string(vocab_size) + " as " + name);
    }
    const bool vocabularies = same(file, "vocabulary", vocabulary);
    const bool heads = same(file, "head", head);
    if (!vocabularies && !heads) {
      file.fail("there is nothing to tell whether it was made for " + name +
                ": neither the vocabulary nor the head of both is known");
    }
  }

 private:
  static const std::string& said(const tensor_file& file, const char* key) {
    const auto found = file.about.find(key);
    if (found == file.about.end()) {
      file.fail("does not say for which " + std::string(key) +
                " it was made: it is none of ours, or older than this check; make it anew");
    }
    return found->second;
  }

  static std::int64_t number(const tensor_file& file, const char* key) {
    const std::string& text = said(file, key);
    std::int64_t value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || end != text.data() + text.size()) {
      file.fail("'" + std::string(key) + "' is not a number");
    }
    return value;
  }

  /// Whether both are known, and are the same.
  bool same(const tensor_file& file, const char* key, std::uint64_t own) const {
    const std::optional<std::uint64_t> of_file = fingerprint_of_text(said(file, key));
    if (!of_file) {
      file.fail("'" + std::string(key) +
                "' is no fingerprint, or older than this check; make it "
                "anew");
    }
    if (*of_file == 0 || own == 0) { return false; }
    if (*of_file != own) {
      file.fail("was made for another " + std::string(key) + ", " + fingerprint_text(*of_file) +
                "; that of " + name + " is " + fingerprint_text(own) +
                ": use the file that was made for it, or make one");
    }
    return true;
  }
};

}  // namespace hunch
