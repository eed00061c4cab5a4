// SPDX-License-Identifier: Apache-2.0
#include <engine/vocabulary.hpp>

#include <hunch/tools/fingerprints.hpp>
#include <stdexcept>
#include <string>

namespace engine {
namespace {

using hunch::fingerprint_text;

[[noreturn]] void differ(const std::filesystem::path& model, std::uint64_t own,
                         const std::filesystem::path& text, std::uint64_t other) {
  throw std::runtime_error(model.string() + ": reads the vocabulary " + fingerprint_text(own) +
                           ", and that of " + text.string() + " is " + fingerprint_text(other) +
                           ": the same number is another token");
}

}  // namespace

std::uint64_t vocabulary_of(const std::filesystem::path& model, const config& shape) {
  if (!tokenizer::file_in(model)) { return shape.vocabulary; }
  const tokenizer text(model);
  check_tokenizer(text, model, model, shape);
  return text.fingerprint();
}

void check_tokenizer(const tokenizer& text, const std::filesystem::path& tokenizer_of,
                     const std::filesystem::path& model, const config& shape) {
  if (text.vocab_size() > shape.vocab_size) {
    throw std::runtime_error(tokenizer_of.string() + ": the tokenizer has " +
                             std::to_string(text.vocab_size()) + " tokens, the model " +
                             model.string() + " " + std::to_string(shape.vocab_size));
  }
  if (shape.vocabulary != 0 && shape.vocabulary != text.fingerprint()) {
    differ(model, shape.vocabulary, text.file(), text.fingerprint());
  }
}

void check_draft_vocabulary(const std::filesystem::path& draft, const config& shape,
                            std::uint64_t of_target, const std::filesystem::path& target) {
  const std::uint64_t own = vocabulary_of(draft, shape);
  if (own == 0) {
    throw std::runtime_error(draft.string() +
                             ": nothing says which vocabulary it reads. Put its tokenizer.json, "
                             "tokenizer.model, or vocab.json and merges.txt there; "
                             "or, if it has that of " +
                             target.string() + ", add \"vocabulary_fingerprint\": \"" +
                             fingerprint_text(of_target) + "\" to its config.json");
  }
  if (own != of_target) { differ(draft, own, target, of_target); }
}

}  // namespace engine
