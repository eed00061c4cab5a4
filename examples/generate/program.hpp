// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>

#include <engine/model.hpp>
#include <engine/quantised_target.hpp>
#include <engine/streams.hpp>
#include <hunch/hunch.hpp>
#include <hunch/tools/layout_file.hpp>
#include <hunch/tools/made_for.hpp>
#include <hunch/tools/router_weights.hpp>

#include "generate/arguments.hpp"
#include "generate/composed.hpp"
#include "generate/draft_length.hpp"
#include "generate/measure.hpp"
#include "generate/ranks.hpp"
#include "generate/session.hpp"
#include "generate/shapes.hpp"

namespace generate {

/// Text from a target on the host, plain and speculative. Which policies are composed is chosen by
/// flags among a few types; each kind of drafter is a source file, so that they compile side by
/// side.
class program {
 public:
  explicit program(const arguments& a);

  /// What flags ask for: text, plain and speculative, and a report.
  void run();

  /// Hands the composition that flags ask for to `use`; it ends with that call. Not where they ask
  /// for plain decoding.
  void compose(const std::function<void(composed&)>& use);

 private:
  void without_drafter();
  void with_model();
  void with_quantised_target();
  void with_eagle();
  void with_early_eagle(engine::eagle_model& draft, const any_selector& selector);
  void with_early_exit();
  void with_medusa();
  void with_streaming();
  void with_pruned_streams(engine::speculative_streams& streams, const any_selector& selector);
  void with_lookup();
  void with_ensemble();
  void with_cascade();

  /// An EAGLE head, and what chooses its rows.
  struct chosen_eagle {
    engine::eagle_model head;
    any_selector selector;

    /// Whether a router reads what is known before the head's pass.
    bool is_early() const { return selector.context_width() == head.input_width(); }
  };
  chosen_eagle eagle_head();
  any_selector selector_of(engine::eagle_model& head);

  /// Whether what drafts is the target, in fewer bits.
  bool drafts_with_target() const;
  engine::quantised_target target_in_four_bits();

  engine::model_options options() const;
  hunch::decoder_options sizes() const;
  /// Of a head that drafts; the most frequent tokens where clusters are asked for and none are its
  /// own. What it chooses by is the program's.
  /// \param context_width, early_width as `load_clusters` takes them.
  any_selector chosen_selector(const hunch::made_for& head, std::int32_t context_width,
                               std::int32_t early_width = 0);

  /// make(tree) is a drafter of such trees by a model whose head is over `selector`'s shortlists.
  /// \tparam Chain the longest chain.
  template <class Chain = chain_shape, class Make>
  void over_trees(const any_selector& selector, Make&& make) {
    with_tree<Chain>(args_.tree, [&](auto tree) {
      if constexpr (decltype(tree)::children == hunch::child_law::ranked) {
        ranked(selector, make(tree));
      } else {
        drawn(selector, make(tree));
      }
    });
  }

  /// Drafts with a law, by every rule that takes them.
  template <class Drafter>
  void drawn(const any_selector& selector, Drafter drafter) {
    using namespace hunch;
    switch (args_.verifier) {
      case verifier_kind::rejection:
        return both(selector, std::move(drafter), text_sampler{}, verifier::rejection{});
      case verifier_kind::coupled:
        return both(selector, std::move(drafter), text_sampler{}, verifier::coupled{});
      case verifier_kind::point_mass:
        return both(selector, std::move(drafter), text_sampler{}, verifier::point_mass{});
      case verifier_kind::greedy:
        return both(selector, std::move(drafter), sampler::greedy{}, verifier::greedy{});
      case verifier_kind::block:
        if constexpr (Drafter::is_chain) {
          return both(selector, std::move(drafter), text_sampler{}, verifier::block{});
        }
    }
  }

  /// Drafts without.
  template <class Drafter>
  void ranked(const any_selector& selector, Drafter drafter) {
    using namespace hunch;
    if (args_.verifier == verifier_kind::coupled) {
      return both(selector, std::move(drafter), text_sampler{}, verifier::coupled{});
    }
    if (args_.verifier == verifier_kind::greedy) {
      return both(selector, std::move(drafter), sampler::greedy{}, verifier::greedy{});
    }
    both(selector, std::move(drafter), text_sampler{}, verifier::point_mass{});
  }

  /// Plain decoding by the same laws, and the drafter's, for what `compose` was given.
  template <class Drafter, class S, class V>
  void both(const any_selector& selector, Drafter drafter, S sampler, V verifier) {
    using namespace hunch;
    decoder plain{part_.target(),    drafter::none{}, selector::full{target_.vocab_size()},
                  sampler,           verifier,        sizes(),
                  random_source<>{}, part_.where()};
    decoder speculative{part_.target(),    std::move(drafter), any_selector(selector),
                        sampler,           verifier,           sizes(),
                        random_source<>{}, part_.where()};
    static_assert(decltype(speculative)::lossless);
    composed_of of(plain, speculative, length_);
    use_(of);
  }

  /// Runs what is composed, and reports.
  void report_both(composed& of);

  arguments args_;
  std::function<void(composed&)> use_;
  engine::model target_;
  target_part part_;
  session session_;
  any_length length_;
  std::optional<hunch::router::quantised> router_;
};

}  // namespace generate
