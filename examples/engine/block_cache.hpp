// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace engine {

/// What a masked model whose rows see the whole canvas keeps, while a block is unmasked, of the
/// reading with which the block was begun. All but `none` are approximations: what is kept does not
/// know what is unmasked meanwhile. (Fast-dLLM, Wu et al. 2025, arXiv:2505.22618)
enum class block_cache {
  none,    ///< nothing: every pass reads the whole canvas
  prefix,  ///< keys and values of the text before the block; the block and what follows are read
  dual,    ///< also those of what follows it; the block alone is read
};

}  // namespace engine
