// SPDX-License-Identifier: Apache-2.0

// Texts of the host, as numbers. Compiled by nvcc as well (host_texts.cu): what a device is held
// against is compiled by it, and nvcc rewrites host code before a compiler sees it. Both have to
// print the same.

#define DOCTEST_CONFIG_DISABLE  // the headers of the table have checks for other programs

#include <cstdint>
#include <cstdio>
#include <vector>

#include <hunch/executor/host.hpp>
#include <hunch/sampler/pipeline.hpp>
#include <hunch/sampler/temperature.hpp>
#include <hunch/verifier/point_mass.hpp>
#include <hunch/verifier/rejection.hpp>
#include "../support/resident_runs.hpp"
#include "../support/table_runs.hpp"

namespace {

using namespace hunch;
using namespace hunch::test;

template <class Texts>
unsigned long long digest(const Texts& texts) {
  std::uint64_t all = 1;
  for (const auto& text : texts) {
    all = hash_state::mixed(all + text.size());
    for (const token t : text) {
      all = hash_state::mixed(all * 31 + static_cast<std::uint64_t>(t));
    }
  }
  return all;
}

template <class By>
void print_resident(const char* name) {
  const std::vector<run_request> requests = run_requests_of(run_kind::sampled, 12);
  for (const std::int32_t batch : {1, 3, 12}) {
    std::printf(
        "resident, %s, batch %d: %016llx\n", name, batch,
        digest(resident_texts<By>(executor::host{}, sampler::pipeline<sampler::temperature>{},
                                  verifier::point_mass{}, requests, batch, 1000, 0)));
  }
}

template <class Make, class S, class V>
void print_driven(const char* name, const Make& make, S sampler, V verifier) {
  constexpr std::int32_t vocab = 60;
  const selector::full all{vocab};
  std::vector<request> requests = table::requests_of(table::asked::little);
  requests.resize(12);
  const table::composed_line<executor::host, Make, S, V> line(make, sampler, verifier);
  for (const std::int32_t batch : {1, 12}) {
    const table::line_result of =
        line.driven(all.layout(), selector::any<float>(all), requests, batch);
    std::printf("driven, %s, batch %d: %016llx, %d of %d\n", name, batch, digest(of.texts.texts),
                static_cast<int>(of.accepted), static_cast<int>(of.drafted));
  }
}

}  // namespace

int main() {
  print_resident<by_frequency>("frequent tokens");
  print_resident<by_router>("a router");
  const length::fixed policy;
  print_driven("a model", by_model(chain{}, policy), plain_sampler{}, verifier::rejection{});
  print_driven("heads", by_heads(chain{}, policy), plain_sampler{}, verifier::rejection{});
  print_driven("streams", by_streams(table::named_fixed{}, policy), plain_sampler{},
               verifier::point_mass{});
  print_driven(
      "lookup", [](auto&) { return drafter::lookup<3>{1}; }, every_stage{}, verifier::point_mass{});
}
