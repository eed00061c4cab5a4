// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include <engine/config.hpp>
#include <engine/masked_config.hpp>
#include <engine/tokenizer.hpp>
#include <hunch/tools/made_for.hpp>
#include <hunch/tools/router_weights.hpp>
#include <hunch/vocab/vocab_layout.hpp>

#include "generate/arguments.hpp"

namespace generate {

/// The clusters of a head, and the router that chooses among them.
struct cluster_files {
  std::string layout;
  std::string router;
};

/// Of `--selector clustered`: the files of `--layout` and `--router`; without, the shipped ones, if
/// they are for this head, and nothing if they are not.
std::optional<cluster_files> clusters_for(const arguments& a, const hunch::made_for& head);

/// Clusters, and what a router that chooses among them is made of.
struct routed_clusters {
  hunch::vocab_layout layout;
  hunch::router::weights router;
};

/// What is in the files of `clusters_for`, or nothing: also if the flags ask for another selector.
/// \param context_width of the contexts that the model with this head tells a router;
/// early_width: of those before a pass, 0 for a model that tells none then.
/// \throws std::runtime_error for files that do not fit the head, the contexts or each other.
std::optional<routed_clusters> load_clusters(const arguments& a, const hunch::made_for& head,
                                             std::int32_t context_width,
                                             std::int32_t early_width = 0);

/// The order of the head's rows that the flags ask for: the file of `--layout`; without, the
/// shipped ranking by frequency, if it is one of the text's vocabulary, or else one of the shipped
/// texts, made on the spot. Says so where that is not what was asked for: then, and where that was
/// clusters. \param head that it is for. \throws std::runtime_error for a file that was made for
/// another head or vocabulary.
hunch::vocab_layout ranking_for(const arguments& a, const engine::tokenizer& text,
                                const hunch::made_for& head);

/// The tokenizer of a masked model: that beside it, or the shipped one, if its config says that it
/// was trained with that.
/// \throws std::runtime_error if there is none that it is known to have been trained with, and if
///         its files do not agree on the mask.
engine::tokenizer tokenizer_of_masked(const arguments& a, const engine::masked_config& shape);

}  // namespace generate
