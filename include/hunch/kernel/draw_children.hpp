// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include <hunch/law.hpp>
#include <hunch/random.hpp>
#include <hunch/sampler/sampler.hpp>
#include <hunch/team/team.hpp>
#include <hunch/vocab_layout.hpp>

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
};

namespace kernel {

/// One row of draft logits and where its law and the child drawn from it go.
template <class Real>
struct draft_row {
  row_view<Real> logits;  ///< over `list`
  shortlist list;
  sampling_parameters parameters;
  row_history history;
  address where;
  std::uint32_t position = 0;        ///< in the text, of the token that is drawn
  law<Real>* drawn_from = nullptr;   ///< out
  std::int32_t* drawn_at = nullptr;  ///< out: position in `list`
  token* drawn = nullptr;            ///< out: no_token if the row has an error
};

/// Makes the law of draft row `index` and draws one child from it. One team per row.
template <class Real, class S, class Draw>
struct draw_children {
  const draft_row<Real>* rows;
  S sampler;
  Draw draw;
  static constexpr bool reads_rows = true;

  template <Team T>
  HUNCH_HOST_DEVICE void operator()(T& team, std::int32_t index) const {
    const draft_row<Real> row = rows[index];
    const law<Real> q = sampler(team, row.logits, row.parameters, row.history);
    const std::int32_t at =
        q.status == status::ok ? draw(team, row.where, row.position, q, row.list) : -1;
    if (team.rank() == 0) {
      *row.drawn_from = q;
      *row.drawn_at = at;
      *row.drawn = at < 0 ? no_token : row.list.token_at(at);
    }
  }
};

}  // namespace kernel
}  // namespace hunch
