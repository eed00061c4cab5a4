// SPDX-License-Identifier: Apache-2.0

#include <cstdio>
#include <exception>

#include <cuda_runtime.h>

#include "sections.hpp"

/// \file
/// What the bodies of the library cost on a CUDA device, against its memory. Needs no models.

int main(int argc, char** argv) {
  int devices = 0;
  if (cudaGetDeviceCount(&devices) != cudaSuccess || devices == 0) {
    std::fprintf(stderr, "this suite needs a CUDA device, and there is none\n");
    return 1;
  }
  try {
    bench::report out(argc, argv);
    bench::device::cuda executor;
    {
      bench::device::memory_copy copy(executor);
      bench::device::measure_heads(out, executor, copy);
      bench::device::measure_laws(out, executor, copy);
      bench::device::measure_verification(out, executor, copy);
    }
    bench::device::measure_steps(out);
    return out.finish();
  } catch (const std::exception& e) {
    std::fprintf(stderr, "%s\n", e.what());
    return 1;
  }
}
