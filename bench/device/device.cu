// SPDX-License-Identifier: Apache-2.0

#include "sections.hpp"

/// \file
/// What the bodies of the library cost on a CUDA device, against its memory. Needs no models.

int main(int argc, char** argv) {
  return bench::run("device", argc, argv, [](bench::report& out) {
    bench::device::need_device();
    bench::device::cuda executor;
    {
      bench::device::memory_copy copy(executor);
      bench::device::measure_heads(out, executor, copy);
      bench::device::measure_laws(out, executor, copy);
      bench::device::measure_verification(out, executor, copy);
      bench::device::measure_adapters(out, executor, copy);
    }
    bench::device::measure_steps(out);
  });
}
