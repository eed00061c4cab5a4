// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <hunch/sampler/greedy.hpp>
#include <hunch/sampler/min_p.hpp>
#include <hunch/sampler/penalties.hpp>
#include <hunch/sampler/pipeline.hpp>
#include <hunch/sampler/temperature.hpp>
#include <hunch/sampler/top_k.hpp>
#include <hunch/sampler/top_p.hpp>
#include <hunch/verifier/block.hpp>
#include <hunch/verifier/coupled.hpp>
#include <hunch/verifier/greedy.hpp>
#include <hunch/verifier/point_mass.hpp>
#include <hunch/verifier/rejection.hpp>

#include "generate/arguments.hpp"

namespace generate {

/// Samplers and verifiers of loops that no host looks at, as the flags name them: without patterns,
/// which need one. use(sampler, verifier, the verifier of plain decoding) is called with what is
/// asked for. Without a draft there is nothing to judge, so that block verification needs no plain
/// decoding of its own.
struct all_rules {
  using sampler =
      hunch::sampler::pipeline<hunch::sampler::penalties, hunch::sampler::temperature,
                               hunch::sampler::top_k, hunch::sampler::top_p, hunch::sampler::min_p>;

  /// Of drafts with a law, which are chains.
  template <class Use>
  static void drawn(const arguments& a, Use&& use) {
    using namespace hunch::verifier;
    switch (a.verifier) {
      case verifier_kind::rejection:
        return use(sampler{}, rejection{}, rejection{});
      case verifier_kind::block:
        return use(sampler{}, block{}, rejection{});
      case verifier_kind::coupled:
      case verifier_kind::point_mass:
      case verifier_kind::greedy:
        return ranked(a, use);
    }
  }

  /// Of drafts without one.
  template <class Use>
  static void ranked(const arguments& a, Use&& use) {
    using namespace hunch::verifier;
    if (a.verifier == verifier_kind::coupled) { return use(sampler{}, coupled{}, coupled{}); }
    if (a.verifier == verifier_kind::greedy) {
      return use(hunch::sampler::greedy{}, greedy{}, greedy{});
    }
    return use(sampler{}, point_mass{}, rejection{});
  }
};

}  // namespace generate
