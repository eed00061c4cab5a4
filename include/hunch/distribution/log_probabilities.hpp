// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include <hunch/core/arithmetic.hpp>
#include <hunch/core/types.hpp>
#include <hunch/distribution/law.hpp>
#include <hunch/team/over_row.hpp>
#include <hunch/team/team.hpp>

namespace hunch {

/// A token with the natural logarithm of its probability.
struct token_log_probability {
  token t = no_token;
  float log_probability = -kernel::infinity<float>;
};

namespace kernel {

/// The natural logarithm of the probability of an element that a law keeps, by its logit.
template <class Logit>
HUNCH_HOST_DEVICE float log_probability_of(const law<Logit>& l, real_of<Logit> x) {
  if (!(x > -infinity<real_of<Logit>>)) { return -infinity<float>; }
  const double log2_weight =
      product(static_cast<double>(x - l.maximum), static_cast<double>(l.scale));
  return static_cast<float>(product(log2_weight, 0.69314718055994530942) +
                            log_of(static_cast<double>(l.norm)));
}

/// The natural logarithm of the probability of element i, in [0, l.size()); -inf if it has none.
/// The law carries no error and has its norm.
template <class Logit>
HUNCH_HOST_DEVICE float log_probability(const law<Logit>& l, std::int64_t i) {
  const auto x = l.logit(i);
  return l.keeps(x, i) ? log_probability_of(l, x) : -infinity<float>;
}

/// What is to be reported about one emitted token.
template <class Logit>
struct log_probability_task {
  const law<Logit>* drawn_from = nullptr;   ///< over the vocabulary, with its norm and no error
  token chosen = no_token;                  ///< in the vocabulary
  std::int32_t top = 0;                     ///< how many of the most probable tokens
  token_log_probability* result = nullptr;  ///< [1 + top] out: the chosen one, then these in order
};

/// Log-probabilities of an emitted token and of the `top` most probable ones, the lower id first on
/// ties; no_token where the law keeps fewer. One team per token; reads the row once for each of
/// the most probable ones.
template <class Logit>
struct report_log_probabilities {
  const log_probability_task<Logit>* tasks;  ///< [tokens]
  static constexpr bool reads_rows = true;

  template <Team T>
  HUNCH_HOST_DEVICE void operator()(T& team, std::int32_t index) const {
    of(team, tasks[index]);
  }

  template <Team T>
  HUNCH_HOST_DEVICE static void of(T& team, const log_probability_task<Logit>& task) {
    const law<Logit> l = *task.drawn_from;
    const float of_chosen =
        team::on_holder(team, task.chosen, [&] { return log_probability(l, task.chosen); });
    if (team.rank() == 0) { task.result[0] = {task.chosen, of_chosen}; }
    using keys = order<real_of<Logit>>;
    using key = typename keys::key;
    struct ranked {
      key logit;
      std::int32_t id;
    };
    const auto before = [](const ranked& a, const ranked& b) {
      return a.logit > b.logit || (a.logit == b.logit && a.id < b.id);
    };
    ranked last{keys::highest, -1};
    for (std::int32_t r = 0; r < task.top; ++r) {
      const ranked next = team::reduce_row(
          team, l.logits.size, ranked{keys::minus_infinity, kernel::last_id},
          [=](std::int64_t i) {
            const ranked mine{keys::of(l.logit(i)), static_cast<std::int32_t>(i)};
            return l.keeps(i) && before(last, mine) ? mine
                                                    : ranked{keys::minus_infinity, kernel::last_id};
          },
          [=](const ranked& a, const ranked& b) { return before(a, b) ? a : b; });
      const bool found = next.logit > keys::minus_infinity;
      if (team.rank() == 0) {
        task.result[1 + r] =
            found ? token_log_probability{next.id, log_probability_of(l, keys::value(next.logit))}
                  : token_log_probability{};
      }
      last = next;
    }
  }
};

}  // namespace kernel
}  // namespace hunch
