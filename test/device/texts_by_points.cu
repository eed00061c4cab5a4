// SPDX-License-Identifier: Apache-2.0
#include <hunch/sampler/greedy.hpp>
#include <hunch/verifier/coupled.hpp>
#include <hunch/verifier/greedy.hpp>
#include <hunch/verifier/point_mass.hpp>
#include "device_checks.cuh"

namespace hunch::test {

void check_texts_by_points(device_checks& check) {
  same_texts(check, "point mass", plain{}, verifier::point_mass{}, run_kind::sampled);
  same_texts(check, "coupled", plain{}, verifier::coupled{}, run_kind::sampled);
  same_texts(check, "greedy", sampler::greedy{}, verifier::greedy{}, run_kind::greedy);
}

}  // namespace hunch::test
