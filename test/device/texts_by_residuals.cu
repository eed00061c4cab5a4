// SPDX-License-Identifier: Apache-2.0
#include <hunch/verifier/block.hpp>
#include <hunch/verifier/rejection.hpp>
#include "device_checks.cuh"

namespace hunch::test {

void check_texts_by_residuals(device_checks& check) {
  same_texts(check, "rejection", plain{}, verifier::rejection{}, run_kind::sampled);
  same_texts(check, "block", plain{}, verifier::block{}, run_kind::sampled);
}

}  // namespace hunch::test
