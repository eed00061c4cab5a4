// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <cstdint>
#include <limits>
#include <type_traits>
#include <utility>

namespace hunch {

/// What a length policy is given of the draft of one sequence when a level has been drawn.
///
/// Where tokens are drawn from point masses, at temperature 0, "the law" is that of the same logits
/// at temperature 1: a point mass says nothing (see `kernel::law_at_temperature_one`).
struct length_evidence {
  std::int32_t depth = 0;    ///< levels drafted so far in this step; 1 or more unless `ahead`
  double probability = 1.0;  ///< of the newest token under the law that it was drawn from; in a
                             ///< tree, of the most probable one of the newest nodes
  double reach = 1.0;        ///< the product of these probabilities along the path to it
  double entropy = 0.0;      ///< of that law, in nats; only if the policy needs it
  std::int32_t rows = 0;     ///< that the target will have of this sequence so far; those of others
                             ///< are left out, so that a text does not depend on them
  std::int32_t max_rows = std::numeric_limits<std::int32_t>::max();  ///< however deep it drafts
  bool drawn = false;  ///< by chance; else chosen as the most probable
  bool ahead = false;  ///< the probability is that of the token that would be drafted next, which
                       ///< is known where drafts are copied: then even before the first level, and
                       ///< a level costs no more than its row
  bool contested = false;  ///< where nothing is drafted another drafter drafts
};

/// Decides, level by level, how deep a draft is. A policy holds parameters only; what it learns of
/// a sequence is in a memory that the drafter keeps for it. Bodies call it, by one rank of a team:
/// for a CUDA executor its functions are HUNCH_HOST_DEVICE, and what they add up is written so that
/// it is rounded alike everywhere (see core/arithmetic.hpp).
///
/// 1. `L` and `L::memory` are trivially copyable; a new sequence begins with a default-constructed
///    memory.
/// 2. `l.begin(memory, max_depth)`, for max_depth >= 1, opens a step: draft at most so many levels
///    in it, in [0, max_depth].
/// 3. `l.continues(memory, evidence)` is asked after each drawn level, if another one may be drawn,
///    and before the first one where the evidence is of what comes: whether it is.
///    `L::needs_entropy` says whether it looks at the entropy, which costs a pass over the row.
/// 4. `l.observe(memory, drafted, accepted)` closes the step: of `drafted` levels, `accepted` were
///    accepted. Only here does a policy learn; it does not throw. A step that is not observed is
///    repeated with `begin`.
/// 5. `l.refresh()`, if there is one, is called by the host before it launches bodies that have a
///    copy of `l`: there it takes what the host's clock has taught.
///
/// Exactness: a policy may use laws, and tokens that are drawn with their probabilities, of levels
/// that are drawn; never anything of a value that is not drawn yet, or that is drawn but has not
/// been taken into the draft. It decides whether to draw again, never whether to keep what was
/// drawn. Then verification is exact, whatever it decides.
///
/// Not required: that it learns, or that it looks at the evidence.
template <class L>
concept LengthPolicy = std::is_trivially_copyable_v<L> &&
    std::is_trivially_copyable_v<typename L::memory> &&
    std::default_initializable<typename L::memory> &&
    requires(const L& l, std::int32_t n, const length_evidence& evidence) {
  {std::bool_constant<L::needs_entropy>{}};
  { l.begin(std::declval<typename L::memory&>(), n) } -> std::same_as<std::int32_t>;
  { l.continues(std::declval<typename L::memory&>(), evidence) } -> std::same_as<bool>;
  { l.observe(std::declval<typename L::memory&>(), n, n) }
  noexcept;
};

namespace length {

/// Whether a policy is taught by the host's clock, by `static constexpr bool needs_clock = true`.
template <LengthPolicy L>
inline constexpr bool needs_clock = requires {
  requires L::needs_clock;
};

}  // namespace length
}  // namespace hunch
