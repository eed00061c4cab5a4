// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>

#include <engine/model.hpp>
#include <engine/tokenizer.hpp>

#include "compositions/composed.hpp"

namespace bench {

/// The shipped models, and what the presets of `generate` that draft for a target compose of them,
/// with the shortlists and shapes that their names stand for.
class shipped {
 public:
  /// Makes a composition, which lives no longer than the call that this is given to.
  using maker = std::function<std::unique_ptr<composed>()>;

  /// \param threads   of each model. \param max_batch  requests that run at the same time.
  shipped(const std::filesystem::path& models, int threads, std::int32_t max_batch);
  ~shipped();

  engine::model& target();
  const engine::tokenizer& text() const;

  /// Calls use(name, make) for each preset. Once: the last ones leave the target with streams.
  /// \throws std::logic_error naming a preset that drafts and has no composition here.
  void for_each(const std::function<void(const std::string& name, const maker& make)>& use);

 private:
  class parts;

  std::unique_ptr<parts> parts_;
};

}  // namespace bench
