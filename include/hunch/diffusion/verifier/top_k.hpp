// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include <hunch/diffusion/verifier/verifier.hpp>
#include <hunch/distribution/detail/rank_of.hpp>

namespace hunch::diffusion::verifier {

/// A draft is unmasked if its token is among the k most probable ones that the model has for the
/// draft's position on the canvas before it, of equally probable ones the lower ids. **Not
/// lossless**: neither the position nor the token has to be the one that comes next. In a chain,
/// and with k of the size of the vocabulary, every draft that is not impossible is unmasked, which
/// bounds what drafts can bring. (A variant in SSD: Gao et al. 2025, arXiv:2510.04147)
struct top_k {
  std::int32_t k = 1;

  static constexpr bool lossless = false;

  template <Team T, class View>
  HUNCH_HOST_DEVICE HUNCH_INLINE_ON_DEVICE void operator()(T& team, const View& view,
                                                           unmask_verdict& out) const {
    for (std::int32_t c = 1; c <= view.drafted; ++c) {
      const std::int32_t i = view.added(out.canvas, c);
      if (i < 0 || !passes(team, view, out.canvas, view.drafts[i])) { continue; }
      view.accept(team, c, out);
      c = 0;  // what may come next is anywhere
    }
    out.next = view.choice(team, out.canvas);
  }

 private:
  template <Team T, class View>
  HUNCH_HOST_DEVICE HUNCH_INLINE_ON_DEVICE bool passes(T& team, const View& view,
                                                       std::int32_t canvas, unmasking w) const {
    const std::int32_t i = view.find(canvas, w.position);
    if (i < 0) { return false; }
    const auto l = view.digests(team, i).sure;
    return l.status == status::ok && l.prob(w.t) > 0 && kernel::rank_of(team, l, w.t) < k;
  }
};

static_assert(DraftVerifier<top_k>);

}  // namespace hunch::diffusion::verifier
