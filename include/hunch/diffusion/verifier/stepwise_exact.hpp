// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <hunch/diffusion/verifier/verifier.hpp>

namespace hunch::diffusion::verifier {

/// A draft is unmasked if decoding one token a pass would unmask just that: the same token at the
/// same position. What is unmasked goes from canvas to canvas, for as long as there is one with the
/// next unmasking on it; all other drafts are dropped. Lossless: the unmaskings are those of
/// decoding one token a pass, in the same order. (SSD: Gao et al. 2025, arXiv:2510.04147)
///
/// Comparing tokens alone is not enough: a token at another position changes what the model sees
/// in the next pass.
struct stepwise_exact {
  static constexpr bool lossless = true;

  template <Team T, class View>
  HUNCH_HOST_DEVICE HUNCH_INLINE_ON_DEVICE void operator()(T& team, const View& view,
                                                           unmask_verdict& out) const {
    for (;;) {
      out.next = view.choice(team, out.canvas);
      if (out.next.status != status::ok) { return; }
      const std::int32_t next = view.after(out.canvas, out.next.what);
      if (next < 0) { return; }
      view.accept(team, next, out);
    }
  }
};

static_assert(DraftVerifier<stepwise_exact>);

}  // namespace hunch::diffusion::verifier
