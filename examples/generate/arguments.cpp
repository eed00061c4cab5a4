// SPDX-License-Identifier: Apache-2.0
#include "generate/arguments.hpp"

#include <cmath>
#include <fstream>
#include <iterator>
#include <set>
#include <string_view>

namespace generate {

namespace {

using command_line::number;
using command_line::number_at_least;

float finite(const std::string& flag, std::string_view text) {
  const float value = number<float>(flag, text);
  if (!std::isfinite(value)) { throw usage_error(flag + " must be finite"); }
  return value;
}

template <class Enum>
Enum one_of(const std::string& flag, const std::string& text,
            std::initializer_list<std::pair<const char*, Enum>> values) {
  std::string known;
  for (const auto& [name, value] : values) {
    if (text == name) { return value; }
    known += (known.empty() ? "" : ", ") + std::string(name);
  }
  throw usage_error(flag + ": '" + text + "' is unknown; it takes " + known);
}

std::string read_file(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) { throw usage_error("--prompt-file: cannot read '" + path + "'"); }
  return {std::istreambuf_iterator<char>(in), {}};
}

void choose_selector(arguments& a, const std::string& text) {
  const auto colon = text.find(':');
  a.selector = one_of<selector_kind>("--selector", text.substr(0, colon),
                                     {{"full", selector_kind::full},
                                      {"frequency", selector_kind::frequency},
                                      {"trimmed", selector_kind::trimmed},
                                      {"clustered", selector_kind::clustered}});
  if (colon == std::string::npos) { return; }
  if (a.selector != selector_kind::frequency && a.selector != selector_kind::trimmed) {
    throw usage_error("--selector: only frequency and trimmed take a number of rows");
  }
  a.shortlist_rows = number_at_least<std::int32_t>("--selector", text.substr(colon + 1), 1);
}

/// What is not given, where that depends on what is.
void fill_in(arguments& a, const std::set<std::string>& given) {
  if (a.method != method_kind::speculative) {
    if (given.count("--model") == 0) { a.model = HUNCH_MODELS "/masked"; }
    if (given.count("--draft") == 0) { a.draft.clear(); }
  } else if (given.count("--draft") == 0) {
    switch (a.drafter) {
      case drafter_kind::eagle:
        a.draft = HUNCH_MODELS "/eagle";
        break;
      case drafter_kind::medusa:
        a.draft = HUNCH_MODELS "/medusa";
        break;
      case drafter_kind::early_exit:
        a.draft = HUNCH_MODELS "/exit";
        break;
      case drafter_kind::streaming:
        a.draft = HUNCH_MODELS "/streams";
        break;
      case drafter_kind::int4:
        a.draft = a.model;
        break;
      default:
        break;
    }
  }
  const bool has_law = a.drafter != drafter_kind::lookup && a.tree != tree_kind::dynamic &&
                       a.tree != tree_kind::fixed;
  if (given.count("--verifier") == 0 && !has_law) { a.verifier = verifier_kind::point_mass; }
}

/// Rules for trees and drafts that they are exact on.
void check_verifier(const arguments& a) {
  const bool draws = a.tree == tree_kind::chain || a.tree == tree_kind::sampled;
  if (a.verifier == verifier_kind::rejection || a.verifier == verifier_kind::block) {
    const std::string rule = a.verifier == verifier_kind::block ? "block" : "rejection";
    if (a.drafter == drafter_kind::lookup || !draws) {
      throw usage_error("--verifier " + rule +
                        " needs the law that tokens were drawn from, and these are ranked: use "
                        "--verifier point-mass or coupled");
    }
  }
  if (a.verifier == verifier_kind::block && a.tree != tree_kind::chain) {
    throw usage_error("--verifier block judges chains: use --tree chain, or --verifier rejection");
  }
}

/// What an autoregressive target has and a canvas has not, and the other way round.
template <class Refuse>
void check_method(const arguments& a, const Refuse& refuse) {
  if (a.method == method_kind::speculative) {
    refuse("--block-length", "--method speculative");
    return;
  }
  const bool stepwise = a.method == method_kind::stepwise;
  const char* const method = stepwise ? "--method stepwise" : "--method diffusion";
  for (const char* flag : {"--device", "--drafter", "--tree", "--selector", "--layout", "--router",
                           "--budget", "--verifier", "--plain", "--batch", "--repetition-penalty",
                           "--presence-penalty", "--frequency-penalty", "--pattern"}) {
    refuse(flag, method);
  }
  if (stepwise) {
    refuse("--draft", method);
    refuse("--draft-length", method);
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
  if (a.plain || a.drafter == drafter_kind::none) {
    const char* beside = a.plain ? "--plain" : "--drafter none";
    for (const char* flag : {"--draft", "--tree", "--selector", "--layout", "--router", "--budget",
                             "--draft-length"}) {
      refuse(flag, beside);
    }
    if (a.plain && given.count("--drafter") != 0 && a.drafter != drafter_kind::none) {
      throw usage_error("--plain and --drafter exclude each other");
    }
  }
  if (!a.plain && a.drafter == drafter_kind::lookup) {
    for (const char* flag :
         {"--draft", "--tree", "--selector", "--layout", "--router", "--budget"}) {
      refuse(flag, "--drafter lookup");
    }
  }
  if (a.selector == selector_kind::full) { refuse("--layout", "--selector full"); }
  if (a.selector == selector_kind::clustered) {
    if (given.count("--layout") == 0 || given.count("--router") == 0) {
      throw usage_error("--selector clustered needs --layout and --router");
    }
    if (a.device == device_kind::cuda) {
      throw usage_error(
          "--selector clustered asks the host for every draft, which --device cuda does not wait "
          "for: use --device host");
    }
  } else {
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
  if (!a.plain && a.drafter != drafter_kind::none) { check_verifier(a); }
  if (a.device == device_kind::cuda) {
    const bool known = a.plain || a.drafter == drafter_kind::none ||
                       (a.drafter == drafter_kind::model && a.tree == tree_kind::chain);
    if (!known) {
      throw usage_error(
          "--device cuda drafts chains with a model of its own: use --drafter model and --tree "
          "chain, or --device host");
    }
    refuse("--threads", "--device cuda");
    if (!a.pattern.empty()) {
      throw usage_error(
          "--pattern asks the host in every step, which --device cuda does not wait for: use "
          "--device host");
    }
  }
  if (given.count("--model") != 0 && given.count("--draft") == 0 && !a.plain &&
      a.method == method_kind::speculative && a.drafter == drafter_kind::model) {
    throw usage_error(
        "--model without --draft: name a draft model of the same vocabulary, or use "
        "--plain");
  }
}

}  // namespace

arguments parse(const std::vector<std::string>& words) {
  arguments a;
  a.model = HUNCH_MODELS "/target";
  a.tokenizer = HUNCH_MODELS "/target";
  a.draft = HUNCH_MODELS "/draft";
  a.prompt = "The purpose of this chapter is to explain how";
  std::set<std::string> given;
  for (std::size_t i = 0; i < words.size(); ++i) {
    const std::string& flag = words[i];
    if (!given.insert(flag).second) { throw usage_error(flag + " is given twice"); }
    if (flag == "--help" || flag == "-h") {
      a.help = true;
      continue;
    }
    if (flag == "--plain") {
      a.plain = true;
      continue;
    }
    if (flag == "--ignore-end") {
      a.ignore_end = true;
      continue;
    }

    const auto value = [&]() -> const std::string& {
      if (i + 1 >= words.size()) { throw usage_error(flag + " needs a value"); }
      return words[++i];
    };
    if (flag == "--method") {
      a.method = one_of<method_kind>(flag, value(),
                                     {{"speculative", method_kind::speculative},
                                      {"diffusion", method_kind::diffusion},
                                      {"stepwise", method_kind::stepwise}});
    } else if (flag == "--block-length") {
      a.block_length = number_at_least<std::int32_t>(flag, value(), 1);
    } else if (flag == "--model") {
      a.model = value();
    } else if (flag == "--draft") {
      a.draft = value();
    } else if (flag == "--device") {
      a.device = one_of<device_kind>(flag, value(),
                                     {{"host", device_kind::host}, {"cuda", device_kind::cuda}});
    } else if (flag == "--drafter") {
      a.drafter = one_of<drafter_kind>(flag, value(),
                                       {{"model", drafter_kind::model},
                                        {"eagle", drafter_kind::eagle},
                                        {"medusa", drafter_kind::medusa},
                                        {"streaming", drafter_kind::streaming},
                                        {"early-exit", drafter_kind::early_exit},
                                        {"int4", drafter_kind::int4},
                                        {"lookup", drafter_kind::lookup},
                                        {"none", drafter_kind::none}});
    } else if (flag == "--tree") {
      a.tree = one_of<tree_kind>(flag, value(),
                                 {{"chain", tree_kind::chain},
                                  {"sampled", tree_kind::sampled},
                                  {"dynamic", tree_kind::dynamic},
                                  {"fixed", tree_kind::fixed}});
    } else if (flag == "--selector") {
      choose_selector(a, value());
    } else if (flag == "--layout") {
      a.layout = value();
    } else if (flag == "--router") {
      a.router = value();
    } else if (flag == "--budget") {
      a.budget = parse_budget(flag, value());
    } else if (flag == "--verifier") {
      a.verifier = one_of<verifier_kind>(flag, value(),
                                         {{"rejection", verifier_kind::rejection},
                                          {"block", verifier_kind::block},
                                          {"coupled", verifier_kind::coupled},
                                          {"point-mass", verifier_kind::point_mass},
                                          {"greedy", verifier_kind::greedy}});
    } else if (flag == "--draft-length") {
      const std::string& text = value();
      if (text != "auto") {
        a.draft_length = number_at_least<std::int32_t>(flag, text, 1);
        if (*a.draft_length > max_draft_length) {
          throw usage_error(flag + ": at most " + std::to_string(max_draft_length));
        }
      }
    } else if (flag == "--prompt") {
      a.prompt = value();
    } else if (flag == "--prompt-file") {
      a.prompt = read_file(value());
    } else if (flag == "--batch") {
      a.batch = number_at_least<std::int32_t>(flag, value(), 1);
    } else if (flag == "--max-new-tokens") {
      a.max_new_tokens = number_at_least<std::int32_t>(flag, value(), 1);
    } else if (flag == "--temperature") {
      a.temperature = number_at_least<float>(flag, value(), 0.0f);
      if (!std::isfinite(a.temperature)) { throw usage_error(flag + " must be finite"); }
    } else if (flag == "--top-k") {
      a.top_k = number_at_least<std::int32_t>(flag, value(), 0);
    } else if (flag == "--top-p") {
      a.top_p = number_at_least<float>(flag, value(), 0.0f);
      if (!(a.top_p > 0.0f && a.top_p <= 1.0f)) { throw usage_error(flag + " is in (0, 1]"); }
    } else if (flag == "--min-p") {
      a.min_p = number_at_least<float>(flag, value(), 0.0f);
      if (!(a.min_p <= 1.0f)) { throw usage_error(flag + " is in [0, 1]"); }
    } else if (flag == "--repetition-penalty") {
      a.repetition_penalty = finite(flag, value());
      if (!(a.repetition_penalty > 0.0f)) { throw usage_error(flag + " must be above 0"); }
    } else if (flag == "--presence-penalty") {
      a.presence_penalty = finite(flag, value());
    } else if (flag == "--frequency-penalty") {
      a.frequency_penalty = finite(flag, value());
    } else if (flag == "--pattern") {
      a.pattern = value();
    } else if (flag == "--seed") {
      a.seed = number<std::uint64_t>(flag, value());
    } else if (flag == "--rounds") {
      a.rounds = number_at_least<std::int32_t>(flag, value(), 1);
    } else if (flag == "--threads") {
      a.threads = number_at_least<std::int32_t>(flag, value(), 1);
    } else if (flag == "--json") {
      a.json = value();
    } else if (flag == "--color") {
      a.color = one_of<color_mode>(flag, value(),
                                   {{"auto", color_mode::automatic},
                                    {"always", color_mode::always},
                                    {"never", color_mode::never}});
    } else {
      throw usage_error("unknown flag '" + flag + "'; --help lists them");
    }
  }
  fill_in(a, given);
  refuse_contradictions(a, given);
  return a;
}

std::string help_text() {
  return R"(generate - text from a language model, plain and by speculative decoding

Usage: generate [flags]

Method
  --method NAME         speculative: an autoregressive target, and what drafts for it (default)
                        diffusion: a masked diffusion model that drafts for itself (SSD), or the
                        head that --draft names; on a terminal the canvas fills in as positions
                        are written
                        stepwise: the same model, one token a pass
  --block-length N      of a canvas: positions that are written before those behind them (default:
                        the model's); with diffusion and stepwise only, to which of what follows
                        --model, --draft-length (default 4), the text's flags but penalties,
                        --batch and --pattern, and the report's apply

Models (Hugging Face directories: config.json, *.safetensors, tokenizer.model)
  --model DIR           the target model: its law is what the text keeps
                        (default: the shipped target)
  --draft DIR           what drafts: a model of the same vocabulary, or a head of the target
                        (default: the shipped one of the drafter; of int4 the target)
  --device NAME         host: the processors (default)
                        cuda: a CUDA device, where the whole loop stays; with --drafter model and
                        chains, without --pattern and --selector clustered

Policies
  --drafter NAME        model: a smaller model drafts (default)
                        eagle: a layer on the target's features (EAGLE)
                        medusa: heads that look several tokens ahead (Medusa)
                        streaming: the target drafts in the pass that verifies (Speculative
                        Streaming), with streams that --draft names or the recipe has trained
                        early-exit: the target's own first layers
                        int4: the target's own weights in four bits
                        lookup: what followed the end of the text where it occurred before
                        none: nothing is drafted
  --tree NAME           chain: one token after the other (default)
                        sampled: two chains, which begin with different draws
                        dynamic: the nodes that the draft laws find most probable (EAGLE-2)
                        fixed: always the same ranks (Medusa)
  --selector NAME       full: the draft head covers the whole vocabulary
                        frequency[:ROWS]: the ROWS most frequent tokens (FR-Spec; default, a
                        sixth of the vocabulary)
                        trimmed[:ROWS]: a head that has no other rows than these (VocabTrim)
                        clustered: the clusters that a router chooses (DynaSpec)
  --layout FILE         the order of the head's rows (default: by frequency, the shipped one if
                        it is of the target's vocabulary, else one that is made on the spot); of
                        clustered: with clusters, by make_layout
  --router FILE         of clustered: by train_router
  --budget NAME         of clustered: fixed:K clusters, position-aware:K less with the depth,
                        mass:P[:K] up to the share P of the router's law, or rows:R[:K]; behind
                        per-row: the best per row, behind position-aware: less with the depth
                        (default per-row:rows:R, a sixth of the vocabulary)
  --verifier NAME       rejection: speculative sampling (default)
                        block: the draft judged as a whole
                        coupled: the text of plain decoding with the same seed, bit for bit
                        point-mass: the target's draw, if it was drafted (default of lookup and of
                        dynamic and fixed trees, whose tokens are not drawn)
                        greedy: greedy match, with --temperature 0 only
  --draft-length N      levels drafted per step, 1 to 8, or auto: as many as pay, by measured costs
                        and acceptance (default)
  --plain               plain decoding only

Text
  --prompt TEXT         what to continue
  --prompt-file FILE    the same, from a file
  --batch N             N continuations at a time, with the seeds S, S + 1, ... (default 1)
  --max-new-tokens N    (default 192)
  --ignore-end          go on after the end-of-text token
  --temperature T       0 is greedy (default 1)
  --top-k K             keep the K most probable tokens; 0 is off (default)
  --top-p P             keep the most probable tokens that hold the share P; 1 is off (default)
  --min-p P             keep tokens of at least P times the largest probability; 0 is off (default)
  --repetition-penalty R, --presence-penalty A, --frequency-penalty A
                        for tokens that occurred (defaults 1, 0, 0: off)
  --pattern REGEX       the text matches this regular expression as a whole
  --seed S              the same seed gives the same text (default 1)

Report
  --rounds N            plain and speculative runs, taken in turn (default 3)
  --threads N           of --device host (default: half of the processors)
  --json FILE           writes the report as JSON too
  --color WHEN          auto, always or never; auto honours NO_COLOR and non-terminals
  --help                this text

Exit status: 0, or 1 for an error, or 2 for flags that do not fit.
)";
}

}  // namespace generate
