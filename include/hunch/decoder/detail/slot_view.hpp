// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <cstring>
#include <type_traits>

#include <hunch/core/opaque.hpp>
#include <hunch/decoder/detail/step_arrays.hpp>
#include <hunch/decoder/inbox.hpp>
#include <hunch/distribution/law.hpp>
#include <hunch/draft/draft_tree.hpp>
#include <hunch/team/sharded.hpp>
#include <hunch/verifier/verifier.hpp>
#include <hunch/verifier/verify_rows.hpp>

/// \file
/// What a verifier sees of one slot of a step. Everything is found when it is read: on a device the
/// addresses of it all would lie in registers beside what a rule does.

namespace hunch::kernel {

/// An array of the nodes of a slot.
template <class T>
struct slot_array {
  T* const* all = nullptr;  ///< where the pointer to the nodes of all slots is
  std::int32_t first = 0;   ///< node of the slot among them

  HUNCH_HOST_DEVICE T& operator[](std::int32_t node) const { return (*all)[opaque(first) + node]; }
};

/// The target's rows of slot `slot`.
template <class Real, std::int32_t N>
struct slot_rows {
  const step_arrays<Real, N>* step = nullptr;
  std::int32_t slot = 0;

  HUNCH_HOST_DEVICE target_row<Real> operator[](std::int32_t node) const {
    const std::int32_t at = opaque(slot);
    const step_plan& plan = step->plans[at];
    const draft_context& c = step->contexts[at];
    return {step->logits[plan.first_row + plan.prefix + node], c.parameters,
            step->trees.history(at, c, node, nullptr)};
  }
};

/// What other ranks hold of these rows: of each drafted token its logit in the row before it; and
/// what was exchanged for their laws, the sums of groups, so that a draw exchanges nothing for
/// them.
template <class Real, std::int32_t N>
class slot_told {
 public:
  slot_told() = default;
  HUNCH_HOST_DEVICE slot_told(const step_arrays<Real, N>* of, std::int32_t at)
      : step_(of), slot_(at) {}

  HUNCH_HOST_DEVICE team::told_elements of(std::int32_t node, row_view<Real> row) const {
    const std::int32_t first = slot_ * N;
    return {.row = row.data,
            .element_bytes = sizeof(Real),
            .tokens = step_->trees.tokens + first,
            .parents = step_->trees.parents + first,
            .node = node,
            .nodes = step_->trees.count(slot_),
            .to = step_->told + first};
  }
  /// Keeps the sums of the law of a node that the team has just made, if it remembers them.
  template <Team T>
  HUNCH_HOST_DEVICE void keep_sums(T& team, std::int32_t node, const law<Real>& l) const {
    double* const to = sums(node);
    const double* const groups = team.scratch().groups;
    const bool remembers = l.status == status::ok && team.last_sum() == l.remembered_as();
    team.for_each(step_->groups, [=](std::int64_t g) { to[g] = remembers ? groups[g] : none; });
  }
  /// Has the team remember them again.
  template <Team T>
  HUNCH_HOST_DEVICE void recall_sums(T& team, std::int32_t node, const law<Real>& l) const {
    const double* const from = sums(node);
    if (l.status != status::ok || from[0] == none) { return; }
    double* const groups = team.inner().own().groups;
    team.for_each(step_->groups, [=](std::int64_t g) { groups[g] = from[g]; });
    team.remember(l.remembered_as());
  }

  /// What the rule has asked of a node ahead; nullptr: nothing.
  HUNCH_HOST_DEVICE const std::uint64_t* ahead(std::int32_t node) const {
    return step_->looks_ahead ? step_->ahead + slot_ * N + node : nullptr;
  }
  HUNCH_HOST_DEVICE Real logit(std::int32_t child) const {
    const std::uint64_t bits = step_->told[slot_ * N + child];
    Real x;
    std::memcpy(&x, &bits, sizeof x);
    return x;
  }

 private:
  static constexpr double none = -1.0;  // no sum of weights

  HUNCH_HOST_DEVICE double* sums(std::int32_t node) const {
    return step_->sums + (std::int64_t{slot_} * N + node) * step_->groups;
  }

  const step_arrays<Real, N>* step_ = nullptr;
  std::int32_t slot_ = 0;
};

template <class Real, class S, std::int32_t N, bool SpansRanks>
using slot_laws = sampled_laws<Real, S, slot_rows<Real, N>, slot_array<law<Real>>,
                               std::conditional_t<SpansRanks, slot_told<Real, N>, nothing_told>>;

/// As `stored_drafts`.
template <class Real, bool OneRange>
struct slot_drafts {
  static constexpr bool is_one_range = OneRange;
  slot_array<law<Real>> laws;
  slot_array<shortlist> lists;
};

/// As `drafted_tokens`, or `chain_tokens`.
template <bool IsChain>
struct slot_tokens : token_tree<slot_array<token>, slot_array<std::int32_t>> {
  static constexpr bool is_chain = IsChain;

  HUNCH_HOST_DEVICE std::int32_t next_child(std::int32_t node, std::int32_t after) const {
    if constexpr (IsChain) {
      return next_of_chain(this->count, node, after);
    } else {
      return token_tree<slot_array<token>, slot_array<std::int32_t>>::next_child(node, after);
    }
  }
};

/// The seed of the request of a slot.
struct slot_seed {
  const inbox_view* in = nullptr;
  std::int32_t slot = 0;

  HUNCH_HOST_DEVICE operator std::uint64_t() const { return in->all[opaque(slot)].seed; }
};
/// The length of its text.
struct slot_length {
  const inbox_view* in = nullptr;
  std::int32_t slot = 0;

  HUNCH_HOST_DEVICE operator std::uint32_t() const {
    return static_cast<std::uint32_t>(in->all[opaque(slot)].length);
  }
};

/// \tparam N nodes of a tree, at most. \tparam IsChain see `is_chain_tree`. \tparam OneRange see
///         `has_one_range`. \tparam SpansRanks whether rows are divided among ranks.
template <class Real, class S, std::int32_t N, bool IsChain, bool OneRange, bool SpansRanks = false>
using slot_view = verify_view<slot_laws<Real, S, N, SpansRanks>, slot_drafts<Real, OneRange>,
                              slot_tokens<IsChain>, slot_seed, slot_length>;

}  // namespace hunch::kernel
