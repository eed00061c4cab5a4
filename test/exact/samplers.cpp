// SPDX-License-Identifier: Apache-2.0

// The exact joint law where temperature, top-k and top-p restrict target and draft.

#include "exact.hpp"
#include "selectors.hpp"

namespace hunch::test {
namespace {

constexpr std::pair<flavour, flavour> pairs[] = {
    {flavour::smooth, flavour::smooth}, {flavour::smooth, flavour::sharp},
    {flavour::tied, flavour::tied},     {flavour::uniform, flavour::smooth},
    {flavour::masked, flavour::masked}, {flavour::denormal, flavour::tied}};

template <class S>
void check_pairs(S sampler, const generation_options& options) {
  std::int64_t tapes = 0;
  for (const auto& pair : pairs) {
    const flavour p = pair.first;
    const flavour q = pair.second;
    CAPTURE(static_cast<int>(p));
    CAPTURE(static_cast<int>(q));
    const exact_case c{{4, 21, p}, {4, 22, q}, {{{1, 3}, options}}};
    tapes += over_selectors(c, sampler, verifier::rejection{});
  }
  MESSAGE(tapes << " tapes");
}

TEST_CASE("temperature and top-k") {
  check_pairs(top_k_sampler{}, ask(3, 1.0f, 1));
  check_pairs(top_k_sampler{}, ask(3, 0.8f, 2));
  check_pairs(top_k_sampler{}, ask(3, 1.0f, 3));
  check_pairs(top_k_sampler{}, ask(3, 0.0f, 2));
  check_pairs(top_k_sampler{}, ask(2, 1.3f, 9));
}

TEST_CASE("temperature and top-p") {
  check_pairs(top_p_sampler{}, ask(3, 1.0f, 0, 0.5f));
  check_pairs(top_p_sampler{}, ask(3, 0.8f, 0, 0.75f));
  check_pairs(top_p_sampler{}, ask(3, 0.0f, 0, 0.5f));
  check_pairs(top_p_sampler{}, ask(2, 1.0f, 0, 0.97f));
}

TEST_CASE("temperature, top-k and top-p") {
  check_pairs(full_sampler{}, ask(3, 0.8f, 3, 0.9f));
  check_pairs(full_sampler{}, ask(3, 1.5f, 2, 0.6f));
}

}  // namespace
}  // namespace hunch::test
