// SPDX-License-Identifier: Apache-2.0
//
// `generate` as one of several processes that mpirun has started: each computes and verifies the
// logits of a part of the vocabulary, and the first one writes.

#include <mpi.h>

#include <cstdio>
#include <stdexcept>
#include <string>
#include <vector>

#include <command_line/run.hpp>

#include "generate/arguments.hpp"
#include "generate/diffusion.hpp"
#include "generate/program.hpp"

namespace generate {
namespace {

void start(const std::vector<std::string>& words) {
  arguments a = parse(words);
  if (a.device != device_kind::host) { throw usage_error("generate_ranks has --device host only"); }
  if (a.ranks > 1 && a.ranks != ranks->size()) {
    throw usage_error("--ranks: mpirun has started " + std::to_string(ranks->size()));
  }
  if (ranks->rank() > 0) { a.json.clear(); }
  // A canvas each of them fills by itself.
  if (a.method != method_kind::speculative) { return run_diffusion(a); }
  program(a).run();
}

/// What all ranks would say alike one says.
void be_silent() {
  if (std::freopen("/dev/null", "w", stdout) == nullptr ||
      std::freopen("/dev/null", "w", stderr) == nullptr) {
    throw std::runtime_error("/dev/null cannot be written");
  }
}

}  // namespace
}  // namespace generate

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int status = 0;
  {
    hunch::collective::mpi world(MPI_COMM_WORLD);
    generate::ranks = &world;
    status = command_line::run("generate_ranks", argc, argv, [&](const auto& words) {
      if (world.rank() > 0) { generate::be_silent(); }
      generate::start(words);
    });
    generate::ranks = nullptr;
  }
  // The others may still wait for a rank that has failed.
  if (status != 0) { MPI_Abort(MPI_COMM_WORLD, status); }
  MPI_Finalize();
  return status;
}
