// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <stdexcept>

#include <hunch/core/config.hpp>
#include <hunch/core/message.hpp>
#include <hunch/core/types.hpp>
#include <hunch/decoder/sequence.hpp>
#include <hunch/diffusion/canvas/detail/canvas_rows.hpp>
#include <hunch/diffusion/canvas/masked_model.hpp>
#include <hunch/diffusion/canvas/position_digest.hpp>
#include <hunch/diffusion/canvas/running_canvas.hpp>
#include <hunch/diffusion/canvas/unmasking.hpp>
#include <hunch/diffusion/drafter/detail/draft_sets.hpp>
#include <hunch/diffusion/verifier/verifier.hpp>
#include <hunch/diffusion/verifier/verify_unmaskings.hpp>
#include <hunch/executor/executor.hpp>
#include <hunch/executor/owned_arrays.hpp>
#include <hunch/team/few.hpp>
#include <hunch/team/list_by_slot.hpp>
#include <hunch/team/team.hpp>

namespace hunch::diffusion {

/// What the host knows of a pass before it is made: so many there are at most.
struct pass_bounds {
  std::int32_t canvases = 0;
  std::int32_t tokens = 0;
  std::int32_t wanted = 0;
};

/// The canvases of a slot in a pass.
struct slot_canvases {
  std::int32_t count = 0;
  std::int32_t first = 0;   ///< in the pass
  std::int32_t wanted = 0;  ///< positions, of all of them
};

/// The arrays of a pass of one model: canvases, the positions that are wanted of them, and what its
/// logits say about these. Canvases stand one after the other by slot, padding behind them. A
/// trivially copyable view.
/// \tparam Digests a `position_digests`.
template <class Digests>
struct pass_arrays {
  using real = typename Digests::real;
  using view_type = drafts_view<Digests>;

  canvas_arrays rows;
  std::int32_t padded = 0;                ///< canvases are padded up to it; 0: not
  slot_canvases* of = nullptr;            ///< [max_batch]
  canvas_positions* positions = nullptr;  ///< of each canvas
  canvas_positions* none = nullptr;       ///< [1] those of no canvas
  wanted_position* wanted = nullptr;
  position_digest<real>* made = nullptr;  ///< of each wanted position
  row_view<real>* logits = nullptr;       ///< likewise
  view_type* views = nullptr;             ///< [max_batch]
  std::int32_t* counts = nullptr;         ///< [3] canvases, tokens, wanted positions
  const std::uint64_t* sets = nullptr;    ///< [max_batch, set_stride] drafts on each canvas
  std::int32_t set_stride = 0;
  const unmasking* drafts = nullptr;  ///< [max_batch, draft_sets::most]

  HUNCH_HOST_DEVICE const std::uint64_t* sets_of(std::int32_t slot) const {
    return sets + static_cast<std::int64_t>(slot) * set_stride;
  }
  HUNCH_HOST_DEVICE const unmasking* drafts_of(std::int32_t slot) const {
    return drafts + static_cast<std::int64_t>(slot) * draft_sets::most;
  }
};

/// Owns these arrays, with a capacity fixed at construction.
/// \tparam M the memory of a step, see `step_memory`.
template <class Digests, class M>
class canvas_pass {
 public:
  using real = typename Digests::real;
  using arrays_type = pass_arrays<Digests>;

  /// \param batch requests in a pass at most. \param canvases of each. \param length positions of
  /// a canvas. \param passes that may be under way at the same time.
  canvas_pass(M& memory, std::int32_t batch, std::int32_t canvases, std::int32_t length,
              std::int32_t passes = 1)
      : owned_(memory), most_(std::int64_t{batch} * canvases * length) {
    made_.rows = canvas_arrays::make(owned_, batch * canvases, length);
    owned_.give(batch, made_.of, made_.views);
    owned_.give(std::int64_t{batch} * canvases, made_.positions);
    owned_.give(1, made_.none);
    owned_.give(most_, made_.wanted, made_.made);
    owned_.give_host_written(most_ * passes, made_.logits);
    owned_.give(3, made_.counts);
    std::fill_n(made_.logits, most_ * passes, row_view<real>{});
  }

  arrays_type arrays(std::int32_t padded, const std::uint64_t* sets, std::int32_t set_stride,
                     const unmasking* drafts, std::int32_t pass = 0) const {
    arrays_type of = made_;
    of.padded = padded;
    of.logits = logits(pass);
    of.sets = sets;
    of.set_stride = set_stride;
    of.drafts = drafts;
    return of;
  }

  /// What has been placed. Waits for the executor where the host reads how much it is.
  canvases view(M& memory, const pass_bounds& most) const {
    const std::int32_t* const counts = made_.counts;
    const std::int32_t size = known_count(memory, counts, most.canvases);
    return made_.rows.view(size, known_count(memory, counts + 1, most.tokens),
                           known_count(memory, counts + 2, most.wanted));
  }

  /// Takes the logits of a pass over `asked`, and makes the digests of all wanted positions where
  /// there are teams to spare; other digests are made when they are first read. Does not wait.
  /// \param fixed whether the logits must lie where they lay in the last pass of this number.
  /// \throws std::logic_error if they do not.
  template <class Evaluation>
  void take(M& memory, const canvases& asked, Evaluation& evaluation, [[maybe_unused]] bool fixed,
            std::int32_t pass = 0) {
    row_view<real>* const known = logits(pass);
    for (std::int32_t i = 0; i < asked.wanted_count; ++i) {
      const row_view<real> row = evaluation.logits(i);
      if constexpr (!host_reads<M>) {
        if (fixed && known[i].data != nullptr && known[i].data != row.data) {
          throw std::logic_error(
              message({"hunch: a masked model's logits of row ", i,
                       " have moved; in a loop that is repeated they lie at the same address in "
                       "every pass"}));
        }
      }
      known[i] = row;
    }
    const kernel::digest_positions<drafts_view<Digests>> digest{.views = made_.views,
                                                                .count = made_.counts + 2};
    if (teams_at_once(memory, digest) > 1) { memory.launch(asked.wanted_count, digest); }
  }

 private:
  row_view<real>* logits(std::int32_t pass) const { return made_.logits + pass * most_; }

  owned_arrays<M> owned_;
  std::int64_t most_;  ///< wanted positions
  arrays_type made_;   ///< but for what varies from pass to pass
};

}  // namespace hunch::diffusion

namespace hunch::kernel {

/// Goes over the wanted positions of a canvas: the masks of its first block with masks, and of more
/// blocks until there are `enough`.
struct wanted_masks {
  const token* tokens;
  token mask_token;
  std::int32_t enough;

  /// Calls note(position, block, index) for each; returns how many there are.
  template <class Note>
  HUNCH_HOST_DEVICE diffusion::canvas_positions visit(const diffusion::running_canvas& c,
                                                      const Note& note) const {
    diffusion::canvas_positions found;
    for (std::int32_t at = c.state.filled; at < c.length && found.count < enough;) {
      const std::int32_t block = c.block_of(at);
      for (const std::int32_t end = c.end_of_block(at); at < end; ++at) {
        if (tokens[at] != mask_token) { continue; }
        note(at, block, found.count);
        ++found.count;
      }
      if (found.front == 0) { found.front = found.count; }
    }
    return found;
  }
};

/// Places the canvases of slot `slot`, `pass.of[slot].count` of them: its text, with a set of
/// drafts filled in.
template <class Digests>
struct place_canvases {
  diffusion::pass_arrays<Digests> pass;
  const sequence* sequences;                  ///< [slots]
  const diffusion::running_canvas* canvases;  ///< [slots]
  std::int32_t slots;
  token mask_token;
  std::int32_t enough;  ///< wanted positions of a canvas
  bool caches_blocks;
  bool for_drafts;  ///< the pass is the draft model's

  template <Team T>
  HUNCH_HOST_DEVICE void operator()(T& team, std::int32_t slot) const {
    const place_canvases self = *this;
    const std::int32_t first =
        team::sum_of_few(team, slot, [=](std::int32_t i) { return self.pass.of[i].count; });
    const std::int32_t before = team::sum_of_few(
        team, slot, [=](std::int32_t i) { return self.pass.of[i].count * self.length(i); });
    const std::int32_t count = pass.of[slot].count;
    const diffusion::running_canvas& c = canvases[slot];
    const std::int32_t positions = length(slot);
    const token* const text = sequences[slot].text;
    for (std::int32_t i = 0; i < count; ++i) {
      token* const tokens = pass.rows.tokens + before + i * positions;
      team.for_each(positions, [=](std::int64_t at) { tokens[at] = text[at]; });
    }
    team.for_each(count, [=, &c](std::int64_t at) {
      const auto i = static_cast<std::int32_t>(at);
      token* const tokens = self.pass.rows.tokens + before + i * positions;
      const diffusion::unmasking* draft = self.pass.drafts_of(slot);
      for (std::uint64_t set = self.pass.sets_of(slot)[i]; set != 0; set >>= 1, ++draft) {
        if ((set & 1) != 0) { tokens[draft->position] = draft->t; }
      }
      const std::int32_t known = c.known();
      self.pass.rows.set(first + i, {.slot = slot,
                                     .first = before + i * positions,
                                     .known = known,
                                     .block_end = c.end_of_block(known),
                                     .opens = self.caches_blocks && c.opened != known,
                                     .begins = self.for_drafts ? c.draft_begins : c.begins});
      self.pass.positions[first + i] =
          self.masks(tokens).visit(c, [](std::int32_t, std::int32_t, std::int32_t) {});
    });
    const std::int32_t wanted = team::sum_of_few(
        team, count, [=](std::int32_t i) { return self.pass.positions[first + i].count; });
    if (slot + 1 == slots) {
      const std::int32_t end = first + count;
      const std::int32_t tokens = before + count * positions;
      team.for_each(pass.padded > end ? pass.padded - end : 0, [=](std::int64_t i) {
        self.pass.rows.pad(end + static_cast<std::int32_t>(i), tokens);
      });
      if (team.rank() == 0) {
        pass.rows.first[end < pass.padded ? pass.padded : end] = tokens;
        pass.counts[0] = end;
        pass.counts[1] = tokens;
        *pass.none = {};
      }
    }
    if (team.rank() == 0) {
      pass.of[slot].first = first;
      pass.of[slot].wanted = wanted;
    }
  }

  HUNCH_HOST_DEVICE wanted_masks masks(const token* tokens) const {
    return {.tokens = tokens, .mask_token = mask_token, .enough = enough};
  }

 private:
  HUNCH_HOST_DEVICE std::int32_t length(std::int32_t slot) const {
    return pass.of[slot].count == 0 ? 0 : canvases[slot].length;
  }
};

/// After it: lists the positions that are wanted of the canvases of slot `slot`, and shows them to
/// who decides.
template <class Digests>
struct place_wanted {
  place_canvases<Digests> placed;
  diffusion::drafts_view<Digests> view;  ///< of any slot, but for what belongs to it
  const std::int32_t* proposed;    ///< [slots] different drafts of each; nullptr: none are verified
  diffusion::unmasking* accepted;  ///< [slots, stride] out, by verifiers
  std::int32_t stride;

  template <Team T>
  HUNCH_HOST_DEVICE void operator()(T& team, std::int32_t slot) const {
    const diffusion::pass_arrays<Digests> pass = placed.pass;
    const std::int32_t first =
        team::sum_of_few(team, slot, [=](std::int32_t i) { return pass.of[i].wanted; });
    const diffusion::slot_canvases of = pass.of[slot];
    const place_wanted self = *this;
    team.for_each(of.count, [=](std::int64_t at) {
      const auto i = static_cast<std::int32_t>(at);
      const std::int32_t canvas = of.first + i;
      std::int32_t begin = first;
      for (std::int32_t before = 0; before < i; ++before) {
        begin += pass.positions[of.first + before].count;
      }
      pass.rows.first_wanted[canvas] = begin;
      pass.positions[canvas].first = begin;
      self.placed.masks(pass.rows.tokens + pass.rows.first[canvas])
          .visit(self.placed.canvases[slot], [=](std::int32_t position, std::int32_t block,
                                                 std::int32_t index) {
            pass.rows.wanted[begin + index] = position;
            pass.wanted[begin + index] = {.position = position, .block = block, .slot = slot};
            pass.made[begin + index] = {};
          });
    });
    if (slot + 1 == placed.slots) {
      const std::int32_t end = of.first + of.count;
      const std::int32_t wanted = first + of.wanted;
      team.for_each(1 + (pass.padded > end ? pass.padded - end : 0), [=](std::int64_t i) {
        pass.rows.first_wanted[end + static_cast<std::int32_t>(i)] = wanted;
      });
      if (team.rank() == 0) { pass.counts[2] = wanted; }
    }
    if (team.rank() == 0) { show(slot, of); }
  }

 private:
  /// By one rank.
  HUNCH_HOST_DEVICE void show(std::int32_t slot, const diffusion::slot_canvases& of) const {
    const diffusion::pass_arrays<Digests>& pass = placed.pass;
    diffusion::drafts_view<Digests>& shown = pass.views[slot];
    shown = view;
    shown.canvases = of.count == 0 ? pass.none : pass.positions + of.first;
    if (of.count > 0) {
      shown.digests.parameters = placed.sequences[slot].parameters;
      shown.digests.seed = placed.sequences[slot].seed;
    }
    if (proposed != nullptr) {
      shown.drafted = of.count == 0 ? 0 : of.count - 1;
      shown.proposed = proposed[slot];
      shown.drafts = pass.drafts_of(slot);
      shown.sets = pass.sets_of(slot);
      shown.accepted = accepted + static_cast<std::int64_t>(slot) * stride;
    }
  }
};

}  // namespace hunch::kernel
