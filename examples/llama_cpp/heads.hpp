// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <optional>
#include <string>

#include <hunch/selector/any.hpp>
#include <hunch/tools/router_weights.hpp>

#include "handles.hpp"

namespace llama_cpp {

/// Which part of its head a draft model computes.
struct draft_head {
  std::shared_ptr<const hunch::router::quantised> router;  ///< the selector reads it
  std::optional<hunch::selector::any<>> selector;  ///< nothing: llama.cpp computes the whole head
};

/// Where the tables of shortlists are.
struct head_files {
  std::string ranking;  ///< a layout, or a text whose tokens are counted
  std::string layout;   ///< clusters
  std::string router;
};

/// \param name "full", "frequency:N" (the N most frequent tokens, FR-Spec) or "dynaspec:N"
///        (clusters of N tokens together, which a router chooses).
/// \throws std::invalid_argument for another name; std::runtime_error for files that were made for
///         another vocabulary, or another head than the draft model's.
draft_head head_of(const std::string& name, const head_files& files, const weights& draft);

}  // namespace llama_cpp
