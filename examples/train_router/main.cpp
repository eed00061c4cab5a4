// SPDX-License-Identifier: Apache-2.0

// Trains the router of a clustered selector for a pair of models, from what they really draft.
//
//   train_router --model DIR (--eagle DIR | --draft DIR) --layout FILE --text FILE --out FILE ...

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include <command_line/files.hpp>
#include <command_line/flags.hpp>
#include <command_line/run.hpp>
#include <engine/config.hpp>
#include <engine/eagle_files.hpp>
#include <engine/model.hpp>
#include <engine/tokenizer.hpp>
#include <engine/vocabulary.hpp>
#include <hunch/decoder/decoder.hpp>
#include <hunch/drafter/autoregressive.hpp>
#include <hunch/sampler/pipeline.hpp>
#include <hunch/sampler/temperature.hpp>
#include <hunch/selector/full.hpp>
#include <hunch/selector/oracle.hpp>
#include <hunch/tools/layout_file.hpp>
#include <hunch/tools/router_weights.hpp>
#include <hunch/tree/chain.hpp>
#include <hunch/verifier/rejection.hpp>
#include <nlohmann/json.hpp>

#include "generate/cluster_budget.hpp"
#include "generate/text_ranking.hpp"
#include "train_router/coverage.hpp"
#include "train_router/recording.hpp"
#include "train_router/trainer.hpp"

namespace {

using namespace train_router;

constexpr std::int32_t draft_length = 5;

struct arguments {
  std::string model, eagle, draft, layout, text, leave_out, out, frequency, coverage;
  std::int32_t prompts = 64;
  std::int32_t prompt = 64;
  std::int32_t tokens = 256;
  std::int32_t threads = 1;
  std::vector<float> temperatures{1.0f};  ///< of the texts in turn
  std::optional<generate::cluster_budget> budget;
  training_options training;
};

using command_line::usage_error;

// Beyond these a run takes memory or hours that nobody meant to ask for.
constexpr std::int32_t max_prompts = 1 << 20;
constexpr std::int32_t max_tokens = 1 << 20;
constexpr std::int64_t max_positions = 1 << 22;  ///< of all texts; each takes kilobytes
constexpr std::size_t max_text_bytes = std::size_t{1} << 26;
constexpr std::int32_t max_width = 1 << 13;
constexpr std::int32_t max_epochs = 1000;

constexpr command_line::named<labels> label_names[] = {{"mass", labels::mass},
                                                       {"top", labels::top}};

/// Numbers between commas. \throws usage_error.
std::vector<float> temperatures_of(const std::string& text) {
  std::vector<float> out;
  for (std::size_t at = 0; at <= text.size();) {
    const std::size_t comma = std::min(text.find(',', at), text.size());
    out.push_back(
        command_line::number<float>("--temperature", text.substr(at, comma - at), 0.0f, 1e4f));
    at = comma + 1;
  }
  return out;
}

arguments parse(const std::vector<std::string>& words) {
  arguments out;
  command_line::flags flags("train_router",
                            "the router of a clustered selector for a pair of models, from what "
                            "they really draft");
  flags.add("--model", "DIR", "the target, with its tokenizer", out.model);
  flags.add("--eagle", "DIR", "its EAGLE head, or", out.eagle);
  flags.add("--draft", "DIR", "a draft model of its own", out.draft);
  flags.add("--layout", "FILE", "clusters, of make_layout", out.layout);
  flags.add("--text", "FILE",
            "prompts are taken from it at even distances; or a folder of .txt files, one for\n"
            "each domain",
            out.text);
  flags.add("--leave-out", "NAME",
            "a domain of the folder that is not trained on, but measured: what the router's\n"
            "shortlists hold of the target's law, beside those of an oracle",
            out.leave_out);
  flags.add(
      "--budget", "NAME", "of these shortlists, as generate takes it",
      [&out](const std::string& text) { out.budget = generate::parse_budget("--budget", text); });
  flags.add("--coverage", "FILE",
            "writes as JSON how much of the target's law shortlists of many sizes hold there:\n"
            "the router's, an oracle's and, with --frequency, the first rows of a ranking",
            out.coverage);
  flags.add("--frequency", "FILE", "of --coverage: a ranking of the vocabulary", out.frequency);
  flags.add("--out", "FILE", "the router", out.out);
  for (const char* needed : {"--model", "--layout", "--text", "--out"}) { flags.require(needed); }
  flags.add_number("--prompts", "texts that are continued (default 64)", out.prompts, 1,
                   max_prompts);
  flags.add_number("--prompt", "tokens of a prompt (default 64)", out.prompt, 1, max_tokens);
  flags.add_number("--tokens", "tokens that each is continued by (default 256)", out.tokens, 1,
                   max_tokens);
  flags.add("--temperature", "X[,Y...]", "of the texts, in turn (default 1)",
            [&out](const std::string& text) { out.temperatures = temperatures_of(text); });
  flags.add_choice<labels>("--labels", "mass or top (default mass)", out.training.kind,
                           label_names);
  flags.add_number("--width", "of the hidden layer (default 128)", out.training.width, 1,
                   max_width);
  flags.add_number("--epochs", "(default 6)", out.training.epochs, 1, max_epochs);
  flags.add_number("--threads", "of the models (default 1)", out.threads, 1,
                   command_line::processors());
  flags.parse(words);
  if (out.eagle.empty() == out.draft.empty()) {
    throw usage_error("one drafter is needed: --eagle or --draft");
  }
  if (std::int64_t{out.prompts} * (std::int64_t{out.prompt} + out.tokens) > max_positions) {
    throw usage_error("--prompts: " + std::to_string(out.prompts) + " texts of --prompt " +
                      std::to_string(out.prompt) + " and --tokens " + std::to_string(out.tokens) +
                      " are more than " + std::to_string(max_positions) + " tokens together");
  }
  command_line::check_writable("--out", out.out);
  if (!out.coverage.empty()) {
    if (out.leave_out.empty()) { throw usage_error("--coverage is that of a domain: --leave-out"); }
    command_line::check_writable("--coverage", out.coverage);
  } else if (!out.frequency.empty()) {
    throw usage_error("--frequency has a meaning with --coverage only");
  }
  return out;
}

/// The files that prompts are taken from: the text, or those of its folder but one.
struct texts {
  std::vector<std::filesystem::path> files;
  std::filesystem::path left_out;  ///< empty: none
};

texts texts_of(const arguments& args) {
  if (!args.leave_out.empty() && !std::filesystem::is_directory(args.text)) {
    throw usage_error("--leave-out needs a folder as --text");
  }
  texts out{generate::text_files("--text", args.text), {}};
  if (args.leave_out.empty()) { return out; }
  const auto left_out = std::find_if(out.files.begin(), out.files.end(), [&](const auto& file) {
    return file.stem() == args.leave_out;
  });
  if (left_out == out.files.end()) {
    throw usage_error(args.text + " has no " + args.leave_out + ".txt");
  }
  out.left_out = *left_out;
  out.files.erase(left_out);
  if (out.files.empty()) {
    throw usage_error("--leave-out: " + args.text + " has no other .txt file to train on");
  }
  return out;
}

/// `count` pieces of a text at even distances.
void add_prompts(const std::filesystem::path& file, std::int32_t count, std::int32_t tokens_each,
                 const engine::tokenizer& text, std::vector<std::vector<hunch::token>>& out) {
  const std::vector<hunch::token> tokens =
      text.encode(command_line::read_file("--text", file.string(), max_text_bytes), false);
  const auto length = static_cast<std::size_t>(tokens_each);
  if (tokens.size() <= length) { throw std::runtime_error(file.string() + ": is too short"); }
  for (std::int32_t i = 0; i < count; ++i) {
    const std::size_t at =
        (tokens.size() - length) * static_cast<std::size_t>(i) / static_cast<std::size_t>(count);
    std::vector<hunch::token> prompt;
    if (text.bos() != hunch::no_token) { prompt.push_back(text.bos()); }
    prompt.insert(prompt.end(), tokens.begin() + static_cast<std::ptrdiff_t>(at),
                  tokens.begin() + static_cast<std::ptrdiff_t>(at + length));
    out.push_back(std::move(prompt));
  }
}

/// `prompts` pieces of `length` tokens: as many from each text, those that are over from the first.
std::vector<std::vector<hunch::token>> prompts_of(const std::vector<std::filesystem::path>& files,
                                                  std::int32_t prompts, std::int32_t length,
                                                  const engine::tokenizer& text) {
  const auto count = static_cast<std::int32_t>(files.size());
  std::vector<std::vector<hunch::token>> out;
  for (std::int32_t i = 0; i < count; ++i) {
    add_prompts(files[static_cast<std::size_t>(i)], (prompts + count - 1 - i) / count, length, text,
                out);
  }
  return out;
}

/// The sizes of shortlists that `--coverage` measures, ascending.
std::vector<std::int32_t> measured_rows(std::int32_t vocab_size) {
  std::vector<std::int32_t> out;
  for (std::int32_t part = 64; part > 1; part /= 2) {
    out.push_back(std::max(vocab_size / part, 1));
    if (part > 2) { out.push_back(std::max(vocab_size / part * 3 / 2, 1)); }
  }
  return out;
}

/// What is drafted when the prompts are continued, over the whole vocabulary.
template <class Draft>
recording record(const arguments& args, engine::model& target, Draft& draft,
                 const hunch::vocab_layout& layout,
                 const std::vector<std::vector<hunch::token>>& prompts,
                 const hunch::vocab_layout* ranking = nullptr) {
  recorder to(layout, draft.context_width(), 1);
  if (ranking != nullptr) { to.rank(*ranking, measured_rows(layout.vocab_size())); }
  hunch::decoder decoder{recorded_target<engine::model>(target, to),
                         hunch::drafter::autoregressive{recorded_draft<Draft>(draft, to),
                                                        hunch::tree::chain<draft_length>{}},
                         hunch::selector::full{target.vocab_size()},
                         hunch::sampler::pipeline{hunch::sampler::temperature{}},
                         hunch::verifier::rejection{}};
  for (std::size_t i = 0; i < prompts.size(); ++i) {
    hunch::generation_options options;
    options.max_new_tokens = args.tokens;
    options.temperature = args.temperatures[i % args.temperatures.size()];
    options.seed = i;
    auto text = decoder.generate(prompts[i], options);
    for (const hunch::token t : text) { static_cast<void>(t); }
    if (text.finish() == hunch::finish_reason::error) {
      throw std::runtime_error(args.model + ": text " + std::to_string(i) +
                               " failed: " + to_string(text.status()));
    }
  }
  std::printf("%zu positions, mean acceptance length %.2f\n", to.taken.size(),
              decoder.stats().mean_acceptance_length());
  return std::move(to.taken);
}

/// How much of the target's law the shortlists of the left-out domain hold: those of the router,
/// and those of an oracle, which has the same clusters and the same budget.
void report(const arguments& args, const recording& of, const hunch::vocab_layout& layout,
            const hunch::router::weights& trained) {
  const generate::cluster_budget budget =
      args.budget.value_or(generate::default_budget(layout.vocab_size()));
  const coverage by_router =
      coverage_of(of, layout, trained.view(), budget, [&](std::size_t i) { return of.context(i); });
  const coverage by_oracle = coverage_of(of, layout, hunch::router::oracle(layout.clusters()),
                                         budget, [&](std::size_t i) { return of.mass(i); });
  std::printf("%s, left out: the router's shortlists hold %.4f of the target's law in %.0f rows\n",
              args.leave_out.c_str(), by_router.law, by_router.rows);
  std::printf("%s, left out: those of an oracle hold %.4f in %.0f rows\n", args.leave_out.c_str(),
              by_oracle.law, by_oracle.rows);
}

/// The same of many sizes, and of the first rows of a ranking, to a file.
void write_coverage(const arguments& args, const recording& of, const hunch::vocab_layout& layout,
                    const hunch::router::weights& trained) {
  nlohmann::ordered_json out;
  out["domain"] = args.leave_out;
  out["positions"] = of.size();
  out["vocabulary"] = layout.vocab_size();
  const std::vector<std::int32_t> sizes = measured_rows(layout.vocab_size());
  const auto add = [&out](const char* name, double rows, double law) {
    out[name]["rows"].push_back(rows);
    out[name]["law"].push_back(law);
  };
  for (std::size_t k = 0; k < sizes.size(); ++k) {
    generate::cluster_budget budget = generate::default_budget(layout.vocab_size());
    budget.rows = sizes[k];
    const auto by = [&](const auto& router, const auto& context) {
      return coverage_of(of, layout, router, budget, context);
    };
    const coverage routed = by(trained.view(), [&](std::size_t i) { return of.context(i); });
    const coverage known =
        by(hunch::router::oracle(layout.clusters()), [&](std::size_t i) { return of.mass(i); });
    add("routed", routed.rows, routed.law);
    add("oracle", known.rows, known.law);
    if (!of.first_rows.empty()) {
      add("static", sizes[k], of.first_rows[k] / static_cast<double>(of.size()));
    }
  }
  command_line::write_file("--coverage", args.coverage, out.dump(1) + "\n");
}

template <class Draft>
void train(const arguments& args, const texts& from, engine::model& target, Draft& draft,
           const engine::tokenizer& text) {
  hunch::made_for head = draft.made_for();
  head.vocabulary = text.fingerprint();
  const hunch::vocab_layout layout = hunch::load_layout(args.layout, head);
  if (layout.clusters() == 0) { throw std::runtime_error(args.layout + ": has no clusters"); }
  const recording taken =
      record(args, target, draft, layout, prompts_of(from.files, args.prompts, args.prompt, text));
  trainer training(taken, args.training);
  const hunch::router::weights trained = training.run([](std::int32_t epoch, double loss) {
    std::printf("epoch %d: loss %.4f\n", epoch + 1, loss);
    std::fflush(stdout);
  });
  trained.save(args.out, layout, head);
  if (from.left_out.empty()) { return; }
  const std::int32_t prompts = std::max(args.prompts / 8, 1);
  std::optional<hunch::vocab_layout> ranking;
  if (!args.frequency.empty()) { ranking = hunch::load_layout(args.frequency, head); }
  const recording left_out =
      record(args, target, draft, layout, prompts_of({from.left_out}, prompts, args.prompt, text),
             ranking ? &*ranking : nullptr);
  report(args, left_out, layout, trained);
  if (!args.coverage.empty()) { write_coverage(args, left_out, layout, trained); }
}

void run(const arguments& args) {
  const texts from = texts_of(args);
  engine::model_options options;
  options.threads = args.threads;
  options.keep_features = !args.eagle.empty();
  if (options.keep_features) {
    options.feature_layers = engine::eagle_files::feature_layers_of(args.eagle, args.model);
  }
  engine::model target = engine::model::load(args.model, options);
  const engine::tokenizer text(args.model);
  engine::check_tokenizer(text, args.model, args.model, target.shape());
  if (!args.eagle.empty()) {
    engine::eagle_model draft = engine::eagle_model::load(args.eagle, args.model, target, options);
    train(args, from, target, draft, text);
  } else {
    engine::model draft = engine::model::load(args.draft, options);
    engine::check_draft_vocabulary(args.draft, draft.shape(), text.fingerprint(), args.model);
    train(args, from, target, draft, text);
  }
}

}  // namespace

int main(int argc, char** argv) {
  return command_line::run("train_router", argc, argv,
                           [](const auto& words) { run(parse(words)); });
}
