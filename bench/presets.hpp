// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include <generate/arguments.hpp>
#include <generate/composed.hpp>
#include <generate/presets.hpp>
#include <generate/program.hpp>

#include "common.hpp"

namespace bench {

using generate::composed;
using generate::prompt_list;

/// What `generate` is asked for by a preset, and by what is to take the place of its flags.
inline generate::arguments asked_by(const choice& of, const std::string& preset,
                                    const std::vector<std::string>& more = {}) {
  std::vector<std::string> words{"--preset", preset};
  words.insert(words.end(), of.flags.begin(), of.flags.end());
  words.insert(words.end(), more.begin(), more.end());
  return generate::parse(words);
}

/// The directory of the target.
inline std::filesystem::path target_of(const choice& of) {
  return asked_by(of, of.preset.empty() ? generate::presets().front().name : of.preset).model;
}

/// A preset, and what `generate` is asked for by it.
struct asked_preset {
  std::string name;
  generate::arguments asked;
};

/// The presets of `generate` that draft for a target, or the one that is chosen if it does.
/// \param threads of each model. \param max_batch requests that run at the same time.
inline std::vector<asked_preset> drafting_presets(const choice& of, int threads,
                                                  std::int32_t max_batch) {
  std::vector<std::string> names{of.preset};
  if (of.preset.empty()) {
    names.clear();
    for (const generate::preset& p : generate::presets()) { names.emplace_back(p.name); }
  }
  std::vector<asked_preset> found;
  for (const std::string& name : names) {
    // A preset of another kind may have no batch to be asked for.
    const generate::arguments plainly = asked_by(of, name);
    if (plainly.method == generate::method_kind::speculative && !plainly.decodes_plainly()) {
      found.push_back({name, asked_by(of, name,
                                      {"--threads", std::to_string(threads), "--batch",
                                       std::to_string(max_batch)})});
    }
  }
  return found;
}

/// Calls use(name, composition) for what each preset of `drafting_presets` composes, as `generate`
/// does.
inline void for_each_preset(const choice& of, int threads, std::int32_t max_batch,
                            const std::function<void(const std::string&, composed&)>& use) {
  for (const asked_preset& p : drafting_presets(of, threads, max_batch)) {
    generate::program(p.asked).compose([&](composed& made) { use(p.name, made); });
  }
}

}  // namespace bench
