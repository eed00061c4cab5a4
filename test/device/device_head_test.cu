// SPDX-License-Identifier: Apache-2.0

// On a GPU: the logits of the head are right, by tensor cores and of float weights, and no logit
// depends on what is computed beside it. (They have not the bits of the host: a device rounds a
// product and a sum once.) Without a GPU nothing is run, and the program says so. With --short
// there are few heads, for tools that watch each access to memory.

#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

#include <hunch/executor/cuda.cuh>
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

}  // namespace

int main(int argc, char** argv) {
  const bool brief = argc > 1 && std::string(argv[1]) == "--short";
  int devices = 0;
  has_device = cudaGetDeviceCount(&devices) == cudaSuccess && devices > 0;
  for (const std::int32_t rows : {40, 300, 20000}) {
    for (const std::int32_t width : {16, 37, 320, 1088}) {
      for (const std::int32_t lists : {1, 5, 13, 70}) {
        if (rows > 300 && (width > 320 || lists > 13)) { continue; }
        if (brief && (rows != 300 || width > 37 || lists > 5)) { continue; }
        check_head<float>("float", rows, width, lists, 0.0);
        check_head<bfloat16>("bfloat16", rows, width, lists, 0x1p-16);
        check_head<float16>("float16", rows, width, lists, 0x1p-22);
        check_head<std::int8_t>("bytes", rows, width, lists, 0x1p-22);
      }
    }
  }
  if (!has_device) {
    std::printf("######## NO CUDA DEVICE: %d device checks were NOT RUN ########\n", checks);
    return 0;
  }
  std::printf("%d checks, %d failed\n", checks, failures);
  return failures == 0 ? 0 : 1;
}
