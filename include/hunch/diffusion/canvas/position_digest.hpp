// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include <hunch/core/config.hpp>
#include <hunch/diffusion/canvas/unmasking.hpp>
#include <hunch/distribution/law.hpp>
#include <hunch/distribution/random.hpp>
#include <hunch/distribution/restrict.hpp>
#include <hunch/draft/draft_evidence.hpp>
#include <hunch/model/rows.hpp>
#include <hunch/sampler/sampler.hpp>
#include <hunch/team/team.hpp>

namespace hunch::diffusion {

/// What a row of logits says about its masked position: the token that it would get, and how soon.
/// Everything that a round decides is decided by these.
template <class Real>
struct position_digest {
  law<Real> sure;            ///< what the token was drawn from; of a point mass, the law of the
                             ///< same logits at temperature 1. Carries the row's error
  token chosen = no_token;   ///< never the mask token
  bool drawn = false;        ///< by chance: the law is no point mass
  double probability = 0.0;  ///< of the chosen token under `sure`
  double score = 0.0;        ///< by the order
};

/// A wanted position of a pass.
struct wanted_position {
  std::int32_t position = 0;
  std::int32_t block = 0;  ///< counted from the left
  std::int32_t slot = 0;   ///< of its request
};

/// The digests of the positions of a pass, each made when it is first read, and kept: logits
/// may be edited only once, and rows after a refused draft are never read.
///
/// The token of a position is the noisy argmax of its law with the noise of the position, see
/// `random.noisy_argmax`; so it is a function of the logits, the seed and the position.
template <class Real, class S, class O, class Random>
struct position_digests {
  const wanted_position* wanted = nullptr;  ///< [positions of the pass]
  const row_view<Real>* logits = nullptr;   ///< likewise
  position_digest<Real>* made = nullptr;    ///< likewise; begins with `unmade` elements
  sampling_parameters parameters;
  std::uint64_t seed = 0;
  token mask_token = no_token;
  S sampler;
  O order;
  Random random;

  using real = Real;

  /// A digest that has not been made.
  static constexpr position_digest<Real> unmade{};

  /// That of wanted position i. Collective.
  template <Team T>
  HUNCH_HOST_DEVICE HUNCH_INLINE_ON_DEVICE position_digest<Real> operator()(T& team,
                                                                            std::int32_t i) const {
    if (made[i].sure.logits.data == nullptr) {
      const position_digest<Real> d = digest(team, logits[i], wanted[i].position);
      team.sync();  // every rank has seen that it was not made
      if (team.rank() == 0) { made[i] = d; }
      team.sync();
    }
    return made[i];
  }

  /// What could be unmasked at wanted position i, whose digest has been made.
  HUNCH_HOST_DEVICE candidate candidate_at(std::int32_t i) const {
    return {.what = {.position = wanted[i].position, .t = made[i].chosen},
            .block = wanted[i].block,
            .score = made[i].score};
  }

 private:
  template <Team T>
  HUNCH_HOST_DEVICE HUNCH_INLINE_ON_DEVICE position_digest<Real> digest(
      T& team, row_view<Real> row, std::int32_t position) const {
    const bool masked = ban_mask(team, row);
    const law<Real> l = sampler(team, row, parameters, row_history{});
    position_digest<Real> d;
    if (l.status != status::ok) {
      d.sure = l;
      d.sure.logits = {row.data, row.size};
      if (masked && l.status == status::invalid_logits) {
        d.sure.status = kernel::whole_row(team, d.sure.logits, status::empty_support).status;
      }
      return d;
    }
    d.drawn = !is_point_mass(l);
    d.chosen = d.drawn ? random.noisy_argmax(
                             team, noise_address(seed, static_cast<std::uint32_t>(position)), l)
                       : l.last_kept;
    d.sure = kernel::law_at_temperature_one(team, l);
    d.probability = static_cast<double>(d.sure.prob(d.chosen));
    d.score = order.score(team, d.sure, d.chosen);
    return d;
  }

  /// Takes the mask token out of a row. Whether that took something away; a NaN or a +inf there
  /// stays, so that the row is seen to be broken.
  template <Team T>
  HUNCH_HOST_DEVICE bool ban_mask(T& team, row_view<Real> row) const {
    if (mask_token >= row.size) { return false; }
    constexpr auto infinity = kernel::infinity<real_of<Real>>;
    const auto x = to_real(row[mask_token]);
    if (!(x < infinity) || x == -infinity) { return false; }
    team.sync();  // every rank has read it
    if (team.rank() == 0) { row[mask_token] = to_logit<Real>(-infinity); }
    team.sync();
    return true;
  }

  /// Whether exactly one element is kept, and which is known.
  HUNCH_HOST_DEVICE static bool is_point_mass(const law<Real>& l) {
    return l.threshold >= l.maximum && l.norm == real_of<Real>(1) && l.last_kept < l.size();
  }
};

}  // namespace hunch::diffusion
