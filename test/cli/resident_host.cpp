// SPDX-License-Identifier: Apache-2.0

// What `generate --device cuda` does, on the host: the same models and loops, with products that
// run anywhere. One rule is enough, the one whose text is that of plain decoding at every
// temperature.

#include <cstdio>
#include <exception>

#include <hunch/executor/host.hpp>
#include <hunch/sampler/pipeline.hpp>
#include <hunch/sampler/temperature.hpp>
#include <hunch/verifier/coupled.hpp>

#include "generate/resident.hpp"

namespace {

struct host_platform {
  using executor = hunch::executor::host;
  using multiply = engine::device::team_multiply<executor>;

  static bool ended(const executor&) { return true; }

  template <class Use>
  static void with_policies(const generate::arguments&, Use&& use) {
    use(hunch::sampler::pipeline{hunch::sampler::temperature{}}, hunch::verifier::coupled{},
        hunch::verifier::coupled{});
  }
};

}  // namespace

int main(int argc, char** argv) {
  try {
    generate::resident_program<host_platform>(generate::parse({argv + 1, argv + argc}), {}).run();
    return 0;
  } catch (const std::exception& e) {
    std::fprintf(stderr, "%s\n", e.what());
    return 1;
  }
}
