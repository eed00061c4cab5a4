// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <cstdint>

#include <hunch/verifier/verifier.hpp>

namespace hunch::kernel {

/// Accepts every node whose ancestors are accepted and whose token x passes `judge(p)`, a test of x
/// and its probability that is made once per node with accepted children, collective; keeps the
/// longest accepted path, of equally long ones that of the largest probability under the target,
/// and draws the next token from the target's law after it. A row without a law accepts nothing,
/// and is an error at the end of the kept path only. What the lossy rules share. Needs
/// `view.scratch`.
template <Team T, class View, class Random, class Judge>
HUNCH_HOST_DEVICE void longest_path(T& team, const View& view, const Random& random, verdict& out,
                                    Judge&& judge) {
  const auto& tree = view.tree;
  double* const score = view.scratch;  // log-probability of the path to the node; > 0: refused
  constexpr double refused = 1.0;
  if (team.rank() == 0) {
    score[0] = 0.0;
    for (std::int32_t i = 1; i < tree.count; ++i) { score[i] = refused; }
  }
  team.sync();
  std::int32_t best = 0;
  std::int32_t best_depth = 0;
  double best_score = 0.0;
  for (std::int32_t c = 0; c < tree.count; ++c) {
    const double score_c = score[c];
    const std::int32_t first = tree.next_child(c, c);
    if (score_c > 0.0 || first < 0) { continue; }
    const auto p = view.target(team, c);
    if (p.status != status::ok) { continue; }
    const auto passes = judge(p);
    const std::int32_t depth = tree.depth(c) + 1;
    for (std::int32_t child = first; child >= 0; child = tree.next_child(c, child)) {
      const token x = tree.tokens[child];
      const auto p_x = static_cast<double>(drafted_prob(team, view, p, child));
      if (!(p_x > 0.0) || !passes(x, p_x)) { continue; }
      const double s = score_c + std::log(p_x);
      if (team.rank() == 0) { score[child] = s; }
      if (depth > best_depth || (depth == best_depth && s > best_score)) {
        best = child;
        best_depth = depth;
        best_score = s;
      }
    }
    team.sync();  // the scores of the children are there for all ranks
  }
  keep_path(team, view, best, out);
  const auto p = view.target(team, best);
  if (p.status != status::ok) { return fail(out, p.status, best); }
  out.next_origin = tree.next_child(best, best) >= 0 ? origin::corrected : undrafted(out);
  emit(team, view.at(best, purpose::bonus), p, random, out);
}

}  // namespace hunch::kernel
