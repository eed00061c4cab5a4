// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <engine/model.hpp>
#include <hunch/executor/host.hpp>
#include <hunch/length/step_summary.hpp>
#include <hunch/selector/any.hpp>

#if defined(HUNCH_GENERATE_RANKS)
#include <hunch/collective/mpi.hpp>
#include <hunch/collective/vocab_shards.hpp>
#include <hunch/executor/sharded.hpp>
#include <hunch/model/sharded_target.hpp>
#endif

/// \file
/// Where `generate` decodes: in one process, or, in the program generate_ranks, in one of several,
/// each of which computes and verifies the logits of a part of the vocabulary. All else, layers,
/// caches and drafts, each of them does for itself.

namespace generate {

#if defined(HUNCH_GENERATE_RANKS)

/// The processes that `mpirun` has started. Set by `main` before anything else is made.
inline hunch::collective::mpi* ranks = nullptr;

using step_executor = hunch::executor::sharded<hunch::collective::mpi>;

/// The part of a target that this process has.
class target_part {
 public:
  explicit target_part(engine::model& whole)
      : shards_(shards_of(whole.vocab_size())), target_(part_of(whole), *ranks, shards_) {}

  auto& target() { return target_; }
  step_executor where() { return step_executor(*ranks, shards_); }

 private:
  static hunch::vocab_shards shards_of(std::int32_t vocab_size) {
    const auto own = hunch::vocab_shards::whole_tiles(vocab_size, ranks->size(), ranks->rank());
    return {*ranks, static_cast<std::int32_t>(own.begin), static_cast<std::int32_t>(own.end),
            vocab_size};
  }
  engine::model& part_of(engine::model& whole) const {
    whole.set_logit_range(shards_.first(ranks->rank()), shards_.end(ranks->rank()));
    return whole;
  }

  hunch::vocab_shards shards_;
  hunch::sharded_target<engine::model&, hunch::collective::mpi> target_;
};

/// What a step took, by the slowest: what depends on it is the same on all.
inline hunch::step_summary agreed(hunch::step_summary step) {
  double seconds[] = {step.draft_seconds, step.target_seconds, step.verify_seconds};
  hunch::all_reduce(*ranks, seconds, 3, [](double a, double b) { return a > b ? a : b; });
  step.draft_seconds = seconds[0];
  step.target_seconds = seconds[1];
  step.verify_seconds = seconds[2];
  return step;
}

#else

using step_executor = hunch::executor::host;

class target_part {
 public:
  explicit target_part(engine::model& whole) : target_(&whole) {}

  engine::model& target() { return *target_; }
  static step_executor where() { return {}; }

 private:
  engine::model* target_;
};

inline const hunch::step_summary& agreed(const hunch::step_summary& step) { return step; }

#endif

using any_selector = hunch::selector::any<float, step_executor>;

}  // namespace generate
