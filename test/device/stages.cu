// SPDX-License-Identifier: Apache-2.0
#include <hunch/verifier/verify_rows.hpp>
#include "gate.cuh"

namespace hunch::gate {
namespace names {
struct law_through_all_stages;
struct count_at_least;
struct weight_at_least;
}  // namespace names

/// What top-k and top-p do all the time.
template <class Measure>
struct measure {
  law<float> l;
  float least;
  double* to;

  template <Team T>
  HUNCH_HOST_DEVICE void operator()(T& team, std::int32_t) const {
    const double found = kernel::measure_at_least<Measure>(team, l, least);
    if (team.rank() == 0) { *to = found; }
  }
};

kernel_pointer through_stages[] = {
    by_block<names::law_through_all_stages, kernel::make_laws<float, stages>>(),
    by_cluster<names::law_through_all_stages, kernel::make_laws<float, stages>>(),
    by_block<names::count_at_least, measure<kernel::element_count>>(),
    by_block<names::weight_at_least, measure<kernel::element_weight>>(),
};

}  // namespace hunch::gate
