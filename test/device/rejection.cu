// SPDX-License-Identifier: Apache-2.0
#include <hunch/verifier/rejection.hpp>
#include <hunch/verifier/verify_rows.hpp>
#include "gate.cuh"

namespace hunch::gate {
namespace names {
struct verify_by_rejection;
struct rejection_on_probabilities;
struct residual_sum;
struct residual_sum_of_a_choice;
}  // namespace names

using written = probabilities<float>;
using written_view = verify_view<stored_laws<written>, stored_drafts<written>>;
using whole = whole_law<float>;

/// The sum of what a rejected draft leaves, where both laws range over everything.
struct residual {
  law<float> p;
  law<float> q;
  double* to;

  HUNCH_HOST_DEVICE auto weight() const {
    return kernel::residual<whole, whole, kernel::list_kind::everything>{whole(p), whole(q), {}};
  }
  template <Team T>
  HUNCH_HOST_DEVICE void operator()(T& team, std::int32_t) const {
    const double sum = team.sum(p.size(), weight());
    if (team.rank() == 0) { *to = sum; }
  }
};

/// The same through a function that reads a row only where another one says so: a negative control.
struct residual_of_a_choice : residual {
  template <Team T>
  HUNCH_HOST_DEVICE void operator()(T& team, std::int32_t) const {
    const auto f = weight();
    const double sum = team.sum(p.size(), [f, &row = p](std::int64_t i) {
      float w = 0;
      for (float x = row.logit(i); x > 0.0f; x -= 1.0f) { w += f(i); }
      return w;
    });
    if (team.rank() == 0) { *to = sum; }
  }
};

kernel_pointer rejections[] = {
    by_block<names::verify_by_rejection, verified<verifier::rejection>>(),
    by_cluster<names::verify_by_rejection, verified<verifier::rejection>>(),
    by_block<names::rejection_on_probabilities,
             kernel::verify_sequences<written_view, verifier::rejection, source>>(),
    by_block<names::residual_sum, residual>(),
    by_cluster<names::residual_sum, residual>(),
    by_block<names::residual_sum_of_a_choice, residual_of_a_choice>(),
};

}  // namespace hunch::gate
