// SPDX-License-Identifier: Apache-2.0

// On a GPU: the logits of the head are right, by tensor cores and of float weights, no logit
// depends on what is computed beside it, and summaries have the bits of the host's. (The logits
// have not the bits of the host: a device rounds a product and a sum once.) Without a GPU nothing
// is run, and the program says so. With HUNCH_TEST_SHORT=1 there are few heads, for tools that
// watch each access to memory.

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include <hunch/executor/cuda.cuh>
#include <hunch/executor/host.hpp>
#include <hunch/head/best_children.hpp>
#include <hunch/head/summarise_rows.hpp>
#include "../support/head_problem.hpp"

namespace {

using namespace hunch;
using namespace hunch::test;
using gpu = executor::cuda;

int checks = 0;
int failures = 0;
bool has_device = false;

void check(bool passed, const std::string& what) {
  ++checks;
  if (!passed) {
    ++failures;
    std::printf("FAILED: %s\n", what.c_str());
  }
}

/// \param kept relative error of a hidden state in the factors.
template <class Weight>
void check_head(const char* name, std::int32_t rows, std::int32_t width, std::int32_t lists,
                double kept) {
  const std::string what = std::string(name) + ", rows " + std::to_string(rows) + ", width " +
                           std::to_string(width) + ", lists " + std::to_string(lists);
  if (!has_device) {
    ++checks;
    return;
  }
  const head_problem<Weight> all(rows, width, lists, 5, lists % 2 == 0);
  const auto found = all.logits(gpu{});
  const double worst = worst_error(all, found);
  check(worst <= kept + 1e-5, what + ": error " + std::to_string(worst));
  for (std::size_t i = 0; i < found.size(); i += 3) {
    check(same(all.logits(gpu{}, {i})[0], found[i]),
          what + ": list " + std::to_string(i) + " alone");
  }
}

/// The summary of a row of tied and of excluded logits, and its children, on the host and here.
void check_epilogue(std::int32_t size) {
  const std::string what = "epilogue of " + std::to_string(size) + " logits";
  if (!has_device) {
    ++checks;
    return;
  }
  constexpr std::int32_t count = 10;
  dice random{static_cast<std::uint64_t>(size)};
  std::vector<float> logits(static_cast<std::size_t>(size));
  for (float& x : logits) {
    x = random.below(5) == 0 ? -kernel::infinity<float>
                             : static_cast<float>(random.below(4000)) / 100.0f;
  }
  const auto summary = [&](auto executor) {
    using E = decltype(executor);
    const auto of = [&](const auto& values) { return head_problem<float>::copy(executor, values); };
    const auto tiles = static_cast<std::size_t>(team::tiles_of(size));
    const auto row = of(logits);
    const auto totals = of(std::vector<team::soft_total<std::int32_t>>(tiles));
    const auto best = of(std::vector<std::int64_t>(tiles * count));
    const auto work = of(std::vector<std::int64_t>(count));
    const auto ranges = of(std::vector<row_range>{{0, size}});
    const auto law_of_row = of(std::vector<law<float>>(1));
    const auto children = of(std::vector<token>(count));
    const auto probability = of(std::vector<float>(count));
    const row_summary made{1.5f, totals.data(), count, best.data()};
    const auto views = of(std::vector<row_view<float>>{{row.data(), size}});
    const auto asked = of(std::vector<std::int32_t>{0});
    const auto summaries = of(std::vector<row_summary>{made});
    const auto rows =
        of(std::vector<kernel::summarised_row>{{{row.data(), size},
                                                {ranges.data(), 1, size, nullptr, nullptr, size},
                                                made,
                                                law_of_row.data(),
                                                work.data(),
                                                children.data(),
                                                probability.data()}});
    executor.launch(static_cast<std::int32_t>(tiles),
                    kernel::summarise_rows{views.data(), asked.data(), summaries.data(),
                                           static_cast<std::int32_t>(tiles)});
    executor.launch(1, kernel::best_children{rows.data()});
    executor.synchronize();
    std::vector<double> all{static_cast<double>(law_of_row.data()->norm)};
    for (std::int32_t i = 0; i < count; ++i) {
      all.push_back(static_cast<double>(children.data()[i]));
      all.push_back(static_cast<double>(probability.data()[i]));
    }
    return all;
  };
  check(summary(gpu{}) == summary(executor::host{}), what);
}

}  // namespace

int main() {
  const bool brief = std::getenv("HUNCH_TEST_SHORT") != nullptr;
  int devices = 0;
  has_device = cudaGetDeviceCount(&devices) == cudaSuccess && devices > 0;
  for (const std::int32_t rows : {40, 300, 20000}) {
    for (const std::int32_t width : {16, 37, 320, 1088}) {
      for (const std::int32_t lists : {1, 5, 13, 20, 70}) {
        if (rows > 300 && (width > 320 || lists > 20)) { continue; }
        if (brief && (rows != 300 || width > 37 || lists > 5)) { continue; }
        check_head<float>("float", rows, width, lists, 0.0);
        check_head<bfloat16>("bfloat16", rows, width, lists, 0x1p-16);
        check_head<float16>("float16", rows, width, lists, 0x1p-22);
        check_head<std::int8_t>("bytes", rows, width, lists, 0x1p-22);
      }
    }
  }
  for (const std::int32_t size : {33, 4097, 27000, 128256}) { check_epilogue(size); }
  if (!has_device) {
    std::printf("######## NO CUDA DEVICE: %d device checks were NOT RUN ########\n", checks);
    return 0;
  }
  std::printf("%d checks, %d failed\n", checks, failures);
  return failures == 0 ? 0 : 1;
}
