// SPDX-License-Identifier: Apache-2.0
#include <hunch/verifier/rejection.hpp>
#include "device_checks.cuh"

namespace hunch::test {

void check_texts_of_routers(device_checks& check) {
  same_texts<by_router>(check, "rejection over routed shortlists", plain{}, verifier::rejection{},
                        run_kind::sampled);
}

}  // namespace hunch::test
