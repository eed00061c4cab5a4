// SPDX-License-Identifier: Apache-2.0

// The adapters for trees of links: against scalar references with the same uniforms, and the exact
// law of sampling over a tree.

#include <cstdint>
#include <limits>
#include <vector>

#include <hunch/interop/sglang.hpp>
#include "support.hpp"

namespace hunch::test::interop_sglang {
namespace {

namespace adapter = interop::sglang;
using ids = std::vector<std::int64_t>;

/// Trees of a batch and all that is written about them.
struct forest {
  std::int32_t batch = 0, nodes = 0, levels = 0;
  ids candidates, index, next, sibling;
  std::vector<std::int32_t> predicts, accept_index, accepted;
  std::vector<status> statuses;

  friend bool operator==(const forest&, const forest&) = default;

  adapter::linked_trees view() {
    const auto n = static_cast<std::size_t>(batch);
    predicts.assign(candidates.size(), -7);
    accept_index.assign(n * static_cast<std::size_t>(levels), -7);
    accepted.assign(n, -7);
    statuses.assign(n, status::cache_full);
    return {batch,           nodes,          levels,         batch * nodes,   candidates.data(),
            index.data(),    next.data(),    sibling.data(), predicts.data(), accept_index.data(),
            accepted.data(), statuses.data()};
  }
};

/// A tree of random shape whose siblings have different tokens and are linked in random order; the
/// slots of its nodes are permuted within the sequence.
forest some_trees(dice& random, std::int32_t batch, std::int32_t nodes, std::int32_t levels,
                  std::int32_t vocab) {
  forest f;
  f.batch = batch;
  f.nodes = nodes;
  f.levels = levels;
  for (std::int32_t b = 0; b < batch; ++b) {
    ids slots(static_cast<std::size_t>(nodes)), next(slots.size(), -1), sibling(slots.size(), -1);
    ids tokens{random.below(vocab)};
    std::iota(slots.begin(), slots.end(), b * nodes);
    for (std::int32_t i = nodes - 1; i > 0; --i) {
      std::swap(slots[static_cast<std::size_t>(i)],
                slots[static_cast<std::size_t>(random.below(i + 1))]);
    }
    for (std::int32_t i = 1; i < nodes; ++i) {
      const auto parent = static_cast<std::size_t>(random.below(2) == 0 ? i - 1 : random.below(i));
      const auto at = static_cast<std::size_t>(i);
      tokens.push_back(random.below(vocab));
      bool taken = false;
      for (auto s = next[parent]; s >= 0; s = sibling[static_cast<std::size_t>(s)]) {
        taken |= tokens[static_cast<std::size_t>(s)] == tokens[at];
      }
      if (taken) { continue; }  // a node that nothing links to
      const auto first = next[parent];
      if (first < 0 || random.below(2) == 0) {
        next[parent] = i;
        sibling[at] = first;
      } else {
        sibling[at] = sibling[static_cast<std::size_t>(first)];
        sibling[static_cast<std::size_t>(first)] = i;
      }
    }
    append(f.candidates, tokens);
    append(f.index, slots);
    append(f.next, next);
    append(f.sibling, sibling);
  }
  return f;
}

/// Walks the trees as both kernels do: `choose(b, node, children)` is the position of the accepted
/// child or -1, `last(b, node)` the token at the end.
template <class Choose, class Last>
forest walked(forest f, Choose&& choose, Last&& last) {
  f.view();
  for (std::int32_t b = 0; b < f.batch; ++b) {
    const auto at = [&](std::int64_t node) { return static_cast<std::size_t>(b * f.nodes + node); };
    const auto slot = [&](std::int64_t node) {
      return static_cast<std::size_t>(f.index[at(node)]);
    };
    std::int32_t* const path = f.accept_index.data() + b * f.levels;
    std::fill(path, path + f.levels, -1);
    std::int64_t node = 0;
    std::int32_t n = 0;
    path[0] = static_cast<std::int32_t>(slot(0));
    while (n + 1 < f.levels) {
      ids children;
      for (auto c = f.next[at(node)]; c >= 0; c = f.sibling[at(c)]) { children.push_back(c); }
      const std::int32_t which = choose(b, node, children);
      if (which < 0) { break; }
      const auto child = children[static_cast<std::size_t>(which)];
      f.predicts[slot(node)] = static_cast<std::int32_t>(f.candidates[at(child)]);
      path[++n] = static_cast<std::int32_t>(slot(child));
      node = child;
    }
    f.predicts[slot(node)] = last(b, node, n + 1 < f.levels);
    f.accepted[static_cast<std::size_t>(b)] = n;
    f.statuses[static_cast<std::size_t>(b)] = status::ok;
  }
  return f;
}

struct sampled_case {
  forest trees;
  std::int32_t vocab = 0;
  std::vector<float> target, coins, final_coins;
  float single = 1.0f, acc = 1.0f;
  bool check_rows = false;
};

template <class E>
forest run(const sampled_case& c, E executor) {
  forest f = c.trees;
  adapter::target_only_arguments<float> args;
  args.trees = f.view();
  args.vocab = c.vocab;
  args.target_probs = c.target.data();
  args.check_rows = c.check_rows;
  args.threshold_single = c.single;
  args.threshold_acc = c.acc;
  args.uniform_samples = c.coins.data();
  args.uniform_samples_for_final_sampling = c.final_coins.data();
  adapter::tree_speculative_sampling_target_only(executor, args);
  return f;
}

forest reference(const sampled_case& c) {
  const auto row = [&](std::int32_t b, std::int64_t node) {
    return row_of(c.target, b * c.trees.nodes + node, c.vocab);
  };
  const auto candidate = [&](std::int32_t b, std::int64_t node) {
    return static_cast<std::size_t>(
        c.trees.candidates[static_cast<std::size_t>(b * c.trees.nodes + node)]);
  };
  const auto choose = [&](std::int32_t b, std::int64_t node, const ids& children) {
    const std::vector<float> p = row(b, node);
    const double coin = c.coins[static_cast<std::size_t>(b * c.trees.nodes + node)];
    double sum = 0.0;
    for (std::size_t k = 0; k < children.size(); ++k) {
      const auto p_x = static_cast<double>(p[candidate(b, children[k])]);
      sum += p_x;
      if (coin < sum / static_cast<double>(c.acc) || p_x >= static_cast<double>(c.single)) {
        return static_cast<std::int32_t>(k);
      }
    }
    return -1;
  };
  const auto last = [&](std::int32_t b, std::int64_t node, bool tested) {
    std::vector<float> p = row(b, node);
    const std::vector<float> whole = p;
    const auto at = [&](std::int64_t i) { return static_cast<std::size_t>(b * c.trees.nodes + i); };
    for (auto i = tested ? c.trees.next[at(node)] : -1; i >= 0; i = c.trees.sibling[at(i)]) {
      p[candidate(b, i)] = 0.0f;
    }
    const double coin = c.final_coins[static_cast<std::size_t>(b)];
    const token t = picked(p, coin);
    return t >= 0 ? t : picked(whole, coin);
  };
  return walked(c.trees, choose, last);
}

TEST_CASE("sglang: the same uniforms give the tree walk of a scalar reference") {
  dice random{1};
  std::int32_t accepted = 0;
  for (const std::int32_t vocab : vocab_sizes) {
    for (std::int32_t nodes = 1; nodes <= 9; ++nodes) {
      const std::int32_t batch = 1 + random.below(5);
      sampled_case c;
      c.trees = some_trees(random, batch, nodes, 1 + random.below(5), vocab);
      c.vocab = vocab;
      for (std::int32_t i = 0; i < batch * nodes; ++i) { append(c.target, any_law(random, vocab)); }
      c.coins = uniforms_of(random, static_cast<std::size_t>(batch * nodes));
      c.final_coins = uniforms_of(random, static_cast<std::size_t>(batch));
      for (const float threshold : {1.0f, 0.5f, 0.0f}) {
        c.single = random.below(2) == 0 ? threshold : 1.0f;
        c.acc = threshold;
        if (threshold == 0.0f && c.single == 1.0f) { c.acc = 1e-9f; }
        if (threshold == 0.0f && c.single == 0.0f) { c.acc = 1.0f; }
        CAPTURE(vocab);
        CAPTURE(nodes);
        CAPTURE(threshold);
        const forest expected = reference(c);
        c.check_rows = nodes % 3 == 0;
        CHECK(run(c, executor::host{}) == expected);
        CHECK(run(c, nodes % 2 == 0 ? one_block : two_blocks) == expected);
        for (const std::int32_t n : expected.accepted) { accepted += n; }
      }
    }
  }
  CHECK(accepted > 300);
}

TEST_CASE("sglang: the greedy walk") {
  dice random{2};
  std::int32_t accepted = 0;
  for (const std::int32_t vocab : {1, 2, 3, 300}) {
    for (std::int32_t nodes = 1; nodes <= 12; ++nodes) {
      const std::int32_t batch = 1 + random.below(5);
      const forest trees = some_trees(random, batch, nodes, 1 + random.below(5), vocab);
      ids predict;
      for (std::int32_t i = 0; i < batch * nodes; ++i) { predict.push_back(random.below(vocab)); }
      const auto predicted = [&](std::int32_t b, std::int64_t node) {
        const auto slot = trees.index[static_cast<std::size_t>(b * nodes + node)];
        return predict[static_cast<std::size_t>(slot)];
      };
      const forest expected = walked(
          trees,
          [&](std::int32_t b, std::int64_t node, const ids& children) {
            for (std::size_t k = 0; k < children.size(); ++k) {
              const auto at = static_cast<std::size_t>(b * nodes + children[k]);
              if (trees.candidates[at] == predicted(b, node)) { return static_cast<int>(k); }
            }
            return -1;
          },
          [&](std::int32_t b, std::int64_t node, bool) {
            return static_cast<std::int32_t>(predicted(b, node));
          });
      const auto run_on = [&](auto executor) {
        forest f = trees;
        adapter::verify_tree_greedy(executor, {f.view(), predict.data()});
        return f;
      };
      CHECK(run_on(executor::host{}) == expected);
      CHECK(run_on(two_blocks) == expected);
      CHECK(run_on(one_block) == expected);
      for (const std::int32_t n : expected.accepted) { accepted += n; }
    }
  }
  CHECK(accepted > 50);
}

/// A tree as parents and tokens, children in order of their ids.
struct shape {
  std::vector<std::int32_t> parent;
  text tokens;
};

/// What a walk over one tree emits; `verify(trees, rows)` fills the outputs of one sequence.
template <class Real, class Verify>
text emitted_by(const shape& s, const law_world& target, std::int32_t levels, Verify&& verify) {
  forest f;
  f.batch = 1;
  f.nodes = static_cast<std::int32_t>(s.parent.size());
  f.levels = levels;
  f.next.assign(s.parent.size(), -1);
  f.sibling.assign(s.parent.size(), -1);
  std::vector<text> context(s.parent.size());
  std::vector<Real> rows;
  for (std::size_t i = 0; i < s.parent.size(); ++i) {
    f.candidates.push_back(s.tokens[i]);
    f.index.push_back(static_cast<std::int64_t>(i));
    if (i > 0) { context[i] = with(context[static_cast<std::size_t>(s.parent[i])], s.tokens[i]); }
    append_as(rows, target.after(context[i]));
  }
  for (std::size_t i = s.parent.size() - 1; i > 0; --i) {
    std::int64_t& first = f.next[static_cast<std::size_t>(s.parent[i])];
    f.sibling[i] = first;
    first = static_cast<std::int64_t>(i);
  }
  const adapter::linked_trees view = f.view();
  verify(view, rows);
  text out;
  for (std::int32_t i = 0; i <= f.accepted[0]; ++i) {
    out.push_back(
        f.predicts[static_cast<std::size_t>(f.accept_index[static_cast<std::size_t>(i)])]);
  }
  return out;
}

template <class Real>
double gap_of(const shape& s, const law_world& target, std::int32_t levels, float threshold) {
  return exact_gap(target, 4, [&](const forking_source& source) {
    return emitted_by<Real>(s, target, levels, [&](const auto& trees, const auto& rows) {
      adapter::target_only_arguments<Real> args;
      args.trees = trees;
      args.vocab = target.vocab;
      args.target_probs = rows.data();
      args.threshold_acc = threshold;
      CHECK(args.lossless() == (threshold == 1.0f));
      executor::host{}.launch(1, adapter::target_only_body<Real, forking_source>{args, source});
      REQUIRE(trees.status[0] == status::ok);
    });
  });
}

/// Adds up the probabilities of siblings without asking whether a token has been counted.
double gap_of_counting_twice(const shape& s, const law_world& target) {
  return exact_gap(target, 4, [&](const forking_source& source) {
    return emitted_by<double>(s, target, 4, [&](const auto& trees, const auto& rows) {
      const std::vector<double> p(rows.begin(), rows.begin() + target.vocab);
      double sum = 0.0;
      std::vector<double> rest = p;
      for (std::int64_t i = trees.retrieve_next_token[0]; i >= 0;
           i = trees.retrieve_next_sibling[i]) {
        const auto x = static_cast<std::size_t>(trees.candidates[i]);
        const double left = 1.0 - sum;
        sum += p[x];
        const address a{0, 0, 0, static_cast<std::uint32_t>(i), purpose::accept};
        if (source.bernoulli(a, p[x], left)) {
          trees.accept_index[0] = 0;
          trees.accept_token_num[0] = 0;
          trees.predicts.put(0, static_cast<token>(x));
          return;
        }
        rest[x] = 0.0;
      }
      trees.accept_index[0] = 0;
      trees.accept_token_num[0] = 0;
      trees.predicts.put(0, drawn(source, 0, rest));
    });
  });
}

const std::vector<shape> shapes{
    {{-1}, {0}},
    {{-1, 0, 0}, {0, 2, 1}},
    {{-1, 0, 1, 2}, {0, 1, 1, 0}},
    {{-1, 0, 0, 1, 1, 2}, {0, 0, 2, 1, 2, 0}},
    {{-1, 0, 0, 0}, {0, 2, 1, 0}},              // every token is a child
    {{-1, 0, 0, 0, 1, 3}, {0, 1, 1, 2, 0, 1}},  // a token stands there twice
};

TEST_CASE("sglang: the emitted law is the target's, for every tree that was fixed before") {
  for (const shape& s : shapes) {
    for (const bool sparse : {false, true}) {
      for (const std::int32_t levels : {1, 2, 4}) {
        const law_world target{3, 31, sparse};
        CAPTURE(s.parent.size());
        CHECK(gap_of<double>(s, target, levels, 1.0f) <= 1e-12);
        CHECK(gap_of<float>(s, target, levels, 1.0f) <= 1e-6);
      }
    }
  }
}

TEST_CASE("sglang: lossy thresholds and doubly counted tokens are seen") {
  const law_world target{3, 31};
  CHECK(gap_of<double>(shapes[3], target, 4, 0.7f) > 1e-3);
  CHECK(gap_of_counting_twice({{-1, 0, 0}, {0, 1, 1}}, target) > 1e-3);
  CHECK(gap_of_counting_twice({{-1, 0, 0}, {0, 1, 2}}, target) <= 1e-12);
}

TEST_CASE("sglang: bad trees and rows end in a status, the others are as without them") {
  dice random{4};
  const std::int32_t vocab = 40;
  sampled_case good;
  good.trees = some_trees(random, 3, 6, 5, vocab);
  good.vocab = vocab;
  for (int i = 0; i < 18; ++i) { append(good.target, any_law(random, vocab)); }
  good.coins = uniforms_of(random, 18);
  good.final_coins = uniforms_of(random, 3);
  // The tree in the middle is a root with five children, and no coin accepts one.
  forest& t = good.trees;
  for (std::size_t i = 6; i < 12; ++i) {
    t.next[i] = i == 6 ? 1 : -1;
    t.sibling[i] = i > 6 && i < 11 ? static_cast<std::int64_t>(i) - 5 : -1;
    t.candidates[i] = static_cast<std::int64_t>(i);
  }
  const std::vector<float> flat(vocab, 1.0f / static_cast<float>(vocab));
  std::copy(flat.begin(), flat.end(), good.target.begin() + 6 * vocab);
  good.coins[6] = 0.9f;
  const forest expected = run(good, executor::host{});
  REQUIRE(expected.statuses[1] == status::ok);
  const auto check = [&](status wanted, auto&& damage) {
    sampled_case c = good;
    damage(c);
    const forest f = run(c, executor::host{});
    CHECK(f.statuses[1] == wanted);
    CHECK(f.accepted[1] == 0);
    const auto root = c.trees.index[6];
    const bool has_root = root >= 0 && root < 18;
    if (has_root) { CHECK(f.predicts[static_cast<std::size_t>(root)] == -1); }
    CHECK(f.accept_index[5] == (has_root ? root : -1));
    for (std::size_t i = 6; i < 10; ++i) { CHECK(f.accept_index[i] == -1); }
    for (const std::int64_t b : {0, 2}) {
      CHECK(f.statuses[static_cast<std::size_t>(b)] == status::ok);
      CHECK(row_of(f.accept_index, b, 5) == row_of(expected.accept_index, b, 5));
      CHECK(row_of(f.predicts, b, 6) == row_of(expected.predicts, b, 6));
    }
  };
  check(status::invalid_token, [](sampled_case& c) { c.trees.candidates[7] = -1; });
  check(status::invalid_token, [](sampled_case& c) { c.trees.candidates[8] = 40; });
  check(status::invalid_token, [](sampled_case& c) { c.trees.candidates[8] = 1ll << 40; });
  check(status::invalid_draft, [](sampled_case& c) { c.trees.next[6] = 6; });
  check(status::invalid_draft, [](sampled_case& c) { c.trees.next[9] = 1ll << 33; });
  check(status::invalid_draft, [](sampled_case& c) { c.trees.sibling[9] = -2; });
  check(status::invalid_draft, [](sampled_case& c) { c.trees.sibling[11] = 1; });  // a circle
  check(status::invalid_draft, [](sampled_case& c) { c.trees.index[8] = 18; });
  check(status::invalid_draft, [](sampled_case& c) { c.trees.index[6] = -1; });
  const auto fill = [](float value) {
    return [=](sampled_case& c) { std::fill_n(c.target.begin() + 6 * c.vocab, c.vocab, value); };
  };
  check(status::invalid_logits, fill(std::numeric_limits<float>::quiet_NaN()));
  check(status::invalid_logits, fill(std::numeric_limits<float>::infinity()));
  check(status::invalid_logits, fill(0.0f));
  check(status::invalid_logits, fill(-1.0f));
  const auto too_little = fill(0.6f / static_cast<float>(vocab));
  check(status::invalid_logits, [&](sampled_case& c) {
    too_little(c);
    c.check_rows = true;
  });
  sampled_case unchecked = good;
  too_little(unchecked);
  CHECK(run(unchecked, executor::host{}).statuses[1] == status::ok);
  // A node that is accepted for sure in front of a bad row stays.
  sampled_case before = good;
  std::fill_n(before.target.begin() + 6 * before.vocab, before.vocab, 0.0f);
  before.target[static_cast<std::size_t>(6 * before.vocab + before.trees.candidates[7])] = 1.0f;
  std::fill_n(before.target.begin() + 7 * before.vocab, before.vocab,
              std::numeric_limits<float>::quiet_NaN());
  const forest stays = run(before, executor::host{});
  CHECK(stays.statuses[1] == status::invalid_logits);
  CHECK(stays.accepted[1] == 1);
  CHECK(stays.accept_index[5] == stays.index[6]);
  CHECK(stays.accept_index[6] == stays.index[7]);
  CHECK(stays.accept_index[7] == -1);
  CHECK(stays.predicts[static_cast<std::size_t>(stays.index[6])] == before.trees.candidates[7]);
  CHECK(stays.predicts[static_cast<std::size_t>(stays.index[7])] == -1);
  // What nothing links to is not looked at.
  sampled_case c = good;
  c.trees.sibling[9] = -1;
  c.trees.candidates[10] = c.trees.candidates[11] = -1;
  c.trees.sibling[10] = -1;
  CHECK(run(c, executor::host{}).statuses[1] == status::ok);

  ids predict(18, 3);
  forest f = good.trees;
  executor::host host;
  predict[static_cast<std::size_t>(f.index[6])] = -1;
  f.sibling[5] = -1;
  adapter::verify_tree_greedy(host, {f.view(), predict.data()});
  CHECK(f.statuses[1] == status::invalid_token);
  CHECK(f.predicts[static_cast<std::size_t>(f.index[6])] == -1);
  f.sibling[11] = 1;  // a circle, and no child equals the prediction
  predict[static_cast<std::size_t>(f.index[6])] = 39;
  adapter::verify_tree_greedy(host, {f.view(), predict.data()});
  CHECK(f.statuses[1] == status::invalid_draft);
  CHECK(f.statuses[0] == status::ok);
}

TEST_CASE("sglang: ids of 32 bits and rows that lie apart change nothing") {
  dice random{9};
  for (const std::int32_t vocab : vocab_sizes) {
    sampled_case c;
    c.vocab = vocab;
    c.trees = some_trees(random, 3, 6, 4, vocab);
    for (int i = 0; i < 18; ++i) { append(c.target, any_law(random, vocab)); }
    c.coins = uniforms_of(random, 18);
    c.final_coins = uniforms_of(random, 3);
    const forest expected = run(c, executor::host{});
    const auto target = padded(c.target, vocab, 4);
    forest f = c.trees;
    const std::vector<std::int32_t> candidates(f.candidates.begin(), f.candidates.end());
    std::vector<std::int64_t> predicts(f.candidates.size(), -7);
    executor::host host;
    adapter::target_only_arguments<float> args;
    args.trees = f.view();
    args.trees.candidates = candidates.data();
    args.trees.predicts = predicts.data();
    args.vocab = vocab;
    args.target_stride = vocab + 4;
    args.target_probs = target.data();
    args.uniform_samples = c.coins.data();
    args.uniform_samples_for_final_sampling = c.final_coins.data();
    adapter::tree_speculative_sampling_target_only(host, args);
    f.predicts.assign(predicts.begin(), predicts.end());
    CHECK(f == expected);

    const std::vector<std::int32_t> predicted(18, random.below(vocab));
    const ids wide = widened(predicted);
    forest narrow_greedy = c.trees;
    forest wide_greedy = c.trees;
    auto trees = narrow_greedy.view();
    trees.candidates = candidates.data();
    adapter::verify_tree_greedy(host, {trees, predicted.data()});
    adapter::verify_tree_greedy(host, {wide_greedy.view(), wide.data()});
    CHECK(narrow_greedy == wide_greedy);
  }
}

TEST_CASE("sglang: without uniforms the words have addresses") {
  dice random{8};
  sampled_case c;
  c.vocab = 50;
  c.trees = some_trees(random, 1, 7, 5, c.vocab);
  for (int i = 0; i < 7; ++i) { append(c.target, any_law(random, c.vocab)); }
  int differences = 0;
  text first;
  for (std::uint64_t offset = 0; offset < 50; ++offset) {
    const auto run_on = [&](auto executor) {
      forest f = c.trees;
      adapter::target_only_arguments<float> args;
      args.trees = f.view();
      args.vocab = c.vocab;
      args.target_probs = c.target.data();
      args.keys.offset = offset;
      adapter::tree_speculative_sampling_target_only(executor, args);
      return f;
    };
    const forest f = run_on(executor::host{});
    CHECK(run_on(two_blocks) == f);
    if (offset == 0) { first = f.predicts; }
    differences += f.predicts != first ? 1 : 0;
  }
  CHECK(differences > 10);
}

}  // namespace
}  // namespace hunch::test::interop_sglang
