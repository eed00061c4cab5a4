// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <type_traits>

#include <hunch/distribution/restrict.hpp>
#include <hunch/sampler/sampler.hpp>

namespace hunch {

/// A stage of `sampler::pipeline` that scales or restricts a law.
///
/// 1. `stage(team, law, parameters)` changes the law's scalars; collective.
/// 2. `Stage::only_scales(parameters)` is whether the stage, with these values, changes nothing but
///    the law's scale, and that without a look at the row.
/// 3. `Stage::take(parameters)` is whether the stage's own fields are in range, and resets them to
///    their defaults: what is left away from its default after all stages is unsupported.
///
/// A stage that asks how much weight there is says so by `static constexpr bool asks_for_mass =
/// true`: where it is the first that restricts, the law comes to it summed.
///
/// Not required: to normalise; the pipeline does that once, after the last stage.
template <class S>
concept LawStage = std::copyable<S> &&
    requires(const S& s, team::serial& t, law<float>& l, sampling_parameters& p,
             const sampling_parameters& values) {
  s(t, l, values);
  { S::only_scales(values) } -> std::same_as<bool>;
  { S::take(p) } -> std::same_as<status>;
};

/// A stage of `sampler::pipeline` that edits logits in place.
///
/// 1. `stage.edit(team, row, parameters, history)` changes the row; collective, ends with a `sync`
///    if it changed anything.
/// 2. `Stage::take(parameters)` as for `LawStage`.
/// 3. `Stage::needs_counts` and `Stage::needs_allowed` as for `Sampler`.
///
/// Not required: that what it leaves is a law; that is checked once, after the last edit. A row of
/// 16-bit logits is given to a stage whose `edit` takes it: one that reads by `to_real` and writes
/// by `to_logit`. Draft and target go through the same stages, so that text is exact relative to
/// what these leave, rounding included.
template <class S>
concept LogitStage = std::copyable<S> &&
    requires(const S& s, team::serial& t, row_view<float> row, sampling_parameters& p,
             const sampling_parameters& values, const row_history& h) {
  s.edit(t, row, values, h);
  { S::take(p) } -> std::same_as<status>;
  {std::bool_constant<S::needs_counts>{}};
  {std::bool_constant<S::needs_allowed>{}};
};

template <class S>
concept SamplerStage = LawStage<S> || LogitStage<S>;

namespace detail {

template <class Stage>
constexpr bool stage_needs_counts() {
  if constexpr (LogitStage<Stage>) { return Stage::needs_counts; }
  return false;
}
template <class Stage>
constexpr bool stage_needs_allowed() {
  if constexpr (LogitStage<Stage>) { return Stage::needs_allowed; }
  return false;
}

template <class Stage>
inline constexpr bool asks_for_mass = requires {
  requires Stage::asks_for_mass;
};

/// Whether no stage that edits logits comes after one that works on the law.
template <class... Stages>
constexpr bool edits_come_first() {
  bool law_seen = false;
  bool in_order = true;
  ((in_order = in_order && !(law_seen && LogitStage<Stages>),
    law_seen = law_seen || LawStage<Stages>),
   ...);
  return in_order;
}

}  // namespace detail

namespace sampler {

/// Stages applied in the order given, each to what the one before it left; those that edit logits
/// come first. Which stages exist is part of the type; their values are part of the request.
/// Lossless: it defines the law that is kept.
///
/// Reads the row once where nothing restricts the law; else once for the maximum, as each stage
/// needs, and once for the norm.
template <class... Stages>
struct pipeline : private Stages... {
  static_assert((SamplerStage<Stages> && ...),
                "hunch: every argument of sampler::pipeline must be a SamplerStage, such as "
                "sampler::penalties, sampler::temperature, sampler::top_k or sampler::top_p");
  static_assert(detail::edits_come_first<Stages...>(),
                "hunch: stages that edit logits (sampler::penalties, sampler::bias, "
                "sampler::allowed_tokens) come before those that scale or restrict the law");

  static constexpr bool always_greedy = false;
  /// Of a body that does nothing else, see `team::loads_of`: stages that edit or restrict leave a
  /// device few registers.
  static constexpr int loads = sizeof...(Stages) > 1 ? 8 : team::default_loads;
  static constexpr int blocks = sizeof...(Stages) > 1 ? 1 : 2;  ///< likewise, see `team::blocks_of`
  static constexpr bool needs_counts = (detail::stage_needs_counts<Stages>() || ...);
  static constexpr bool needs_allowed = (detail::stage_needs_allowed<Stages>() || ...);

  constexpr pipeline() = default;
  constexpr explicit pipeline(Stages... stages) requires(sizeof...(Stages) > 0)
      : Stages(stages)... {}

  template <Team T, class Logit>
  HUNCH_HOST_DEVICE HUNCH_INLINE_ON_DEVICE law<Logit> operator()(
      T& team, row_view<Logit> row, const sampling_parameters& parameters,
      const row_history& history) const {
    (edit<Stages>(team, row, parameters, history), ...);
    const bool excludes =
        (LogitStage<Stages> || ...) && (history.allowed != nullptr || parameters.bias_count > 0);
    const row_view<const Logit> logits{row.data, row.size};
    const status nothing_left = excludes ? status::empty_support : status::invalid_logits;
    if ((only_scales<Stages>(parameters) && ...)) {
      law<Logit> l;
      l.scale = kernel::scale_at_one<real_of<Logit>>;
      (apply<Stages>(team, l, parameters), ...);
      return kernel::unrestricted(team, logits, l.scale, nothing_left);
    }
    law<Logit> l;
    if (sums_first(parameters)) {
      l.scale = kernel::scale_at_one<real_of<Logit>>;
      bool leads = true;
      (lead<Stages>(team, l, parameters, leads), ...);
      l = kernel::unrestricted(team, logits, l.scale, nothing_left);
      l.scale = kernel::scale_at_one<real_of<Logit>>;
      l.norm = real_of<Logit>(0);
    } else {
      l = kernel::whole_row(team, logits, nothing_left);
    }
    if (l.status == status::ok) {
      (apply<Stages>(team, l, parameters), ...);
      if (!is_complete(l)) { kernel::normalise(team, l); }
    }
    return l;
  }

  HUNCH_HOST_DEVICE constexpr status check(sampling_parameters p) const {
    status result = status::ok;
    const auto note = [&result](status s) { result = s == status::ok ? result : s; };
    (note(Stages::take(p)), ...);
    return p == sampling_parameters{} ? result : status::invalid_parameter;
  }

 private:
  /// Whether a stage has made `l` a point mass: nothing is left to scale or to restrict.
  template <class Logit>
  HUNCH_HOST_DEVICE static bool is_complete(const law<Logit>& l) {
    return l.norm > real_of<Logit>(0);
  }
  template <class Stage>
  HUNCH_HOST_DEVICE static bool only_scales(const sampling_parameters& parameters) {
    if constexpr (LawStage<Stage>) { return Stage::only_scales(parameters); }
    return true;  // an edit is made before
  }
  template <class Stage, class T, class Logit>
  HUNCH_HOST_DEVICE HUNCH_INLINE_ON_DEVICE void edit(T& team, row_view<Logit> row,
                                                     const sampling_parameters& parameters,
                                                     const row_history& history) const {
    if constexpr (LogitStage<Stage>) {
      static_cast<const Stage&>(*this).edit(team, row, parameters, history);
    }
  }
  /// Whether the first stage that restricts asks how much weight there is: then the law is summed
  /// in the pass that makes it.
  HUNCH_HOST_DEVICE static bool sums_first(const sampling_parameters& parameters) {
    bool leads = true;
    bool sums = false;
    const auto look = [&]<class Stage>(std::type_identity<Stage>) {
      if (leads && !only_scales<Stage>(parameters)) {
        leads = false;
        sums = detail::asks_for_mass<Stage>;
      }
    };
    (look(std::type_identity<Stages>{}), ...);
    return sums;
  }
  /// Scales, up to the first stage that restricts.
  template <class Stage, class T, class Logit>
  HUNCH_HOST_DEVICE HUNCH_INLINE_ON_DEVICE void lead(T& team, law<Logit>& l,
                                                     const sampling_parameters& parameters,
                                                     bool& leads) const {
    leads = leads && only_scales<Stage>(parameters);
    if (leads) { apply<Stage>(team, l, parameters); }
  }
  template <class Stage, class T, class Logit>
  HUNCH_HOST_DEVICE HUNCH_INLINE_ON_DEVICE void apply(T& team, law<Logit>& l,
                                                      const sampling_parameters& parameters) const {
    if constexpr (LawStage<Stage>) { static_cast<const Stage&> (*this)(team, l, parameters); }
  }
};

}  // namespace sampler
}  // namespace hunch
