// SPDX-License-Identifier: Apache-2.0
// expect: hunch: the argument of diffusion::right_shifted must model hunch::diffusion::MaskedModel
// expect: hunch: the third argument of a diffusion::decoder must model hunch::Sampler
// expect: hunch: the fifth argument of a diffusion::decoder must be a diffusion::self_speculation
// expect: hunch: E must model hunch::Executor
// expect: double: give the model's evaluation rows of one of these
// expect: hunch: logits of a draft model must be float, hunch::bfloat16, hunch::float16 or double
// expect: hunch: the model of diffusion::drafted_by must model hunch::diffusion::MaskedModel

#include <type_traits>

#include "models.hpp"

using namespace hunch;
using namespace compile_fail;

/// Runs bodies, and gives them no memory.
struct runner {
  template <class Body>
  void launch(std::int32_t, const Body&) {}
};

struct evaluation_of_bytes {
  hunch::status status(std::int32_t) const { return hunch::status::ok; }
  row_view<std::int8_t> logits(std::int32_t) const { return {}; }
};
struct masked_of_bytes : masked {
  evaluation_of_bytes evaluate(const diffusion::canvases&) { return {}; }
};

/// What fits, but in one place.
#ifdef WRONG
template <int Which, class Right, class Wrong>
using in = std::conditional_t<Which == WRONG, Wrong, Right>;
#else
template <int, class Right, class>
using in = Right;
#endif

using shifted = diffusion::right_shifted<in<1, masked, target>>;
using drafts = diffusion::model_drafts<2, in<6, in<7, masked, target>, masked_of_bytes>>;

constexpr bool lossless =
    diffusion::composition<in<1, in<5, masked, masked_of_bytes>, shifted>,
                           diffusion::order::confidence, in<2, sampled, masked>,
                           diffusion::verifier::stepwise_exact, in<3, drafts, length::fixed>,
                           random_source<>, in<4, executor::host, runner>>::lossless &&
    shifted::reads_on_host;
static_assert(lossless);
