// SPDX-License-Identifier: Apache-2.0

// Clusters the head of a model and writes the layout that a clustered selector needs.
//
//   make_layout --model DIR --out FILE [--clusters M] [--core N --frequency FILE [--rare A:B]]
//               [--balance X] [--iterations N] [--seed N]

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <iterator>
#include <stdexcept>
#include <string>
#include <vector>

#include <command_line/files.hpp>
#include <command_line/flags.hpp>
#include <command_line/run.hpp>
#include <engine/checkpoint.hpp>
#include <engine/config.hpp>
#include <engine/tensor.hpp>
#include <engine/vocabulary.hpp>
#include <hunch/executor/host.hpp>
#include <hunch/tools/layout_file.hpp>
#include <hunch/tools/spherical_kmeans.hpp>
#include <hunch/vocab/layouts.hpp>

namespace {

struct arguments {
  std::string model, out, frequency;
  std::int32_t core = 0;
  std::int32_t rare_begin = 0, rare_end = 0;  ///< ids that are not of the core
  hunch::clustering_options options;
};

using command_line::number;
using command_line::usage_error;

// Beyond these a run takes hours that nobody meant to ask for.
constexpr std::int32_t max_clusters = 1 << 16;
constexpr std::int32_t max_iterations = 10000;

arguments parse(const std::vector<std::string>& words) {
  arguments out;
  command_line::flags flags("make_layout",
                            "clusters of a model's head, and the layout that a clustered selector "
                            "needs");
  flags.add("--model", "DIR", "whose head is clustered: config.json and safetensors", out.model);
  flags.require("--model");
  flags.add("--out", "FILE", "the layout", out.out);
  flags.require("--out");
  flags.add_number("--clusters", "(default 256)", out.options.clusters, 1, max_clusters);
  flags.add("--frequency", "FILE", "a layout in the order of the tokens' frequency", out.frequency);
  flags.add_number("--core", "its first N tokens are in every shortlist (default 0)", out.core, 0);
  flags.add("--rare", "A:B",
            "but ids A to B - 1 are left to the router, wherever they are ranked: byte\n"
            "pieces, say (default none)",
            [&out](const std::string& text) {
              const auto colon = text.find(':');
              if (colon == std::string::npos) { throw usage_error("--rare needs two ids, A:B"); }
              out.rare_begin = number<std::int32_t>("--rare", text.substr(0, colon), 0);
              out.rare_end = number<std::int32_t>("--rare", text.substr(colon + 1), 0);
            });
  flags.add_number("--balance",
                   "no cluster is larger than X times the mean; 0: as it comes (default)",
                   out.options.largest, 0.0, 1e6);
  flags.add_number("--iterations", "at most (default 20)", out.options.iterations, 1,
                   max_iterations);
  flags.add_number("--seed", "(default 0)", out.options.seed);
  flags.parse(words);
  if (out.core > 0 && out.frequency.empty()) { throw usage_error("--core needs --frequency"); }
  command_line::check_writable("--out", out.out);
  return out;
}

/// The most frequent tokens that are not called rare.
std::vector<hunch::token> core_of(const arguments& args, const hunch::made_for& head) {
  std::vector<hunch::token> out;
  if (args.core == 0) { return out; }
  const hunch::vocab_layout ranked = hunch::load_layout(args.frequency, head);
  for (std::int32_t r = 0; r < ranked.head_rows() && std::ssize(out) < args.core; ++r) {
    const hunch::token t = ranked.row_token() == nullptr ? r : ranked.row_token()[r];
    if (t < args.rare_begin || t >= args.rare_end) { out.push_back(t); }
  }
  if (std::ssize(out) < args.core) {
    throw std::runtime_error(args.frequency + ": does not rank " + std::to_string(args.core) +
                             " tokens for the core");
  }
  return out;
}

/// The rows of the head in token order, as floats.
std::vector<float> head_of(const engine::checkpoint& source, const engine::config& shape) {
  const engine::matrix_view head =
      source.matrix(shape.tied_head ? "model.embed_tokens.weight" : "lm_head.weight",
                    shape.vocab_size, shape.hidden);
  const auto width = static_cast<std::size_t>(shape.hidden);
  std::vector<float> out(static_cast<std::size_t>(shape.vocab_size) * width);
  for (int row = 0; row < shape.vocab_size; ++row) {
    float* const to = out.data() + static_cast<std::size_t>(row) * width;
    head.read_row(row, to);
    const float scale = head.scale_of(row);
    for (std::size_t k = 0; k < width; ++k) { to[k] *= scale; }
  }
  return out;
}

void run(const arguments& args) {
  const std::filesystem::path directory = args.model;
  const engine::config shape = engine::read_config(directory / "config.json");
  const std::vector<float> weights = head_of(engine::checkpoint::open(directory), shape);
  const hunch::kernel::head_weights<float> head{weights.data(), shape.vocab_size, shape.hidden};

  const hunch::made_for made_for{.vocab_size = shape.vocab_size,
                                 .vocabulary = engine::vocabulary_of(directory, shape),
                                 .head = hunch::head_fingerprint(head),
                                 .name = args.model};
  const std::vector<hunch::token> core = core_of(args, made_for);
  hunch::executor::host executor;
  const auto start = std::chrono::steady_clock::now();
  const hunch::clustering found = hunch::spherical_kmeans(executor, head, args.options);
  const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
  const hunch::vocab_layout layout = hunch::clustered_layout(found.cluster, core);
  hunch::save_layout(args.out, layout, made_for,
                     {{"clusters", std::to_string(args.options.clusters)},
                      {"core", std::to_string(args.core)},
                      {"seed", std::to_string(args.options.seed)}});
  std::printf(
      "%s: %d tokens, %d in the core, %d clusters; %d iterations, mean cosine %.3f, %.1f s\n",
      args.out.c_str(), layout.head_rows(), layout.core_rows(), layout.clusters(), found.iterations,
      found.mean_cosine(), elapsed.count());
}

}  // namespace

int main(int argc, char** argv) {
  return command_line::run("make_layout", argc, argv, [](const auto& words) { run(parse(words)); });
}
