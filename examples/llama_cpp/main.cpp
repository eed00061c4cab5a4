// SPDX-License-Identifier: Apache-2.0

// Speculative decoding by hunch over llama.cpp: two GGUF files of one vocabulary, a prompt or more.
//
//   generate_llama --model X.gguf --draft Y.gguf --prompt TEXT ...

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include <command_line/files.hpp>
#include <command_line/flags.hpp>
#include <command_line/run.hpp>

#include "compositions.hpp"
#include "heads.hpp"
#include "vocabulary.hpp"

namespace {

struct arguments {
  std::string model, draft, prompt = "Once upon a time", prompts, head = "full";
  llama_cpp::head_files files{.ranking = HUNCH_MODELS "/frequency.safetensors",
                              .layout = HUNCH_MODELS "/layout.safetensors",
                              .router = HUNCH_MODELS "/router.safetensors"};
  bool tree = false;
  bool ignore_ends = false;
  std::int32_t draft_length = 4;
  std::int32_t batch = 1;
  std::int32_t threads = 1;
  std::int32_t context = 1024;
  std::int32_t length = 128;
  std::int32_t seed = 0;
  float temperature = 0.0f;
};

arguments parse(const std::vector<std::string>& words) {
  arguments out;
  command_line::flags flags("generate_llama", "speculative decoding over llama.cpp");
  flags.add("--model", "GGUF", "the target, whose law is kept", out.model);
  flags.add("--draft", "GGUF", "a draft model of the same vocabulary; none: plain decoding",
            out.draft);
  flags.add("--prompt", "TEXT", "what is continued", out.prompt);
  flags.add("--prompts", "FILE", "or each line of it", out.prompts);
  flags.add_number(
      "--batch",
      "so many prompts at a time in one decoder (default 1); at temperature 0 up to 36\n"
      "with --tree",
      out.batch, 1, 64);
  flags.add_number("--length", "tokens of each text at most (default 128)", out.length, 1, 1 << 20);
  flags.add("--ignore-ends", "go on where a text ends", out.ignore_ends);
  flags.add_number("--context", "tokens of a text that there is room for (default 1024)",
                   out.context, 8, 1 << 20);
  flags.add_number("--temperature", "0 takes the most probable token (default 0)", out.temperature,
                   0.0f, 100.0f);
  flags.add_number("--seed", "of the first text; of the others those after it", out.seed, 0);
  flags.add_number("--threads", "of llama.cpp (default 1)", out.threads, 1, 1024);
  flags.section("Drafts");
  flags.add_number("--draft-length", "levels of a draft (default 4)", out.draft_length, 1, 16);
  flags.add("--tree", "trees of up to four levels in place of chains", out.tree);
  flags.add("--head", "NAME",
            "full, by llama.cpp; frequency:N, the N most frequent tokens; dynaspec:N, clusters of\n"
            "so many tokens together, which a router chooses",
            out.head);
  flags.add("--ranking", "FILE",
            "tokens by frequency: a .safetensors of make_ranking, or a text, whose tokens are\n"
            "counted (default: the shipped one)",
            out.files.ranking);
  flags.add("--layout", "FILE", "clusters of the draft model's head", out.files.layout);
  flags.add("--router", "FILE", "and what chooses among them", out.files.router);
  flags.require("--model");
  const std::set<std::string> given = flags.parse(words);
  const auto refuse = [&](const char* flag, const char* why) {
    if (given.count(flag) != 0) { throw command_line::usage_error(std::string(flag) + why); }
  };
  if (out.draft.empty()) {
    for (const char* flag :
         {"--draft-length", "--tree", "--head", "--ranking", "--layout", "--router"}) {
      refuse(flag, " is of drafts: give --draft, too");
    }
  }
  if (!out.head.starts_with("frequency:")) { refuse("--ranking", " is of --head frequency:N"); }
  if (!out.head.starts_with("dynaspec:")) {
    refuse("--layout", " is of --head dynaspec:N");
    refuse("--router", " is of --head dynaspec:N");
  }
  if (given.count("--prompts") != 0) { refuse("--prompt", " and --prompts: give one of them"); }
  return out;
}

std::vector<std::string> prompts_of(const arguments& a) {
  if (a.prompts.empty()) { return {a.prompt}; }
  constexpr std::size_t most_bytes = std::size_t{1} << 24;
  std::istringstream in(command_line::read_file("--prompts", a.prompts, most_bytes));
  std::vector<std::string> out;
  for (std::string line; std::getline(in, line);) { out.push_back(line); }
  if (out.empty()) {
    throw command_line::usage_error("--prompts: '" + a.prompts + "' has no line");
  }
  return out;
}

/// Refuses before anything is written what the decoder would refuse in the middle: a vocabulary in
/// which nothing begins a text makes no token of an empty one.
std::vector<std::vector<hunch::token>> tokens_of(const std::vector<std::string>& asked,
                                                 const arguments& a,
                                                 const llama_cpp::weights& target) {
  std::vector<std::vector<hunch::token>> out;
  for (const std::string& prompt : asked) {
    out.push_back(llama_cpp::encode(target, prompt));
    if (!out.back().empty()) { continue; }
    throw command_line::usage_error(a.prompts.empty()
                                        ? "--prompt has no token"
                                        : "--prompts: line " + std::to_string(out.size()) +
                                              " of '" + a.prompts + "' has no token");
  }
  return out;
}

void report(const llama_cpp::run& r) {
  if (r.steps == 0) { return; }  // all texts ended in the step that read their prompts
  const auto& s = r.stats;
  const auto steps = static_cast<double>(r.steps);
  std::printf("\ntokens per second           %10.1f\n", static_cast<double>(r.tokens) / r.seconds);
  std::printf("mean acceptance length      %10.2f\n", s.mean_acceptance_length());
  std::printf("draft tokens accepted       %10.3f\n", s.draft_acceptance_rate());
  std::printf("milliseconds a step         %10.3f\n", 1e3 * r.seconds / steps);
  std::printf("  outside of llama_decode   %10.3f\n", 1e3 * (r.seconds - r.decode_seconds) / steps);
  if (r.head_seconds > 0.0) {
    std::printf("  of it in the draft head   %10.3f\n", 1e3 * r.head_seconds / steps);
    std::printf("rows of the head per draft  %10.0f\n", s.average_shortlist_rows());
  }
}

void generate(const std::vector<std::string>& words) {
  using namespace llama_cpp;
  const arguments a = parse(words);
  const backend started;
  const weights target(a.model);
  const weights draft = a.draft.empty() ? target : weights(a.draft);
  check_same_vocabulary(target, draft);
  const draft_head head = a.draft.empty() ? draft_head{} : head_of(a.head, a.files, draft);

  settings s{.draft_length = a.draft_length,
             .selector = head.selector,
             .batch = a.batch,
             .threads = a.threads,
             .cells = a.context};
  if (a.draft.empty()) {
    s.drafts = shape::none;
  } else if (a.tree) {
    s.drafts = a.temperature == 0.0f ? shape::ranked : shape::sampled;
  }
  const std::vector<std::string> asked = prompts_of(a);
  const std::vector<std::vector<hunch::token>> prompts = tokens_of(asked, a, target);
  hunch::generation_options options{.max_new_tokens = a.length,
                                    .temperature = a.temperature,
                                    .seed = static_cast<std::uint64_t>(a.seed)};
  if (!a.ignore_ends) { options.stop_tokens = ends_of(target); }
  const auto by = compose(target, draft, s);
  const run found = write(*by, prompts, options, a.batch);
  for (std::size_t i = 0; i < asked.size(); ++i) {
    const text& t = found.texts[i];
    std::fwrite(asked[i].data(), 1, asked[i].size(), stdout);
    for (const hunch::token each : t.tokens) {
      const std::string bytes = bytes_of(target, each);
      std::fwrite(bytes.data(), 1, bytes.size(), stdout);
    }
    std::printf("\n[%s%s%s]\n", to_string(t.finish), t.status == hunch::status::ok ? "" : ": ",
                t.status == hunch::status::ok ? "" : to_string(t.status));
  }
  report(found);
}

}  // namespace

int main(int argc, char** argv) {
  return command_line::run("generate_llama", argc, argv, generate);
}
