// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include <hunch/distribution/detail/token_set.hpp>
#include <hunch/distribution/detail/without.hpp>
#include <hunch/distribution/law.hpp>
#include <hunch/distribution/random.hpp>
#include <hunch/sampler/sampler.hpp>
#include <hunch/team/team.hpp>
#include <hunch/vocab/vocab_layout.hpp>

namespace hunch {

/// How a draft token is drawn: by its own random word, or with the noise that a verifier shares.
/// \tparam SharesNoise `V::shares_noise` of the verifier.
template <RandomSource Random, bool SharesNoise>
struct child_draw {
  static_assert(!SharesNoise || NoiseSource<Random>,
                "hunch: a verifier that shares its noise with the drafter needs a random source "
                "with noisy_argmax, such as hunch::random_source<hunch::philox>");
  Random random;

  /// The position in `list` of a draw from q for the text position `position`, or -1.
  template <Team T, class Real>
  HUNCH_HOST_DEVICE std::int32_t operator()(T& team, const address& where, std::uint32_t position,
                                            const law<Real>& q, const shortlist& list) const {
    if constexpr (SharesNoise) {
      return list.position_of(
          random.noisy_argmax(team, noise_address(where.seed, position), q, list));
    } else {
      return static_cast<std::int32_t>(random.categorical(team, where, q.size(), weights_of{q}));
    }
  }

  /// Likewise without the positions `drawn`, by a word of its own: -1 where nothing else is left.
  template <Team T, class Real>
  HUNCH_HOST_DEVICE HUNCH_INLINE_ON_DEVICE std::int32_t operator()(
      T& team, const address& where, const law<Real>& q, const kernel::token_set& drawn) const {
    return static_cast<std::int32_t>(
        random.categorical(team, where, q.size(), kernel::weights_without{q, drawn}));
  }
};

namespace kernel {

/// One row of draft logits and where its law and the children drawn from it go. The sampler may
/// edit the logits; then they stay as they are for as long as the law, a view of them, is used.
template <class Real>
struct draft_row {
  row_view<Real> logits;  ///< [list.size] over `list`
  shortlist list;
  sampling_parameters parameters;
  row_history history;         ///< its `list` points to the same one
  address where;               ///< of the first child; later ones have their number as `sibling`
  std::uint32_t position = 0;  ///< in the text, of the token that is drawn
  law<Real>* drawn_from = nullptr;   ///< out
  std::int32_t* drawn_at = nullptr;  ///< [count] out: positions in `list`, -1 with `no_token`
  token* drawn = nullptr;            ///< [count] out: no_token if the row has an error, and where
                                     ///< nothing is left to draw
  std::int32_t count = 1;            ///< children, at most `MaxChildren`
};

namespace detail {

template <class Real, Team T>
HUNCH_HOST_DEVICE void put_child(T& team, const draft_row<Real>& row, std::int32_t sibling,
                                 std::int32_t at) {
  if (team.rank() != 0) { return; }
  row.drawn_at[sibling] = at;
  row.drawn[sibling] = at < 0 ? no_token : row.list.token_at(at);
}

}  // namespace detail

/// Makes the law of a draft row and draws its children, one after the other and each without the
/// ones before. Collective. Lossless with every lossless verifier that accepts such children:
/// independent if there is one, else drawn without replacement. (Jeon et al. 2024,
/// arXiv:2402.14160; Sequoia: Chen et al. 2024, arXiv:2402.12374)
/// \tparam MaxChildren of a row at most. \param draw a `child_draw`.
template <std::int32_t MaxChildren, class Real, class S, class Draw, Team T>
HUNCH_HOST_DEVICE HUNCH_INLINE_ON_DEVICE void draw_row(T& team, const S& sampler, const Draw& draw,
                                                       const draft_row<Real> row) {
  static_assert(MaxChildren <= max_siblings, "hunch: a node has at most 64 drawn children");
  const law<Real> q = sampler(team, row.logits, row.parameters, row.history);
  const std::int32_t at =
      q.status == status::ok ? draw(team, row.where, row.position, q, row.list) : -1;
  if (team.rank() == 0) { *row.drawn_from = q; }
  detail::put_child(team, row, 0, at);
  if constexpr (MaxChildren > 1) {
    token_set drawn(team);
    std::int32_t last = at;
    HUNCH_ROLLED
    for (std::int32_t sibling = 1; sibling < row.count; ++sibling) {
      if (last >= 0) {
        drawn.add(team, last);
        address where = row.where;
        where.sibling = static_cast<std::uint32_t>(sibling);
        last = draw(team, where, q, drawn);
      }
      detail::put_child(team, row, sibling, last);
    }
  }
}

/// Draws the children of draft row `index`, see `draw_row`. One team per row.
template <class Real, class S, class Draw, std::int32_t MaxChildren = 1>
struct draw_children {
  const draft_row<Real>* rows;  ///< [rows]
  S sampler;
  Draw draw;
  static constexpr bool reads_rows = true;
  static constexpr int loads = team::loads_of<S>;

  template <Team T>
  HUNCH_HOST_DEVICE void operator()(T& team, std::int32_t index) const {
    draw_row<MaxChildren>(team, sampler, draw, rows[index]);
  }
};

}  // namespace kernel
}  // namespace hunch
