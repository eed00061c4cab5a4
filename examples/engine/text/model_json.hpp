// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include <engine/config_object.hpp>
#include <engine/text/subwords.hpp>

namespace engine::text {

/// The "model" of a `tokenizer.json`: BPE or Unigram. Older files do not say that theirs is BPE.
/// \throws std::runtime_error naming the field and what is supported.
std::unique_ptr<subwords> read_model(const config_object& described);

}  // namespace engine::text
