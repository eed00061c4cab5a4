// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include <engine/text/pieces.hpp>
#include <engine/text/spellings.hpp>
#include <hunch/core/types.hpp>

namespace engine::text {

/// Makes tokens of pieces: the "model" of a `tokenizer.json`.
class subwords {
 public:
  virtual ~subwords() = default;
  /// Adds the tokens of all pieces to `out`.
  virtual void encode(const pieces& of, std::vector<hunch::token>& out) const = 0;
  virtual const spellings& spelled() const = 0;
};

}  // namespace engine::text
