// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>

/// \file
/// The alphabet in which byte-level vocabularies spell bytes: each is a letter that can be seen
/// (Radford et al. 2019, "Language Models are Unsupervised Multitask Learners"). Printable
/// characters of Latin-1 stand for themselves, the other bytes for the letters from U+0100 on, in
/// their order.

namespace engine::text {

/// The letter of a byte, in UTF-8.
std::string_view letter_of(unsigned char byte);

/// A text, a letter for each of its bytes.
std::string spelled(std::string_view bytes);

/// The bytes that letters stand for; nothing if one of them stands for none.
std::optional<std::string> unspelled(std::string_view letters);

}  // namespace engine::text
