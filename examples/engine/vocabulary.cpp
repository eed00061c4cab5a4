// SPDX-License-Identifier: Apache-2.0
#include <engine/vocabulary.hpp>

#include <algorithm>
#include <hunch/tools/fingerprints.hpp>
#include <map>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace engine {
namespace {

using hunch::fingerprint_text;

[[noreturn]] void differ(const std::filesystem::path& model, std::uint64_t own,
                         const std::filesystem::path& text, std::uint64_t other) {
  throw std::runtime_error(model.string() + ": reads the vocabulary " + fingerprint_text(own) +
                           ", and that of " + text.string() + " is " + fingerprint_text(other) +
                           ": the same number is another token");
}

/// What each token adds to a text. Of several tokens that add the same, as a byte and the character
/// that it is, all but the one that the tokenizer writes, or the first, add nothing here.
std::vector<std::string_view> written_pieces(const tokenizer& text, int vocab_size) {
  std::vector<std::string_view> out(static_cast<std::size_t>(vocab_size));
  std::map<std::string_view, hunch::token> of_text;
  for (hunch::token t = 0; t < std::min(vocab_size, text.vocab_size()); ++t) {
    const std::string_view piece = text.bytes(t);
    if (piece.empty()) { continue; }
    const auto [found, is_first] = of_text.emplace(piece, t);
    if (!is_first && text.encode(piece, false) == std::vector<hunch::token>{t}) {
      found->second = t;
    }
  }
  for (const auto& [piece, t] : of_text) { out[static_cast<std::size_t>(t)] = piece; }
  return out;
}

/// Of models that have embeddings of different sizes for the tokens of one tokenizer: further rows
/// are padding, and stand for nothing.
hunch::shared_vocabulary same_numbers(int tokens, const config& draft, const config& target) {
  std::vector<std::pair<hunch::token, hunch::token>> pairs;
  for (hunch::token t = 0; t < tokens; ++t) { pairs.emplace_back(t, t); }
  const auto nothing = [](hunch::token) { return std::string_view(); };
  return hunch::share_vocabularies(
      target.vocab_size, nothing, draft.vocab_size, nothing,
      [](hunch::token) { return hunch::token{0}; }, pairs);
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

std::optional<hunch::shared_vocabulary> shared_with_draft(const std::filesystem::path& draft,
                                                          const config& draft_shape,
                                                          const tokenizer& of_target,
                                                          const config& target_shape,
                                                          const std::filesystem::path& target) {
  if (!tokenizer::file_in(draft) || vocabulary_of(draft, draft_shape) == of_target.fingerprint()) {
    check_draft_vocabulary(draft, draft_shape, of_target.fingerprint(), target);
    if (draft_shape.vocab_size == target_shape.vocab_size) { return std::nullopt; }
    return same_numbers(of_target.vocab_size(), draft_shape, target_shape);
  }
  const tokenizer of_draft(draft);
  const auto target_pieces = written_pieces(of_target, target_shape.vocab_size);
  const auto draft_pieces = written_pieces(of_draft, draft_shape.vocab_size);
  std::vector<std::pair<hunch::token, hunch::token>> pairs;
  const auto pair = [&](hunch::token a, hunch::token b) {
    if (a != hunch::no_token && b != hunch::no_token) { pairs.emplace_back(a, b); }
  };
  pair(of_target.eos(), of_draft.eos());
  if (of_target.bos() != of_target.eos() && of_draft.bos() != of_draft.eos()) {
    pair(of_target.bos(), of_draft.bos());
  }
  const hunch::token nothing = std::max(of_draft.eos(), hunch::token{0});
  return hunch::share_vocabularies(
      target_shape.vocab_size,
      [&](hunch::token t) { return target_pieces[static_cast<std::size_t>(t)]; },
      draft_shape.vocab_size,
      [&](hunch::token t) { return draft_pieces[static_cast<std::size_t>(t)]; },
      [&](hunch::token t) {
        const std::vector<hunch::token> spelled = of_draft.encode(of_target.bytes(t), false);
        return spelled.empty() ? nothing : spelled.back();
      },
      pairs);
}

}  // namespace engine
