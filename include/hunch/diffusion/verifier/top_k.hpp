// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include <hunch/diffusion/verifier/verifier.hpp>
#include <hunch/kernel/rank_of.hpp>

namespace hunch::diffusion::verifier {

/// A draft is written if its token is among the k most probable ones that the model has for the
/// draft's position on the canvas before it, of equally probable ones the lower ids. **Not
/// lossless**: neither the position nor the token has to be the one that comes next. With k of the
/// size of the vocabulary every draft that is not impossible is written, which bounds what drafts
/// can bring. (A variant in SSD: Gao et al. 2025, arXiv:2510.04147)
struct top_k {
  std::int32_t k = 1;

  static constexpr bool lossless = false;

  template <Team T, class View>
  HUNCH_HOST_DEVICE HUNCH_INLINE_ON_DEVICE void operator()(T& team, const View& view,
                                                           write_verdict& out) const {
    while (out.accepted < view.drafted && passes(team, view, out.accepted)) { ++out.accepted; }
    out.next = view.choice(team, out.accepted);
  }

 private:
  template <Team T, class View>
  HUNCH_HOST_DEVICE HUNCH_INLINE_ON_DEVICE bool passes(T& team, const View& view,
                                                       std::int32_t draft) const {
    const write w = view.drafts[draft];
    const std::int32_t i = view.find(draft, w.position);
    if (i < 0) { return false; }
    const auto l = view.digests(team, i).sure;
    return l.status == status::ok && l.prob(w.t) > 0 && kernel::rank_of(team, l, w.t) < k;
  }
};

static_assert(DraftVerifier<top_k>);

}  // namespace hunch::diffusion::verifier
