// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <command_line/flags.hpp>
#include <engine/block_cache.hpp>
#include <engine/precision.hpp>

#include "generate/cluster_budget.hpp"
#include "generate/draft_length.hpp"

namespace generate {

using command_line::usage_error;

enum class method_kind { speculative, diffusion, stepwise };
enum class drafter_kind {
  none,
  model,
  eagle,
  medusa,
  streaming,
  early_exit,
  int4,
  lookup,
  ensemble,
  cascade
};
enum class tree_kind { chain, sampled, dynamic, dynamic_60, fixed };
enum class selector_kind { full, frequency, trimmed, clustered };
enum class verifier_kind { rejection, block, coupled, point_mass, greedy };
enum class device_kind { host, cuda, teams };
enum class color_mode { automatic, always, never };

/// What the command line asks for.
struct arguments {
  std::string preset;  ///< whose composition this is; empty if it is one of the user's own
  method_kind method = method_kind::speculative;
  std::string model;  ///< Hugging Face directory of the target, or of the masked diffusion model
  std::string draft;  ///< of what drafts: a model, or heads of the target
  device_kind device = device_kind::host;
  std::int32_t ranks = 1;  ///< processes that share the target's logits
  engine::precision precision = engine::precision::bf16;  ///< of the weights, on the host
  drafter_kind drafter = drafter_kind::model;
  tree_kind tree = tree_kind::chain;
  selector_kind selector = selector_kind::frequency;
  std::int32_t shortlist_rows = 0;       ///< of selectors frequency and trimmed; 0: not given
  std::string layout;                    ///< file of all selectors but full; empty: not given
  std::string router;                    ///< file of selector clustered
  std::optional<cluster_budget> budget;  ///< of selector clustered
  std::int32_t kept_nodes = 0;  ///< of a tree of streams, by the target's first layers; 0: all
  std::string exit;             ///< directory of the head after these layers
  verifier_kind verifier = verifier_kind::rejection;
  std::optional<std::int32_t> draft_length;  ///< nothing: as long as it pays
  generate::draft_lengths draft_lengths;     ///< to repeat; empty: not given
  std::optional<std::int32_t> block_length;  ///< of canvases; nothing: the model's
  engine::block_cache block_cache = engine::block_cache::none;
  double spread = 1.0;             ///< of the sets of drafts of a canvas; 0: a chain
  std::int32_t accepted_rank = 0;  ///< lossy: of a draft's token on the canvas before it; 0: exact
  std::string tokenizer;           ///< directory of one, for a masked model that has none beside it
  std::string prompt;
  std::int32_t batch = 1;
  std::int32_t max_new_tokens = 192;
  float temperature = 1.0f;
  std::int32_t top_k = 0;
  float top_p = 1.0f;
  float min_p = 0.0f;
  float repetition_penalty = 1.0f;
  float presence_penalty = 0.0f;
  float frequency_penalty = 0.0f;
  std::string pattern;  ///< regular expression that the text follows; empty: none
  std::uint64_t seed = 1;
  bool ignore_end = false;   ///< go on after the end-of-text token
  bool plain = false;        ///< plain decoding only
  std::int32_t rounds = 3;   ///< plain and speculative runs, taken in turn
  std::int32_t threads = 0;  ///< 0: half of the processors
  std::string json;          ///< file for the report
  color_mode color = color_mode::automatic;

  /// Whether nothing is drafted.
  bool decodes_plainly() const { return plain || drafter == drafter_kind::none; }
  /// Whether tokens of the tree are drawn from a law, and not the most probable ones.
  bool draws_children() const { return tree == tree_kind::chain || tree == tree_kind::sampled; }
  /// Whether an EAGLE head drafts, which reads the target's features.
  bool reads_features() const {
    return drafter == drafter_kind::eagle || drafter == drafter_kind::ensemble;
  }
  /// Whether drafts are as long as is measured to pay.
  bool measures_length() const { return !draft_length && draft_lengths.empty(); }
};

/// The longest chain that this program drafts; its other trees are less deep.
inline constexpr std::int32_t max_draft_length = 8;

/// \throws usage_error with a sentence that says what to change; command_line::help_wanted;
/// std::runtime_error if there can be no report where it is asked for.
arguments parse(const std::vector<std::string>& words);

/// What these flags compose, in words.
std::string composition(const arguments& a);

}  // namespace generate
