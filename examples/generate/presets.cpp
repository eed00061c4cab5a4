// SPDX-License-Identifier: Apache-2.0
#include "generate/presets.hpp"

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <set>

#include <command_line/files.hpp>
#include <command_line/flags.hpp>
#include <nlohmann/json.hpp>

namespace generate {

std::span<const preset> presets() {
  // What is measured to be fastest with the shipped models.
  const std::string rows = "per-row:rows:2400";
  static const std::vector<preset> all{
      {"dynaspec",
       "a copy of the target in four bits, clusters that a router chooses (DynaSpec)",
       {"--drafter", "int4", "--selector", "clustered", "--budget", rows}},
      {"fr-spec",
       "the same copy, the most frequent tokens (FR-Spec)",
       {"--drafter", "int4", "--selector", "frequency"}},
      {"vocab-trim",
       "the same copy, a head of the most frequent tokens (VocabTrim)",
       {"--drafter", "int4", "--selector", "trimmed"}},
      {"draft-model",
       "a smaller model drafts from the most frequent tokens",
       {"--drafter", "model", "--selector", "frequency"}},
      {"eagle",
       "a layer on the target's features drafts from routed clusters (EAGLE)",
       {"--drafter", "eagle", "--selector", "clustered", "--budget", rows}},
      {"eagle-2",
       "the same, trees of its most probable tokens (EAGLE-2)",
       {"--drafter", "eagle", "--selector", "clustered", "--budget", rows, "--tree", "dynamic"}},
      {"ensemble",
       "the same, and in the same tree what followed the end of the text before",
       {"--drafter", "ensemble", "--selector", "clustered", "--budget", rows}},
      {"cascade",
       "what followed the end of the text before, and where nothing did, as dynaspec",
       {"--drafter", "cascade", "--selector", "clustered", "--budget", rows}},
      {"dynaspec-paper",
       "EAGLE-2's trees of 60 nodes from routed clusters (DynaSpec as published)",
       {"--drafter", "eagle", "--tree", "dynamic-60", "--selector", "clustered", "--layout",
        HUNCH_MODELS "/paper/layout.safetensors", "--router",
        HUNCH_MODELS "/paper/router.safetensors", "--budget", "position-aware:134"}},
      {"medusa",
       "heads that look several tokens ahead draft a fixed tree (Medusa)",
       {"--drafter", "medusa", "--tree", "fixed"}},
      {"streaming",
       "the target drafts in the pass that verifies (Speculative Streaming)",
       {"--drafter", "streaming"}},
      {"streaming-pruned",
       "the same, trees of which its first layers leave the likely few",
       {"--drafter", "streaming", "--tree", "dynamic", "--prune", "4"}},
      {"streaming-paper",
       "streams by one linear map, trees pruned where they begin (Speculative Streaming as "
       "published)",
       {"--drafter", "streaming", "--draft", HUNCH_MODELS "/paper/streams", "--exit",
        HUNCH_MODELS "/paper/exit", "--tree", "fixed", "--prune", "4"}},
      {"early-exit",
       "the target's first layers draft from routed clusters (LayerSkip)",
       {"--drafter", "early-exit", "--selector", "clustered", "--budget", rows}},
      {"lookup", "what followed the end of the text before is the draft", {"--drafter", "lookup"}},
      {"plain", "plain decoding", {"--drafter", "none"}},
      {"diffusion",
       "a masked diffusion model that drafts for itself (SSD)",
       {"--method", "diffusion"}},
      {"ssd-paper",
       "the same, drafts in a chain (SSD as published)",
       {"--method", "diffusion", "--spread", "0"}},
      {"canvas-head",
       "a masked diffusion model, and a head that drafts for it",
       {"--method", "diffusion", "--draft", HUNCH_MODELS "/canvas_head"}},
  };
  return all;
}

namespace {

constexpr const char* paths[] = {"--model",  "--draft",  "--exit",
                                 "--layout", "--router", "--prompt-file"};

}  // namespace

preset preset_in(const std::string& file, const std::set<std::string>& without) {
  constexpr std::size_t most_bytes = 1 << 16;
  const auto refuse = [&](const std::string& what) {
    throw command_line::usage_error("--preset: " + file + ": " + what);
  };
  const nlohmann::json values =
      nlohmann::json::parse(command_line::read_file("--preset", file, most_bytes), nullptr, false);
  if (!values.is_object()) { refuse("is no JSON object"); }
  const auto flags = values.find("flags");
  if (flags == values.end() || !flags->is_object()) { refuse("has no \"flags\""); }
  if (flags->empty()) { refuse("\"flags\" is empty"); }
  const auto line = values.find("line");
  if (line != values.end() && !line->is_string()) { refuse("\"line\" is no text"); }
  preset out{.name = file,
             .line = line != values.end() ? line->get<std::string>() : std::string(),
             .flags = {}};
  const std::filesystem::path folder = std::filesystem::path(file).parent_path();
  for (const auto& [flag, value] : flags->items()) {
    if (!flag.starts_with("--")) { refuse("\"" + flag + "\" is no flag: these begin with --"); }
    if (flag == "--preset") { refuse("names another preset"); }
    if (without.count(flag) != 0) { continue; }
    out.flags.push_back(flag);
    if (value.is_boolean() && value.get<bool>()) { continue; }  // of those without a value
    if (!value.is_string()) { refuse("the value of \"" + flag + "\" is neither text nor true"); }
    const auto text = value.get<std::string>();
    const bool is_path = std::find(std::begin(paths), std::end(paths), flag) != std::end(paths);
    out.flags.push_back(is_path ? (folder / text).string() : text);
  }
  return out;
}

}  // namespace generate
