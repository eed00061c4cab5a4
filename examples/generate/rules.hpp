// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <hunch/draft/draft_tree.hpp>
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
/// which need one. use(sampler, verifier) is called with what is asked for.
struct all_rules {
  using sampler =
      hunch::sampler::pipeline<hunch::sampler::penalties, hunch::sampler::temperature,
                               hunch::sampler::top_k, hunch::sampler::top_p, hunch::sampler::min_p>;

  /// Of what such a drafter drafts. \tparam Drafter models `hunch::Drafter`.
  template <class Drafter, class Use>
  static void drafts(const arguments& a, Use&& use) {
    using namespace hunch::verifier;
    if constexpr (Drafter::children != hunch::child_law::ranked) {
      if (a.verifier == verifier_kind::rejection) { return use(sampler{}, rejection{}); }
      if constexpr (Drafter::is_chain) {
        if (a.verifier == verifier_kind::block) { return use(sampler{}, block{}); }
      }
    }
    coupled_or_greedy(a, use, point_mass{});
  }

  /// Of plain decoding. Without a draft there is nothing to judge: all rules but these two are one.
  template <class Use>
  static void plain(const arguments& a, Use&& use) {
    coupled_or_greedy(a, use, hunch::verifier::rejection{});
  }

 private:
  template <class Use, class Verifier>
  static void coupled_or_greedy(const arguments& a, Use&& use, Verifier otherwise) {
    using namespace hunch::verifier;
    if (a.verifier == verifier_kind::coupled) { return use(sampler{}, coupled{}); }
    if (a.verifier == verifier_kind::greedy) { return use(hunch::sampler::greedy{}, greedy{}); }
    use(sampler{}, otherwise);
  }
};

}  // namespace generate
