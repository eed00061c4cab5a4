// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include <hunch/core/types.hpp>
#include <hunch/tools/made_for.hpp>

#include "handles.hpp"

namespace llama_cpp {

/// With what a text begins, where the vocabulary says so. \throws std::runtime_error for a text
/// that llama.cpp makes no tokens of.
std::vector<hunch::token> encode(const weights& of, std::string_view text);
std::string bytes_of(const weights& of, hunch::token t);
/// The tokens that end a text.
std::vector<hunch::token> ends_of(const weights& of);

/// Compares the vocabularies of two models, token by token. Which of them begin and end a text is
/// the target's alone: an instructed model may draft for its base model.
/// \throws std::runtime_error naming both files and what differs.
void check_same_vocabulary(const weights& target, const weights& draft);

/// What layouts and routers for a model's head must have been made for. Of a head that is rounded
/// in groups only the vocabulary is known.
hunch::made_for made_for_head_of(const weights& of);

}  // namespace llama_cpp
