// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

#include <hunch/core/logit.hpp>
#include <hunch/model/rows.hpp>
#include <hunch/sampler/sampler.hpp>
#include <hunch/team/team.hpp>
#include "toy_model.hpp"

/// \file
/// Toy models whose logits are numbers of a 16-bit type: given as they are, or as copies in float.

namespace hunch::test {

/// x rounded to a 16-bit type, as that type or in float.
template <class Logit, class Half>
Logit rounded(float x) {
  const Half half = to_logit<Half>(x);
  if constexpr (std::is_same_v<Logit, Half>) {
    return half;
  } else {
    return to_float(half);
  }
}

/// A toy target in float, its logits rounded.
template <class Logit, class Half, class Target = toy_target<float>>
class rounded_target : public Target {
 public:
  using Target::Target;

  class evaluation : public Target::evaluation {
   public:
    evaluation(const typename Target::evaluation& rows, rounded_target& of)
        : Target::evaluation(rows), of_(&of) {}
    row_view<Logit> logits(std::int32_t i) const {
      const row_view<float> row = Target::evaluation::logits(i);  // throws if there is none
      return {of_->rows_[static_cast<std::size_t>(i)].data(), row.size};
    }

   private:
    rounded_target* of_;
  };

  evaluation evaluate(const rows& r) {
    const auto in_float = Target::evaluate(r);
    rows_.resize(static_cast<std::size_t>(r.size));
    for (std::int32_t i = 0; i < r.size; ++i) {
      if (r.wanted[i] == 0 || in_float.status(i) != status::ok) { continue; }
      const row_view<float> row = in_float.logits(i);
      auto& out = rows_[static_cast<std::size_t>(i)];
      // What is read beyond its end shows in the law.
      out.assign(static_cast<std::size_t>(row.size + row_padding),
                 rounded<Logit, Half>(std::numeric_limits<float>::quiet_NaN()));
      for (std::int32_t v = 0; v < row.size; ++v) {
        out[static_cast<std::size_t>(v)] = rounded<Logit, Half>(row[v]);
      }
    }
    return {in_float, *this};
  }

 private:
  std::vector<std::vector<Logit>> rows_;
};

/// A toy draft model, or toy heads, in float, the logits rounded.
template <class Logit, class Half, class Model = toy_draft<float>>
class rounded_draft : public Model {
 public:
  using Model::Model;

  template <class Hidden>
  void head(Hidden&& hidden, const head_rows<Logit>& h) {
    std::vector<std::vector<float>> in_float;
    std::vector<row_view<float>> views;
    for (std::int32_t i = 0; i < h.size; ++i) {
      in_float.emplace_back(static_cast<std::size_t>(h.logits[i].size));
      views.push_back({in_float.back().data(), h.logits[i].size});
    }
    Model::head(std::forward<Hidden>(hidden),
                head_rows<float>{h.size, h.row, h.lists, views.data()});
    for (std::int32_t i = 0; i < h.size; ++i) {
      for (std::int32_t at = 0; at < h.logits[i].size; ++at) {
        h.logits[i][at] = rounded<Logit, Half>(views[static_cast<std::size_t>(i)][at]);
      }
    }
  }
};

/// A stage that edits logits in float, after which each is rounded to the 16-bit type.
template <class Stage, class Half>
struct rounded_stage : Stage {
  template <Team T>
  void edit(T& team, row_view<float> row, const sampling_parameters& p,
            const row_history& history) const {
    Stage::edit(team, row, p, history);
    team.for_each(row.size, [=](std::int64_t i) { row[i] = rounded<float, Half>(row[i]); });
  }
};

/// Rounds the logits of draft row `i`, if it is one.
template <class Half>
struct round_row {
  head_rows<float> rows;

  template <Team T>
  void operator()(T& team, std::int32_t i) const {
    if (rows.row[i] < 0) { return; }
    const row_view<float> row = rows.logits[i];
    team.for_each(row.size, [=](std::int64_t at) { row[at] = rounded<float, Half>(row[at]); });
  }
};

/// A selector that edits draft logits in float, after which each is rounded to the 16-bit type.
template <class Selector, class Half>
struct rounded_advice : Selector {
  explicit rounded_advice(const Selector& of) : Selector(of) {}

  template <class Memory, class E>
  void advise(Memory& m, E& executor, const head_rows<float>& rows) const {
    Selector::advise(m, executor, rows);
    executor.launch(rows.size, round_row<Half>{rows});
  }
};

}  // namespace hunch::test
