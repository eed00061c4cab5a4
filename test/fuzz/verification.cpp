// SPDX-License-Identifier: Apache-2.0

// Samplers with every stage and all verification rules, on any rows, parameters, shortlists, trees
// and uniforms: an error that names its row, or tokens that the target allows.

#include <cmath>
#include <cstddef>
#include <vector>

#include <hunch/decoder/token_census.hpp>
#include <hunch/distribution/log_probabilities.hpp>
#include <hunch/verifier/block.hpp>
#include <hunch/verifier/coupled.hpp>
#include <hunch/verifier/point_mass.hpp>
#include <hunch/verifier/rejection.hpp>
#include <hunch/verifier/top_k.hpp>
#include <hunch/verifier/typical.hpp>
#include <hunch/verifier/verify_rows.hpp>
#include "../support/stages.hpp"
#include "bytes.hpp"

namespace {

using namespace hunch;
using test::must;

struct fuzzed_words {
  std::uint64_t seed = 0;
  std::uint64_t operator()(const address& a) const {
    switch (seed % 4) {
      case 0:
        return 0;
      case 1:
        return ~std::uint64_t(0);
      default:
        return philox{}(a);
    }
  }
};
using source = random_source<fuzzed_words>;

constexpr float infinity = __builtin_inff();

/// Values of the stages, of which about half are left at their defaults.
sampling_parameters parameters_of(test::bytes& in, std::vector<logit_bias>& biases,
                                  std::int32_t vocab) {
  sampling_parameters with;
  const auto change = [&](float& field) { field = in.below(2) == 0 ? field : in.real(); };
  change(with.temperature);
  if (in.below(2) == 1) { with.top_k = static_cast<std::int32_t>(in.word()); }
  change(with.top_p);
  change(with.min_p);
  change(with.repetition_penalty);
  change(with.presence_penalty);
  change(with.frequency_penalty);
  const std::int32_t first = in.below(vocab);
  for (std::int32_t i = std::min(in.below(4), vocab) - 1; i >= 0; --i) {
    biases.push_back({(first + i) % vocab, in.real()});
  }
  with.bias = biases.empty() ? nullptr : biases.data();
  with.bias_count = static_cast<std::int32_t>(biases.size());
  with.constrained = in.below(2) == 1;
  return with;
}

bool in_range(const sampling_parameters& p) {
  bool valid = p.temperature >= 0.0f && std::isfinite(p.temperature) && p.top_k >= 0 &&
               p.top_p > 0.0f && p.top_p <= 1.0f && p.min_p >= 0.0f && p.min_p <= 1.0f &&
               p.repetition_penalty > 0.0f && std::isfinite(p.repetition_penalty) &&
               std::isfinite(p.presence_penalty) && std::isfinite(p.frequency_penalty);
  for (std::int32_t i = 0; i < p.bias_count; ++i) {
    valid = valid && !std::isnan(p.bias[i].value) && p.bias[i].value < infinity;
  }
  return valid;
}

bool edits(const sampling_parameters& p) {
  return p.repetition_penalty != 1.0f || p.presence_penalty != 0.0f ||
         p.frequency_penalty != 0.0f || p.bias_count > 0 || p.constrained;
}

/// A law has mass one; without edits, a row has a law if and only if it is valid.
void check_law(const law<float>& p, const float* row, std::int32_t vocab, bool edited) {
  if (!edited) {
    bool has_law = false;
    bool broken = false;
    for (std::int32_t v = 0; v < vocab; ++v) {
      has_law = has_law || row[v] > -infinity;
      broken = broken || std::isnan(row[v]) || row[v] == infinity;
    }
    must((p.status == status::ok) == (has_law && !broken), "invalid rows are told apart");
  }
  if (p.status != status::ok) {
    must(p.status == status::invalid_logits || (edited && p.status == status::empty_support),
         "an error of a row");
    return;
  }
  double mass = 0.0;
  for (std::int32_t v = 0; v < vocab; ++v) { mass += static_cast<double>(p.prob(v)); }
  must(std::abs(mass - 1.0) < 1e-5, "a law has mass one");
}

struct problem {
  std::int32_t vocab;
  sampling_parameters with;
  bool is_chain;
  child_law children;
  source random;
  std::vector<float> rows;             ///< [nodes, vocab] of the target
  std::vector<row_history> histories;  ///< [nodes]
  drafted_tokens tree;
  const law<float>* q;
  const shortlist* lists;
};

template <class V>
void judge(const problem& c, V rule) {
  if (!V::accepts(c.children, c.is_chain) ||
      (V::needs_draft_law && c.children == child_law::ranked)) {
    return;
  }
  using laws_type = sampled_laws<float, test::every_stage>;
  const auto nodes = c.histories.size();
  std::vector<float> rows = c.rows;
  std::vector<target_row<float>> targets;
  for (std::size_t i = 0; i < nodes; ++i) {
    float* const row = rows.data() + i * static_cast<std::size_t>(c.vocab);
    targets.push_back({{row, c.vocab}, c.with, c.histories[i]});
  }
  std::vector<law<float>> made(nodes, laws_type::unmade);
  std::vector<double> scratch(nodes);
  std::vector<std::int32_t> path(nodes, -1);
  const laws_type laws{targets.data(), made.data(), {}};
  verdict out;
  out.path = path.data();
  team::serial team;
  rule(team,
       verify_view<laws_type, stored_drafts<law<float>>>{
           c.tree, c.children, laws, {c.q, c.lists}, 7, 3, scratch.data()},
       c.random, out);

  for (std::size_t i = 0; i < nodes; ++i) {
    const float* const row = c.rows.data() + i * static_cast<std::size_t>(c.vocab);
    check_law(laws(team, static_cast<std::int32_t>(i)), row, c.vocab, edits(c.with));
  }
  must(out.accepted >= 0 && out.accepted < c.tree.count, "accepted nodes are nodes");
  std::int32_t node = 0;
  const auto possible = [&](token t) {
    must(t >= 0 && t < c.vocab, "a token");
    const law<float>& p = made[static_cast<std::size_t>(node)];
    must(p.status == status::ok && p.prob(t) > 0.0f, "an emitted token is possible");
    token_log_probability report[3];
    const kernel::log_probability_task<float> task{&p, t, 2, report};
    kernel::report_log_probabilities<float>{&task}(team, 0);
    must(report[0].t == t && report[0].log_probability < 1e-5f, "its log-probability");
    must(report[1].log_probability >= report[0].log_probability - 1e-3f, "at most the largest");
  };
  for (std::int32_t i = 0; i < out.accepted; ++i) {
    const std::int32_t next = path[static_cast<std::size_t>(i)];
    must(next > 0 && next < c.tree.count && c.tree.parent[next] == node, "a path of the tree");
    possible(c.tree.tokens[next]);
    node = next;
  }
  if (out.status == status::ok) { return possible(out.next); }
  must(out.failed_node == node && made[static_cast<std::size_t>(node)].status == out.status,
       "an error is that of the row after what was accepted, and none of a draft that was drawn");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  test::bytes in{data, size};
  const std::int32_t vocab = 1 + in.below(10) + (in.below(8) == 0 ? 130 : 0);
  const std::int32_t nodes = 1 + in.below(6);
  const auto count = static_cast<std::size_t>(nodes);
  const auto width = static_cast<std::size_t>(vocab);
  std::vector<logit_bias> biases;
  const test::every_stage sampler;
  problem c{vocab,
            parameters_of(in, biases, vocab),
            in.below(2) == 0,
            static_cast<child_law>(in.below(3)),
            {{in.byte()}},
            {},
            {},
            {},
            nullptr,
            nullptr};
  must((sampler.check(c.with) == status::ok) == in_range(c.with),
       "parameters refused if and only if wrong");
  if (!in_range(c.with)) { return 0; }

  // A shortlist of one or two ranges of a head in another order.
  std::vector<token> order;
  const std::int32_t turn = in.below(vocab);
  for (std::int32_t v = 0; v < vocab; ++v) { order.push_back((v + turn) % vocab); }
  const vocab_layout layout =
      in.below(2) == 0 ? vocab_layout::identity(vocab) : vocab_layout::permuted(order, vocab);
  const std::int32_t cut = in.below(vocab);
  const row_range ranges[] = {{0, cut + 1}, {std::min(cut + 2, vocab), vocab}};
  const bool whole = in.below(2) == 0;
  const row_range all{0, vocab};
  const shortlist list =
      whole ? layout.list(&all, 1) : layout.list(ranges, ranges[1].begin < vocab ? 2 : 1);

  // A text before the draft, and what may come after each node.
  std::vector<token> text;
  for (std::int32_t n = in.below(6); n >= 0; --n) { text.push_back(in.below(vocab)); }
  counted_text census(vocab, text, 4);
  for (std::int32_t n = in.below(4); n > 0; --n) {
    text.push_back(in.below(vocab));
    census.emit(text.back());
  }
  const auto words = static_cast<std::size_t>(allowed_words(vocab));
  std::vector<std::uint32_t> allowed(count * words);
  for (std::uint32_t& w : allowed) { w = in.empty() ? ~0u : in.word(); }

  std::vector<std::int32_t> parent{-1};
  for (std::int32_t i = 1; i < nodes; ++i) { parent.push_back(c.is_chain ? i - 1 : in.below(i)); }
  std::vector<float> rows(2 * count * width);
  std::vector<float> pattern(7);
  for (float& x : pattern) { x = in.real(); }
  for (std::size_t i = 0; i < rows.size(); ++i) {
    rows[i] = in.empty() ? pattern[i % pattern.size()] : in.real();
  }
  c.rows.assign(rows.begin(), rows.begin() + static_cast<std::ptrdiff_t>(count * width));
  float* const draft_rows = rows.data() + count * width;

  std::vector<token> tokens(count, 0);
  std::vector<std::int32_t> drawn_at(count, 0);
  std::vector<law<float>> q(count);
  std::vector<bool> has_law(count, false);
  std::vector<shortlist> lists(count, list);
  const auto history = [&](std::int32_t node, const shortlist* over) {
    return row_history{
        over,
        text.data(),
        static_cast<std::int32_t>(text.size()),
        census.view(),
        tokens.data(),
        parent.data(),
        node,
        c.with.constrained ? &allowed[static_cast<std::size_t>(node) * words] : nullptr};
  };
  team::serial team;
  std::int32_t grown = 1;
  for (; grown < nodes; ++grown) {
    const std::int32_t above = parent[static_cast<std::size_t>(grown)];
    const auto from = static_cast<std::size_t>(above);
    const auto node = static_cast<std::size_t>(grown);
    if (c.children == child_law::ranked) {
      tokens[node] = in.below(vocab);
      continue;
    }
    if (!has_law[from]) {
      q[from] = sampler(team, row_view<float>{draft_rows + from * width, list.size}, c.with,
                        history(above, &list));
      has_law[from] = true;
    }
    if (q[from].status != status::ok) { break; }
    const auto weight = [&](std::int64_t at) {
      bool taken = false;
      for (std::size_t i = from + 1; i < node; ++i) {
        taken = taken || (parent[i] == above && drawn_at[i] == at &&
                          c.children == child_law::without_replacement);
      }
      return taken ? 0.0f : q[from].weight(at);
    };
    const address where{7, 3, static_cast<std::uint32_t>(above), static_cast<std::uint32_t>(grown),
                        purpose::draft};
    const std::int64_t at = c.random.categorical(team, where, list.size, weight);
    if (at < 0) { break; }
    must(q[from].prob(at) > 0.0f, "only what is possible is drafted");
    drawn_at[node] = static_cast<std::int32_t>(at);
    tokens[node] = list.token_at(drawn_at[node]);
  }
  for (std::int32_t i = 0; i < grown; ++i) { c.histories.push_back(history(i, nullptr)); }
  c.tree = {grown, tokens.data(), parent.data(), drawn_at.data()};
  c.q = q.data();
  c.lists = lists.data();
  judge(c, verifier::rejection{});
  judge(c, verifier::block{});
  judge(c, verifier::point_mass{});
  judge(c, verifier::coupled{});
  judge(c, verifier::typical{});
  judge(c, verifier::top_k{1 + in.below(4)});
  return 0;
}
