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
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include <command_line.hpp>
#include <hunch/tree/best_choices.hpp>

namespace {

constexpr const char* usage =
    "best_tree --acceptance FILE [options]\n"
    "  --acceptance FILE  JSON: {\"T=0\": [[p, ...], ...], \"T=1\": ...}, the probability that the "
    "token of\n"
    "                     a rank (inner) at a depth (outer) is right if the path to it is;\n"
    "                     examples/models/evaluate_drafters.py writes one\n"
    "  --temperature T    which of them: 0 or 1 (0)\n"
    "  --nodes N          of the tree, without the root (8)\n";

using command_line::usage_error;

struct arguments {
  std::string acceptance;
  std::string temperature = "T=0";
  std::int32_t nodes = 8;
};

arguments parse(int argc, char** argv) {
  arguments out;
  command_line::for_each_flag(argc, argv, [&](std::string_view flag, std::string_view value) {
    if (flag == "--acceptance") {
      out.acceptance = value;
    } else if (flag == "--temperature") {
      out.temperature = "T=" + std::string(value);
    } else if (flag == "--nodes") {
      out.nodes = command_line::number_at_least<std::int32_t>(flag, value, 1);
    } else {
      return false;
    }
    return true;
  });
  if (out.acceptance.empty()) { throw usage_error("--acceptance is missing"); }
  return out;
}

void run(const arguments& a) {
  std::ifstream in(a.acceptance);
  if (!in) { throw std::runtime_error(a.acceptance + ": cannot be read"); }
  const nlohmann::json all = nlohmann::json::parse(in);
  if (!all.contains(a.temperature)) {
    throw std::runtime_error(a.acceptance + ": has no \"" + a.temperature + "\"");
  }
  const auto table = all[a.temperature].get<std::vector<std::vector<double>>>();
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
  return command_line::exit_status("best_tree", usage, [&] { run(parse(argc, argv)); });
}
