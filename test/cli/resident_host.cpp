// SPDX-License-Identifier: Apache-2.0

// What `generate --device cuda` does, on the host: the same models and loops, with products that
// run anywhere. One rule is enough, the one whose text is that of plain decoding at every
// temperature.

#include <command_line/run.hpp>
#include <hunch/executor/host.hpp>
#include <hunch/sampler/pipeline.hpp>
#include <hunch/sampler/temperature.hpp>
#include <hunch/verifier/coupled.hpp>

#include "generate/on_executor.hpp"
#include "generate/resident_canvas.hpp"
#include "generate/resident_loops.hpp"

namespace {

struct host_platform {
  using executor = hunch::executor::host;
  using multiply = engine::device::team_multiply<executor>;

  static bool ended(const executor&) { return true; }

  struct rules {
    template <class Use>
    static void plain(const generate::arguments&, Use&& use) {
      use(hunch::sampler::pipeline{hunch::sampler::temperature{}}, hunch::verifier::coupled{});
    }
    template <class, class Use>
    static void drafts(const generate::arguments& a, Use&& use) {
      plain(a, use);
    }
  };
};

}  // namespace

int main(int argc, char** argv) {
  return command_line::run("resident_host", argc, argv, [](const auto& words) {
    generate::run_on_executor<host_platform>(generate::parse(words), {});
  });
}
