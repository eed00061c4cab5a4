// SPDX-License-Identifier: Apache-2.0
//
// Generates text with a target model, plain and by speculative decoding on the same engine, and
// says what was gained. The composition of policies is chosen at compile time; the flags choose
// among a few.

#include <string>
#include <vector>

#include <command_line/run.hpp>

#include "generate/arguments.hpp"
#include "generate/cuda.hpp"
#include "generate/diffusion.hpp"
#include "generate/program.hpp"
#include "generate/start_ranks.hpp"
#include "generate/teams.hpp"

namespace generate {

#if !defined(HUNCH_GENERATE_CUDA)
void run_on_cuda(const arguments&) {
  throw usage_error(
      "--device cuda: this program was built without a CUDA compiler; install a CUDA toolkit, set "
      "CUDACXX to the path of its nvcc, and configure and build again in an empty folder");
}
#endif
#if !defined(HUNCH_GENERATE_TEAMS)
void run_on_teams(const arguments&) {
  throw usage_error("--device teams: left out of this program by HUNCH_QUICK_BUILD");
}
#endif

namespace {

void start(const std::vector<std::string>& words) {
  const arguments a = parse(words);
  if (a.ranks > 1) {
    start_ranks(words, a.ranks);
  } else if (a.device == device_kind::cuda) {
    run_on_cuda(a);
  } else if (a.device == device_kind::teams) {
    run_on_teams(a);
  } else if (a.method != method_kind::speculative) {
    run_diffusion(a);
  } else {
    program(a).run();
  }
}

}  // namespace
}  // namespace generate

int main(int argc, char** argv) {
  return command_line::run("generate", argc, argv, generate::start);
}
