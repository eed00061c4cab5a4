// SPDX-License-Identifier: Apache-2.0

// Finds the fixed tree that brings most tokens per step, from measured acceptance, and prints it as
// the constant that `tree::fixed` takes.
//
//   best_tree --acceptance FILE [--temperature 0|1] [--nodes N]

#include <cstdint>
#include <cstdio>
#include <fstream>
#include <stdexcept>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include <command_line/flags.hpp>
#include <command_line/run.hpp>
#include <hunch/tree/best_choices.hpp>

namespace {

constexpr std::int32_t most_nodes = 1024;

struct arguments {
  std::string acceptance;
  int temperature = 0;
  std::int32_t nodes = 8;
};

arguments parse(const std::vector<std::string>& words) {
  arguments out;
  command_line::flags flags("best_tree", "the fixed tree that brings most tokens per step");
  flags.add("--acceptance", "FILE",
            "JSON: {\"T=0\": [[p, ...], ...], \"T=1\": ...}, the probability that the token of a\n"
            "rank (inner) at a depth (outer) is right if the path to it is;\n"
            "examples/models/evaluate_drafters.py writes one",
            out.acceptance);
  flags.require("--acceptance");
  flags.add_number("--temperature", "which of them: 0 or 1 (default 0)", out.temperature, 0, 1);
  flags.add_number("--nodes", "of the tree, without the root (default 8)", out.nodes, 1,
                   most_nodes);
  flags.parse(words);
  return out;
}

void run(const arguments& a) {
  std::ifstream in(a.acceptance);
  if (!in) { throw std::runtime_error(a.acceptance + ": cannot be read"); }
  const nlohmann::json all = nlohmann::json::parse(in);
  const std::string key = "T=" + std::to_string(a.temperature);
  if (!all.contains(key)) { throw std::runtime_error(a.acceptance + ": has no \"" + key + "\""); }
  const auto table = all[key].get<std::vector<std::vector<double>>>();
  std::vector<hunch::tree::path> nodes;
  try {
    nodes = hunch::tree::best_choices(table, a.nodes);
  } catch (const std::invalid_argument& error) {  // of a file, not of a flag
    throw std::runtime_error(a.acceptance + ": " + error.what());
  }
  std::printf("constexpr hunch::tree::choices best%s;\n", hunch::tree::literal_of(nodes).c_str());
  std::printf("// %.3f tokens per step are expected of these %d nodes\n",
              hunch::tree::expected_tokens(nodes, table), a.nodes);
}

}  // namespace

int main(int argc, char** argv) {
  return command_line::run("best_tree", argc, argv, [](const auto& words) { run(parse(words)); });
}
