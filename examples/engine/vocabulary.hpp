// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>

#include <engine/config.hpp>
#include <engine/tokenizer.hpp>
#include <hunch/vocab/shared_vocabulary.hpp>

/// \file
/// Which tokens a model reads, of what its directory says: a number of tokens alone does not tell.

namespace engine {

/// The fingerprint of a model's vocabulary: of the tokenizer beside it, or what its config says; 0
/// if there is neither.
/// \throws std::runtime_error if both are there and differ.
std::uint64_t vocabulary_of(const std::filesystem::path& model, const config& shape);

/// Compares a tokenizer with the model that is to read its tokens: their number, and what the
/// model's config says. \throws std::runtime_error naming both and what differs.
void check_tokenizer(const tokenizer& text, const std::filesystem::path& tokenizer_of,
                     const std::filesystem::path& model, const config& shape);

/// Compares the vocabulary of a draft model with that of the text that its target reads.
/// \throws std::runtime_error naming both and what differs; also if nothing says what the draft
///         model reads.
void check_draft_vocabulary(const std::filesystem::path& draft, const config& shape,
                            std::uint64_t of_target, const std::filesystem::path& target);

/// What the vocabularies of a draft model and of its target share, or nothing if they are one, of
/// as many tokens: embeddings of one tokenizer may be padded to different sizes. A token that the
/// draft model has not is read as the last of those that spell it there; of several tokens of one
/// text that is shared which a tokenizer writes. \throws std::runtime_error like
/// `check_draft_vocabulary` if nothing says what the draft model
///         reads, or only a fingerprint does, which is another one.
std::optional<hunch::shared_vocabulary> shared_with_draft(const std::filesystem::path& draft,
                                                          const config& draft_shape,
                                                          const tokenizer& of_target,
                                                          const config& target_shape,
                                                          const std::filesystem::path& target);

}  // namespace engine
