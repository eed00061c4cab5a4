// SPDX-License-Identifier: Apache-2.0
#include "common.hpp"
#include "dynaspec/ablation.hpp"

/// \file
/// DynaSpec as it was published (Zhang et al. 2025, arXiv:2510.13847), and its ablation at equal
/// mean rows.

int main(int argc, char** argv) {
  return bench::run(
      "dynaspec", argc, argv,
      [](bench::report& out, const bench::choice& of) {
        bench::dynaspec::measure_ablation(out, of.models);
      },
      HUNCH_BENCH_MODELS);
}
