// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include <hunch/core/arithmetic.hpp>
#include <hunch/core/config.hpp>
#include <hunch/draft/grow_dynamic.hpp>
#include <hunch/drafter/detail/growing.hpp>
#include <hunch/length/length.hpp>
#include <hunch/team/team.hpp>

namespace hunch::drafter {

/// Ends a level of slot `slot`: asks the length policy whether the draft goes on, makes nodes of
/// the children that have a place in the shape, and of those that are drafted from the next
/// frontier. Of a dynamic tree, which goes on, the best of the newest children.
template <class Growing>
struct end_level {
  Growing g;
  bool always_greedy;  ///< whether the sampler is

  template <Team T>
  HUNCH_HOST_DEVICE void ask_nearby(T& team, std::int32_t slot) const {
    g.ask_nearby(team, slot);
  }

  template <Team T>
  HUNCH_HOST_DEVICE void operator()(T& team, std::int32_t slot) const {
    const bool drafts = g.of.sizes[slot] > 0;
    team.sync();  // all ranks have seen it
    if (!drafts) { return; }
    std::int32_t more = 0;
    if (team.rank() == 0) { more = goes_on(slot) ? 1 : 0; }
    more = team.broadcast(more, 0);
    if constexpr (frontier_type::dynamic) {
      if (more != 0) {
        const std::int32_t before = g.trees.count(slot);
        const kernel::dynamic_tree tree = g.of.dynamic_tree(slot, g.trees);
        team.sync();  // all ranks have read what is about to change
        kernel::expand_dynamic{nullptr, frontier_type::width}.of(team, tree);
        team.sync();
        if (team.rank() == 0) { open_level(slot, before); }
      } else if (team.rank() == 0) {
        g.of.sizes[slot] = 0;
      }
    } else {
      if (team.rank() == 0) { link(slot, more != 0); }
    }
  }

 private:
  using frontier_type = typename Growing::frontier_type;
  using real = typename Growing::real;

  HUNCH_HOST_DEVICE bool goes_on(std::int32_t slot) const {
    length_evidence evidence;
    if constexpr (frontier_type::looks) {
      evidence.rows = rows_of(slot);
      if constexpr (frontier_type::dynamic) { evidence.max_rows = Growing::tree_type::total; }
      find_best(slot, evidence);
      evidence.drawn = !frontier_type::ranked && !always_greedy &&
                       g.contexts[slot].parameters.temperature > 0.0f;
    }
    return g.lengths.drew(slot) && g.lengths.continues(slot, evidence);
  }

  /// The rows that the target will have of a tree, with the new children.
  HUNCH_HOST_DEVICE std::int32_t rows_of(std::int32_t slot) const {
    std::int32_t rows = g.trees.count(slot);
    if constexpr (frontier_type::dynamic) {
      rows = 1 + Growing::max_children * rows;
      return rows < Growing::tree_type::total ? rows : Growing::tree_type::total;
    }
    for (std::int32_t f = 0; f < g.of.sizes[slot]; ++f) {
      const std::int32_t place = g.of.places[g.of.in_tree(slot, g.of.node(slot, f))];
      const std::int64_t child = g.of.first_child(slot, f);
      for (std::int32_t i = 0; i < g.of.shape.asked(place); ++i) {
        const bool there = g.of.children[child + i] != no_token;
        rows += there && g.of.shape.child(place, i) >= 0 ? 1 : 0;
      }
    }
    return rows;
  }

  /// Looks for the most probable new child. Sets the values of drawn children.
  HUNCH_HOST_DEVICE void find_best(std::int32_t slot, length_evidence& evidence) const {
    float best = -kernel::infinity<float>;
    evidence.probability = 0.0;
    for (std::int32_t f = 0; f < g.of.sizes[slot]; ++f) {
      const float above = g.of.values[g.of.in_tree(slot, g.of.node(slot, f))];
      const std::int32_t asked = g.of.asked(slot, f);
      for (std::int64_t child = g.of.first_child(slot, f), end = child + asked; child < end;
           ++child) {
        if (g.of.children[child] == no_token) { break; }
        if constexpr (!frontier_type::ranked) {
          g.of.child_values[child] = above + log2_of(g.of.child_probabilities[child]);
        }
        if (!(g.of.child_values[child] > best)) { continue; }
        best = g.of.child_values[child];
        evidence.probability = static_cast<double>(kernel::exp2_product(best - above, 1.0f));
        if constexpr (Growing::needs_entropy) {
          evidence.entropy = g.of.entropies[g.of.in_level(slot, f)];
        }
      }
    }
    evidence.reach = static_cast<double>(kernel::exp2_product(best, 1.0f));
  }

  HUNCH_HOST_DEVICE static float log2_of(double probability) {
    constexpr double per_nat = 1.4426950408889634074;
    return probability > 0.0 ? static_cast<float>(kernel::log_of(probability) * per_nat)
                             : -kernel::infinity<float>;
  }

  /// Makes nodes of the children that have a place in the shape.
  HUNCH_HOST_DEVICE void link(std::int32_t slot, bool goes_on) const {
    const draft_tree<real> tree = g.trees.tree(slot);
    const std::int32_t before = tree.count;
    std::int32_t count = before;
    for (std::int32_t f = 0; f < g.of.sizes[slot]; ++f) {
      const std::int32_t parent = g.of.node(slot, f);
      const std::int32_t place = g.of.places[g.of.in_tree(slot, parent)];
      const std::int64_t child = g.of.first_child(slot, f);
      for (std::int32_t i = 0; i < g.of.shape.asked(place); ++i) {
        const token t = g.of.children[child + i];
        if (t == no_token) { break; }  // a broken row, or nothing is left
        const std::int32_t place_of_child = g.of.shape.child(place, i);
        if (place_of_child < 0) { continue; }
        tree.tokens[count] = t;
        if constexpr (!frontier_type::ranked) {
          tree.drawn_at[count] = g.of.children_at[child + i];
        }
        if constexpr (frontier_type::has_values) {
          g.of.values[g.of.in_tree(slot, count)] = g.of.child_values[child + i];
        }
        g.trees.add(slot, count, parent);
        g.of.add_node(slot, count, place_of_child);
        ++count;
      }
    }
    std::int32_t size = 0;
    for (std::int32_t node = before; goes_on && node < count; ++node) {
      if (g.of.shape.asked(g.of.places[g.of.in_tree(slot, node)]) == 0) { continue; }
      g.of.nodes[g.of.in_level(slot, size++)] = node;
    }
    g.of.sizes[slot] = size;
  }

  /// Makes the nodes from `before` on, which have just become ones, the frontier.
  HUNCH_HOST_DEVICE void open_level(std::int32_t slot, std::int32_t before) const {
    const std::int32_t count = g.trees.count(slot);
    g.of.levels[slot] = before;
    g.of.sizes[slot] = count - before;
    for (std::int32_t node = before; node < count; ++node) {
      g.of.add_node(slot, node, g.depth + 1);
      g.of.nodes[g.of.in_level(slot, node - before)] = node;
    }
  }
};

/// Makes a tree of the best nodes of all levels of slot `slot`.
template <class Growing>
struct finish_dynamic {
  Growing g;

  template <Team T>
  HUNCH_HOST_DEVICE void operator()(T& team, std::int32_t slot) const {
    using frontier_type = typename Growing::frontier_type;
    if (g.of.levels[slot] < 0) { return; }
    const frontier_type of = g.of;
    kernel::keep_best{nullptr, Growing::tree_type::total - 1}.of(team,
                                                                 of.dynamic_tree(slot, g.trees));
    team.sync();
    const auto tree = g.trees.tree(slot);
    const std::int64_t first = of.in_tree(slot, 0);
    team.for_each(Growing::tree_type::max_nodes, [=](std::int64_t i) {
      of.ids_before[first + i] = of.ids[first + i];
      of.lists_before[first + i] = tree.lists[i];
    });
    team.for_each(g.trees.count(slot), [=](std::int64_t i) {
      const std::int32_t grown = of.grown_as[first + i];
      of.ids[first + i] = grown < 0 ? frontier_type::not_staged : of.ids_before[first + grown];
      tree.lists[i] = grown < 0 ? shortlist{} : of.lists_before[first + grown];
    });
  }
};

}  // namespace hunch::drafter
