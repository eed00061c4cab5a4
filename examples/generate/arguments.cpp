// SPDX-License-Identifier: Apache-2.0
#include "generate/arguments.hpp"

#include <algorithm>
#include <set>
#include <string_view>

#include <command_line/files.hpp>

#include "generate/presets.hpp"

namespace generate {

namespace {

using command_line::flags;
using command_line::named;
using command_line::number;

constexpr named<method_kind> methods[] = {{"speculative", method_kind::speculative},
                                          {"diffusion", method_kind::diffusion},
                                          {"stepwise", method_kind::stepwise}};
constexpr named<device_kind> devices[] = {
    {"host", device_kind::host}, {"cuda", device_kind::cuda}, {"teams", device_kind::teams}};
constexpr named<engine::precision> precisions[] = {{"bf16", engine::precision::bf16},
                                                   {"f32", engine::precision::f32},
                                                   {"int8", engine::precision::int8},
                                                   {"int4", engine::precision::int4}};
constexpr named<drafter_kind> drafters[] = {
    {"model", drafter_kind::model},           {"eagle", drafter_kind::eagle},
    {"medusa", drafter_kind::medusa},         {"streaming", drafter_kind::streaming},
    {"early-exit", drafter_kind::early_exit}, {"int4", drafter_kind::int4},
    {"lookup", drafter_kind::lookup},         {"ensemble", drafter_kind::ensemble},
    {"cascade", drafter_kind::cascade},       {"none", drafter_kind::none}};
constexpr named<tree_kind> trees[] = {{"chain", tree_kind::chain},
                                      {"sampled", tree_kind::sampled},
                                      {"dynamic", tree_kind::dynamic},
                                      {"dynamic-60", tree_kind::dynamic_60},
                                      {"fixed", tree_kind::fixed}};
constexpr named<selector_kind> selectors[] = {{"full", selector_kind::full},
                                              {"frequency", selector_kind::frequency},
                                              {"trimmed", selector_kind::trimmed},
                                              {"clustered", selector_kind::clustered}};
constexpr named<verifier_kind> verifiers[] = {{"rejection", verifier_kind::rejection},
                                              {"block", verifier_kind::block},
                                              {"coupled", verifier_kind::coupled},
                                              {"point-mass", verifier_kind::point_mass},
                                              {"greedy", verifier_kind::greedy}};
constexpr named<engine::block_cache> block_caches[] = {{"none", engine::block_cache::none},
                                                       {"prefix", engine::block_cache::prefix},
                                                       {"dual", engine::block_cache::dual}};
constexpr named<color_mode> colors[] = {
    {"auto", color_mode::automatic}, {"always", color_mode::always}, {"never", color_mode::never}};

// Beyond these a run takes memory or hours that nobody meant to ask for.
constexpr std::int32_t max_requests = 128;
constexpr std::int32_t max_rounds = 1000;
constexpr std::int32_t max_ranks = 64;
constexpr std::size_t max_prompt_bytes = std::size_t{1} << 20;
// Where logits of any model stay finite.
constexpr float max_temperature = 1e4f;
constexpr float least_temperature = 1e-4f;
constexpr float max_penalty = 1e4f;
constexpr double max_spread = 1e3;

void choose_selector(arguments& a, const std::string& text) {
  const auto colon = text.find(':');
  a.selector = command_line::one_of<selector_kind>("--selector", text.substr(0, colon), selectors);
  a.shortlist_rows = 0;
  if (colon == std::string::npos) { return; }
  if (a.selector != selector_kind::frequency && a.selector != selector_kind::trimmed) {
    throw usage_error("--selector: only frequency and trimmed take a number of rows");
  }
  a.shortlist_rows = number<std::int32_t>("--selector", text.substr(colon + 1), 1);
}

void choose_length(arguments& a, const std::string& text) {
  a.draft_length.reset();
  a.draft_lengths.clear();
  if (text == "auto") { return; }
  if (text.find_first_of(",/") != std::string::npos) {
    a.draft_lengths = draft_lengths_of("--draft-length", text, max_draft_length);
  } else {
    a.draft_length = number<std::int32_t>("--draft-length", text, 0, max_draft_length);
  }
}

/// Where a command line goes.
struct destination {
  arguments& a;
  std::string& preset;
  std::string& prompt_file;
};

flags flags_of(destination to) {
  arguments& a = to.a;
  flags out("generate", "text from a language model, plain and by speculative decoding");
  out.section("Composition");
  std::string list = "a composition that ships; flags beside it come before what it sets:";
  for (const preset& p : presets()) { list += "\n  " + p.name + ": " + p.line; }
  out.add("--preset", "NAME",
          list + "\nor the .json file of one, such as tune.sh makes\n(default " +
              presets().front().name +
              ", unless --method, --model, --draft, --device,\n--drafter or --plain is given)",
          to.preset);
  out.add_choice<method_kind>(
      "--method",
      "speculative: an autoregressive target, and what drafts for it (default)\n"
      "diffusion: a masked diffusion model that drafts for itself (SSD), or the head that\n"
      "--draft names; on a terminal the canvas fills in as positions are unmasked\n"
      "stepwise: the same model, one token a pass",
      a.method, methods);
  out.add_choice<drafter_kind>(
      "--drafter",
      "model: a smaller model drafts (default beside --draft, --device)\n"
      "eagle: a layer on the target's features (EAGLE)\n"
      "medusa: heads that look several tokens ahead (Medusa)\n"
      "streaming: the target drafts in the pass that verifies (Speculative Streaming),\n"
      "with streams that --draft names or the recipe has trained\n"
      "early-exit: the target's own first layers\n"
      "int4: the target's own weights in four bits\n"
      "lookup: what followed the end of the text where it occurred before\n"
      "ensemble: what followed it there, and an EAGLE head's dynamic tree, in one tree\n"
      "cascade: what followed it there, or a chain by the target's weights in four bits\n"
      "none: nothing is drafted",
      a.drafter, drafters);
  out.add_choice<tree_kind>("--tree",
                            "chain: one token after the other (default)\n"
                            "sampled: two chains, which begin with different draws\n"
                            "dynamic: the ten nodes that the draft laws find most probable\n"
                            "dynamic-60: the same, sixty in six levels (EAGLE-2, as published)\n"
                            "fixed: always the same ranks (Medusa)",
                            a.tree, trees);
  out.add_number("--prune",
                 "of trees of streams: N nodes stay, root included, those that the target's first\n"
                 "layers find most probable (Speculative Streaming); 0: all (default)",
                 a.kept_nodes, 0);
  out.add("--selector", "NAME",
          "full: the draft head covers the whole vocabulary\n"
          "frequency[:ROWS]: the ROWS most frequent tokens (FR-Spec; default where there is\n"
          "no preset, a sixth of the vocabulary)\n"
          "trimmed[:ROWS]: a head that has no other rows than these (VocabTrim)\n"
          "clustered: the clusters that a router chooses (DynaSpec)",
          [&a](const std::string& text) { choose_selector(a, text); });
  out.add("--layout", "FILE",
          "the order of the head's rows (default: by frequency, the shipped one if it is of\n"
          "the target's vocabulary, else one that is made on the spot); of clustered: with\n"
          "clusters, by make_layout (default: the shipped one, and where it is not of the head\n"
          "that drafts, the most frequent tokens in their place)",
          a.layout);
  out.add("--router", "FILE", "of clustered: by train_router (default: the shipped one)", a.router);
  out.add("--budget", "NAME",
          "of clustered: fixed:K clusters, position-aware:K less with the depth,\n"
          "mass:P[:K] up to the share P of the router's law, or rows:R[:K]; after per-row:\n"
          "the best per row, after position-aware: less with the depth\n"
          "(default per-row:rows:R, a sixth of the vocabulary)",
          [&a](const std::string& text) { a.budget = parse_budget("--budget", text); });
  out.add_choice<verifier_kind>(
      "--verifier",
      "rejection: speculative sampling (default)\n"
      "block: the draft judged as a whole\n"
      "coupled: the text of plain decoding with the same seed, bit for bit\n"
      "point-mass: the target's draw, if it was drafted (default of lookup and of dynamic\n"
      "and fixed trees, whose tokens are not drawn)\n"
      "greedy: greedy match, with --temperature 0 only",
      a.verifier, verifiers);
  out.add("--plain", "plain decoding only", a.plain);
  out.add("--draft-length", "N",
          "levels drafted per step, 0 to 8, or auto: as many as pay, by measured times and\n"
          "acceptance (default); or the levels of each step, 4,0,3,..., of which the last\n"
          "stays, with a / between the continuations of a batch: what auto chose is printed,\n"
          "and given in its place it repeats a text; with --method diffusion one number,\n"
          "or auto: what is fastest at the beginning of the text",
          [&a](const std::string& text) { choose_length(a, text); });
  out.add("--block-length", "N",
          "of a canvas: positions that are unmasked before those after them\n"
          "(default: the model's); with diffusion and stepwise only",
          [&a](const std::string& text) {
            a.block_length = number<std::int32_t>("--block-length", text, 1);
          });
  out.add_choice<engine::block_cache>(
      "--block-cache",
      "of a canvas whose positions see all others; what is kept while a block is unmasked:\n"
      "none (default); prefix: the text before the block; dual: what follows it, too.\n"
      "An approximation of the model; drafts change nothing of what it writes",
      a.block_cache, block_caches);
  out.add_number("--spread",
                 "of a canvas: drafts are the sets that decoding most likely passes through\n"
                 "(default 1); 0: those of a chain, as SSD was published",
                 a.spread, 0.0, max_spread);
  out.add_number("--accept-top-k",
                 "of a canvas: unmask drafts that are among the K most probable tokens; lossy,\n"
                 "another text; 0: those that the model would unmask (default)",
                 a.accepted_rank, 0);

  out.section(
      "Models (Hugging Face directories: config.json, *.safetensors, tokenizer.json or .model)");
  out.add("--model", "DIR",
          "the target: its law is what the text keeps; or the masked diffusion model\n"
          "(default: the shipped one)",
          a.model);
  out.add("--draft", "DIR",
          "what drafts: a model of the same vocabulary, or a head of the target\n"
          "(default: the shipped one of the drafter; of int4 the target)",
          a.draft);
  out.add("--exit", "DIR", "of --prune: the head after these layers (default: the shipped one)",
          a.exit);
  out.add_choice<device_kind>(
      "--device",
      "host: the processors (default)\n"
      "cuda: a CUDA device, where the whole loop stays; without --pattern\n"
      "teams: the same loop on teams of host threads, slowly: to try it without a GPU",
      a.device, devices);
  out.add_number(
      "--ranks",
      "of --device host: processes, started by mpirun, that compute and verify a part of\n"
      "the vocabulary each; needs the program generate_ranks (default 1)",
      a.ranks, 1, max_ranks);
  out.add_choice<engine::precision>("--precision",
                                    "of the weights of --device host, whatever the files have:\n"
                                    "bf16 (default)\n"
                                    "f32: as accurate as the files\n"
                                    "int8: bytes with a scale for each output\n"
                                    "int4: four bits with a scale for every 32",
                                    a.precision, precisions);

  out.section("Text (not penalties, --batch and --pattern with diffusion and stepwise)");
  out.add("--prompt", "TEXT", "what to continue", a.prompt);
  out.add("--prompt-file", "FILE", "the same, from a file", to.prompt_file);
  out.add_number("--batch", "continuations at a time, with the seeds S, S + 1, ... (default 1)",
                 a.batch, 1, max_requests);
  out.add_number("--max-new-tokens", "(default 192)", a.max_new_tokens, 1);
  out.add("--ignore-end", "go on after the end-of-text token", a.ignore_end);
  out.add_number("--temperature", "0 is greedy (default 1)", a.temperature, 0.0f, max_temperature);
  out.add_number("--top-k", "keep the N most probable tokens; 0 is off (default)", a.top_k, 0);
  out.add_number("--top-p",
                 "keep the most probable tokens that hold this share; 1 is off (default)", a.top_p,
                 0.0f, 1.0f);
  out.add_number(
      "--min-p",
      "keep tokens of at least this part of the largest probability; 0 is off\n(default)", a.min_p,
      0.0f, 1.0f);
  const std::string occurred = " tokens that occurred";
  out.add_number("--repetition-penalty", "divides the logits of" + occurred + " (default 1: off)",
                 a.repetition_penalty, 1.0f / max_penalty, max_penalty);
  out.add_number("--presence-penalty", "is subtracted from those of" + occurred + " (default 0)",
                 a.presence_penalty, -max_penalty, max_penalty);
  out.add_number("--frequency-penalty", "the same, as often as they did (default 0)",
                 a.frequency_penalty, -max_penalty, max_penalty);
  out.add("--pattern", "REGEX", "the text matches this regular expression as a whole", a.pattern);
  out.add_number("--seed",
                 "the same seed gives the same text, whatever the batch, for the same flags and\n"
                 "draft length: what auto has measured is part of it, but for coupled and greedy\n"
                 "texts (default 1)",
                 a.seed);

  out.section("Report");
  out.add_number("--rounds", "plain and speculative runs, taken in turn (default 3)", a.rounds, 1,
                 max_rounds);
  out.add_number("--threads", "of --device host (default: half of the processors)", a.threads, 1,
                 command_line::processors());
  out.add("--json", "FILE", "writes the report as JSON too", a.json);
  out.add_choice<color_mode>(
      "--color", "auto, always or never; auto honours NO_COLOR and non-terminals", a.color, colors);
  out.footer("Exit status: 0, or 1 for an error, or 2 for flags that do not fit.");
  return out;
}

/// Flags beside which no preset is the default, as beside --device: they say themselves where to
/// begin.
constexpr const char* own_start[] = {"--method", "--model", "--draft", "--drafter", "--plain"};
/// What a composition is made of, besides these.
constexpr const char* policies[] = {"--tree",   "--prune",  "--exit",   "--selector",
                                    "--layout", "--router", "--budget", "--verifier"};

template <std::size_t N>
bool any_given(const std::set<std::string>& given, const char* const (&of)[N]) {
  return std::any_of(std::begin(of), std::end(of),
                     [&](const char* flag) { return given.count(flag) != 0; });
}

/// Whether a preset is one of a file, and no name.
bool is_file(const std::string& preset) { return preset.ends_with(".json"); }

/// Flags of a preset's file that those of the command line make void: another drafter, or none,
/// reads no weights of the file's, another selector no layout of its, and a text is one.
std::set<std::string> void_beside(const std::set<std::string>& given) {
  std::set<std::string> out;
  const auto has = [&](const char* flag) { return given.count(flag) != 0; };
  const bool other_drafter = has("--plain") || has("--drafter") || has("--method");
  if (other_drafter) {
    out.insert({"--drafter", "--draft", "--draft-length", "--tree", "--prune", "--exit"});
  }
  if (other_drafter || has("--selector")) {
    out.insert({"--selector", "--layout", "--router", "--budget"});
  }
  if (has("--prompt") || has("--prompt-file")) { out.insert({"--prompt", "--prompt-file"}); }
  return out;
}

preset preset_of(const std::string& name, const std::set<std::string>& given) {
  if (is_file(name)) { return preset_in(name, void_beside(given)); }
  std::vector<named<const preset*>> known;
  for (const preset& p : presets()) { known.emplace_back(p.name.c_str(), &p); }
  return *command_line::one_of<const preset*>("--preset", name, known);
}

/// Reads those of a preset. \throws usage_error that names it, too.
std::set<std::string> flags_in(const preset& from, const destination& to) {
  try {
    return flags_of(to).parse(from.flags);
  } catch (const usage_error& error) {
    throw usage_error("--preset: " + from.name + ": " + error.what());
  }
}

/// The directory of what drafts.
std::string shipped_draft(const arguments& a) {
  switch (a.drafter) {
    case drafter_kind::eagle:
    case drafter_kind::ensemble:
      return HUNCH_MODELS "/eagle";
    case drafter_kind::medusa:
      return HUNCH_MODELS "/medusa";
    case drafter_kind::early_exit:
      return HUNCH_MODELS "/exit";
    case drafter_kind::streaming:
      return HUNCH_MODELS "/streams";
    case drafter_kind::int4:
    case drafter_kind::cascade:
      return a.model;
    case drafter_kind::model:
    case drafter_kind::lookup:
    case drafter_kind::none:
      break;
  }
  return HUNCH_MODELS "/draft";
}

/// What is not given, where that depends on what is.
void fill_in(arguments& a, const std::set<std::string>& given) {
  const bool own_draft = given.count("--draft") != 0;
  a.tokenizer = HUNCH_MODELS "/target";
  if (a.method != method_kind::speculative) {
    if (a.model.empty()) { a.model = HUNCH_MODELS "/masked"; }
    if (a.method == method_kind::stepwise && !own_draft) { a.draft.clear(); }
    if (a.accepted_rank > 0 && given.count("--spread") == 0) { a.spread = 0.0; }
    return;
  }
  if (a.model.empty()) { a.model = HUNCH_MODELS "/target"; }
  if (a.draft.empty()) { a.draft = shipped_draft(a); }
  if (a.exit.empty()) { a.exit = HUNCH_MODELS "/exit"; }
  if (a.drafter == drafter_kind::ensemble) { a.tree = tree_kind::dynamic; }
  if (a.drafter == drafter_kind::cascade) { a.tree = tree_kind::chain; }
  if (a.selector == selector_kind::clustered && a.layout.empty() != a.router.empty()) {
    throw usage_error("--layout and --router of --selector clustered belong together: give both");
  }
  if (given.count("--verifier") == 0 &&
      (a.drafter == drafter_kind::lookup || !a.draws_children())) {
    a.verifier = verifier_kind::point_mass;
  }
}

/// Ranges that one bound on each side does not say.
void check_ranges(const arguments& a) {
  if (a.temperature > 0.0f && a.temperature < least_temperature) {
    throw usage_error("--temperature: is 0, which is greedy, or at least 0.0001");
  }
  if (!(a.top_p > 0.0f)) { throw usage_error("--top-p is in (0, 1]"); }
  if (a.prompt.size() > max_prompt_bytes) {
    throw usage_error("--prompt: is longer than " + std::to_string(max_prompt_bytes) + " bytes");
  }
}

/// Rules for trees and drafts that they are exact on.
void check_verifier(const arguments& a) {
  if (a.verifier == verifier_kind::rejection || a.verifier == verifier_kind::block) {
    const std::string rule = a.verifier == verifier_kind::block ? "block" : "rejection";
    if (a.drafter == drafter_kind::lookup || !a.draws_children()) {
      throw usage_error("--verifier " + rule +
                        " needs the law that tokens were drawn from, and these are ranked: use "
                        "--verifier point-mass or coupled");
    }
  }
  if (a.verifier == verifier_kind::block && a.tree != tree_kind::chain) {
    throw usage_error("--verifier block judges chains: use --tree chain, or --verifier rejection");
  }
}

/// What is taken out of trees, and which.
void check_pruning(const arguments& a, const std::set<std::string>& given) {
  if (a.kept_nodes == 0) {
    if (given.count("--exit") != 0) { throw usage_error("--exit has a meaning with --prune only"); }
    return;
  }
  if (a.drafter != drafter_kind::streaming) {
    throw usage_error("--prune has a meaning with --drafter streaming only");
  }
  if (a.tree != tree_kind::dynamic && a.tree != tree_kind::fixed) {
    throw usage_error(
        a.tree == tree_kind::dynamic_60
            ? "--prune: streams do not draft as deep as --tree dynamic-60: use --tree "
              "dynamic or fixed"
            : "--prune takes nodes out of trees, whose tokens must not have been "
              "drawn: use --tree dynamic or fixed");
  }
}

/// What an autoregressive target has and a canvas has not, and the other way round.
template <class Refuse>
void check_method(const arguments& a, const Refuse& refuse) {
  if (a.method == method_kind::speculative) {
    for (const char* flag : {"--block-length", "--block-cache", "--spread", "--accept-top-k"}) {
      refuse(flag, "--method speculative");
    }
    return;
  }
  const bool stepwise = a.method == method_kind::stepwise;
  const char* const method = stepwise ? "--method stepwise" : "--method diffusion";
  for (const char* flag :
       {"--drafter", "--tree", "--prune", "--exit", "--selector", "--layout", "--router",
        "--budget", "--verifier", "--plain", "--batch", "--repetition-penalty",
        "--presence-penalty", "--frequency-penalty", "--pattern"}) {
    refuse(flag, method);
  }
  if (stepwise) {
    for (const char* flag : {"--draft", "--draft-length", "--spread", "--accept-top-k"}) {
      refuse(flag, method);
    }
  }
  if (a.block_cache != engine::block_cache::none && !a.draft.empty()) {
    throw usage_error(
        "--block-cache: a head drafts from what the model reads anew in every pass; use it without "
        "--draft");
  }
  if (a.accepted_rank > 0 && a.spread > 0.0) {
    throw usage_error("--accept-top-k tests one draft after the other: use it without --spread");
  }
  if (!a.draft_lengths.empty()) {
    throw usage_error(std::string("--draft-length: with ") + method +
                      " it is one number, or auto, not one for each step");
  }
}

/// What a loop does that is repeated without the host.
template <class Refuse>
void check_device(const arguments& a, const Refuse& refuse) {
  const std::string device = a.device == device_kind::cuda ? "--device cuda" : "--device teams";
  refuse("--ranks", device.c_str());
  refuse("--threads", device.c_str());
  refuse("--precision", device.c_str());
  if (!a.draft_lengths.empty()) {
    throw usage_error("--draft-length: " + device + " keeps to one number, or auto");
  }
  if (!a.pattern.empty()) {
    throw usage_error("--pattern asks the host in every step, which " + device +
                      " does not wait for: use --device host");
  }
  if (a.block_cache != engine::block_cache::none) {
    throw usage_error("--block-cache is the host engine's, not that of " + device);
  }
  if (a.accepted_rank > 0) {
    throw usage_error("--accept-top-k: " + device + " has exact loops only: use --device host");
  }
}

/// Flags that mean nothing, or something else, beside others.
void refuse_contradictions(const arguments& a, const std::set<std::string>& given) {
  const auto refuse = [&](const char* flag, const char* beside) {
    if (given.count(flag) != 0) {
      throw usage_error(std::string(flag) + " has no meaning with " + beside);
    }
  };
  check_method(a, refuse);
  if (given.count("--prompt") != 0 && given.count("--prompt-file") != 0) {
    throw usage_error("--prompt and --prompt-file exclude each other");
  }
  if (a.decodes_plainly()) {
    const char* beside = a.plain ? "--plain" : "--drafter none";
    for (const char* flag : {"--draft", "--tree", "--prune", "--exit", "--selector", "--layout",
                             "--router", "--budget", "--draft-length"}) {
      refuse(flag, beside);
    }
    if (a.plain && given.count("--drafter") != 0 && a.drafter != drafter_kind::none) {
      throw usage_error("--plain and --drafter exclude each other");
    }
  }
  if (!a.plain && a.drafter == drafter_kind::lookup) {
    for (const char* flag : {"--draft", "--tree", "--prune", "--exit", "--selector", "--layout",
                             "--router", "--budget"}) {
      refuse(flag, "--drafter lookup");
    }
  }
  if (!a.plain && a.drafter == drafter_kind::ensemble) { refuse("--tree", "--drafter ensemble"); }
  if (!a.plain && a.drafter == drafter_kind::cascade) {
    refuse("--tree", "--drafter cascade");
    refuse("--draft", "--drafter cascade");  // the target's own weights draft
  }
  if (a.selector == selector_kind::full) { refuse("--layout", "--selector full"); }
  if (a.selector != selector_kind::clustered) {
    for (const char* flag : {"--router", "--budget"}) {
      if (given.count(flag) != 0) {
        throw usage_error(std::string(flag) + " has a meaning with --selector clustered only");
      }
    }
  }
  if (a.verifier == verifier_kind::greedy) {
    if (a.temperature != 0.0f) {
      throw usage_error(
          "--verifier greedy keeps only greedy text exact: add --temperature 0, or "
          "use --verifier rejection");
    }
    for (const char* flag : {"--top-k", "--top-p", "--min-p", "--repetition-penalty",
                             "--presence-penalty", "--frequency-penalty", "--pattern"}) {
      refuse(flag, "--verifier greedy");
    }
  }
  if (!a.pattern.empty()) { refuse("--ignore-end", "--pattern"); }
  if (!a.decodes_plainly()) {
    check_verifier(a);
    check_pruning(a, given);
  }
  if (a.device != device_kind::host) { check_device(a, refuse); }
  if (given.count("--model") != 0 && given.count("--draft") == 0 && !a.plain &&
      a.method == method_kind::speculative && a.drafter == drafter_kind::model) {
    throw usage_error(
        "--model without --draft: name a draft model of the same vocabulary, or use --drafter int4 "
        "or --plain");
  }
}

}  // namespace

arguments parse(const std::vector<std::string>& words) {
  std::string name, prompt_file;
  std::set<std::string> given;
  {
    arguments asked;
    given = flags_of({asked, name, prompt_file}).parse(words);
  }
  arguments a;
  a.prompt = "The purpose of this chapter is to explain how";
  const bool by_name = given.count("--preset") != 0;
  const bool starts_itself = any_given(given, own_start);
  const bool composes_itself = any_given(given, policies);
  if (by_name || !(starts_itself || given.count("--device") != 0)) {
    const preset from = by_name ? preset_of(name, given) : presets().front();
    const std::set<std::string> set = flags_in(from, {a, name, prompt_file});
    a.preset = from.name;
    // What a file names is given, as if it stood in its place.
    if (is_file(from.name)) { given.insert(set.begin(), set.end()); }
  }
  const method_kind method = a.method;
  flags_of({a, name, prompt_file}).parse(words);
  // That of a preset is what its drafter reads, and no other.
  if (given.count("--draft") == 0 && (given.count("--drafter") != 0 || a.method != method)) {
    a.draft.clear();
  }
  if (starts_itself || composes_itself) { a.preset.clear(); }
  if (given.count("--prompt-file") != 0) {
    a.prompt = command_line::read_file("--prompt-file", prompt_file, max_prompt_bytes);
  }
  check_ranges(a);
  fill_in(a, given);
  refuse_contradictions(a, given);
  if (!a.json.empty()) { command_line::check_writable("--json", a.json); }
  return a;
}

}  // namespace generate
