// SPDX-License-Identifier: Apache-2.0

// Finds the fixed tree that brings most tokens per step, from measured acceptance, and prints it as
// the constant that `tree::fixed` takes.
//
//   best_tree --acceptance FILE [--temperature 0|1] [--nodes N]

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <stdexcept>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include <command_line/files.hpp>
#include <command_line/flags.hpp>
#include <command_line/run.hpp>
#include <hunch/tree/best_choices.hpp>

namespace {

constexpr std::int32_t max_tree_nodes = 1024;
constexpr std::size_t max_bytes = std::size_t{1} << 24;

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
            "examples/recipes/evaluate_drafters.py writes one",
            out.acceptance);
  flags.require("--acceptance");
  flags.add_number("--temperature", "which of them: 0 or 1 (default 0)", out.temperature, 0, 1);
  flags.add_number("--nodes", "of the tree, without the root (default 8)", out.nodes, 1,
                   max_tree_nodes);
  flags.parse(words);
  return out;
}

using acceptance_table = std::vector<std::vector<double>>;

acceptance_table read_table(const arguments& a) {
  const std::string text = command_line::read_file("--acceptance", a.acceptance, max_bytes);
  const std::string key = "T=" + std::to_string(a.temperature);
  try {
    const nlohmann::json all = nlohmann::json::parse(text);
    if (all.contains(key)) { return all[key].get<acceptance_table>(); }
  } catch (const nlohmann::json::exception& error) {
    throw std::runtime_error(a.acceptance + ": is no table of acceptance: " + error.what());
  }
  throw std::runtime_error(a.acceptance + ": has no \"" + key + "\"");
}

void run(const arguments& a) {
  const acceptance_table table = read_table(a);
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
