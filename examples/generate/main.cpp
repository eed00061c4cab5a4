// SPDX-License-Identifier: Apache-2.0
//
// Generates text with a target model, plain and by speculative decoding on the same engine, and
// says what was gained. The composition of policies is chosen at compile time; the flags choose
// among a few.

#include <cstdio>
#include <exception>
#include <string>
#include <vector>

#include "generate/arguments.hpp"
#include "generate/cuda.hpp"
#include "generate/diffusion.hpp"
#include "generate/program.hpp"

namespace generate {

#if !defined(HUNCH_GENERATE_CUDA)
void run_on_cuda(const arguments&) {
  throw usage_error(
      "--device cuda: this program was built without a CUDA compiler; install a CUDA toolkit, set "
      "CUDACXX to the path of its nvcc, and configure and build again in an empty folder");
}
#endif

namespace {

int start(const std::vector<std::string>& words) {
  try {
    const arguments a = parse(words);
    if (a.help) {
      std::fputs(help_text().c_str(), stdout);
      return 0;
    }
    if (a.method != method_kind::speculative) {
      run_diffusion(a);
    } else if (a.device == device_kind::cuda) {
      run_on_cuda(a);
    } else {
      program(a).run();
    }
    return 0;
  } catch (const usage_error& e) {
    std::fprintf(stderr, "generate: %s\n", e.what());
    return 2;
  } catch (const std::exception& e) {
    std::fprintf(stderr, "generate: %s\n", e.what());
    return 1;
  }
}

}  // namespace
}  // namespace generate

int main(int argc, char** argv) { return generate::start({argv + 1, argv + argc}); }
