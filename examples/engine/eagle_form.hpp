// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace engine {

/// In what the layers of an EAGLE head differ from those of a whole model. The defaults are those
/// of this project's own heads; see `eagle_files` for those that others publish.
struct eagle_form {
  bool first_norm = true;  ///< before the attention of the first layer
  /// After the last layer; what the head reads of its own rows has gone through it, too.
  bool last_norm = true;
  /// The first position of a text is nobody's: a head that pairs every token with the state before
  /// it was trained without a row for a token that has none.
  bool skips_first = false;
  /// Multi-token prediction (DeepSeek-AI 2024, arXiv:2412.19437): "fc" reads norms of the embedding
  /// and of the state.
  bool norms_inputs = false;
  /// EAGLE-3 (Li et al. 2025, arXiv:2503.01840): the attention of the only layer reads [norm of the
  /// embedding; norm of the state], and what the head reads of its own rows is the residual after
  /// that layer. The state is "fc" of several states of the target, or what the head made itself.
  bool reads_both = false;
  bool keeps_norm = false;  ///< of `reads_both`: that norm of the state is also the residual
  int feature_width = 0;    ///< of `reads_both`: what "fc" reads of the target
  /// Of `reads_both`: norms of as many equal parts of what "fc" reads of the target; 1: of all of
  /// it.
  int feature_norms = 0;
  /// Of `reads_both`: what the head reads of its own rows has gone through the last norm, too.
  bool norms_own = false;
  int head_rows = 0;  ///< of a head of its own over a part of the vocabulary; 0: the target's

  bool operator==(const eagle_form&) const = default;
};

}  // namespace engine
