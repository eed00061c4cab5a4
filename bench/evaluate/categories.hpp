// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <vector>

#include <engine/model.hpp>
#include <engine/tokenizer.hpp>
#include <generate/composed.hpp>

namespace bench::evaluate {

using generate::prompt_list;

/// Texts of one kind.
struct category {
  std::string name;
  double entropy = 0.0;       ///< of the target's laws along held-out text, the mean in nats
  std::string entropy_class;  ///< "low", "medium" or "high"
  prompt_list prompts;
};

/// The held-out texts in a folder, those of least entropy first: a third of them, rounded up, are
/// those of low entropy, the next third those of medium.
/// \param prompts  of each. Slot 0 of the target is free before and afterwards.
std::vector<category> categories_of(engine::model& target, const engine::tokenizer& text,
                                    const std::filesystem::path& heldout, std::size_t prompts);

}  // namespace bench::evaluate
