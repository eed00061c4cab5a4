// SPDX-License-Identifier: Apache-2.0
#include <bit>
#include <cstdint>
#include <cstdio>
#include <initializer_list>
#include <limits>
#include <string>
#include <vector>

#include <hunch/hunch.hpp>
#include <hunch/tools/detail/kmeans.hpp>
#include <hunch/tools/router_weights.hpp>

/// \file
/// The bits that host loops compute, a line for each kind: they must not depend on the flags that a
/// program is compiled with, nor on the instructions that its processor has. Compiled many times;
/// see CMakeLists.txt and compare.cmake.

namespace {

using namespace hunch;

/// A hash of everything that one line is about.
class line {
 public:
  explicit line(std::string name) : name_(std::move(name)) {}
  ~line() { std::printf("%s %016llx\n", name_.c_str(), static_cast<unsigned long long>(hash_)); }
  line(const line&) = delete;
  line& operator=(const line&) = delete;

  void add(std::uint64_t word) {
    hash_ ^= word + 0x9e3779b97f4a7c15u + (hash_ << 6) + (hash_ >> 2);
    hash_ *= 0xff51afd7ed558ccdu;
    hash_ ^= hash_ >> 33;
  }
  void add(double x) { add(std::bit_cast<std::uint64_t>(x)); }
  void add(float x) { add(std::uint64_t{std::bit_cast<std::uint32_t>(x)}); }
  void add(std::int32_t x) { add(static_cast<std::uint64_t>(x)); }
  void add(std::int64_t x) { add(static_cast<std::uint64_t>(x)); }
  template <class Real>
  void add(const law<Real>& l) {
    add(l.scale);
    add(l.maximum);
    add(l.norm);
    add(l.threshold);
    add(l.last_kept);
    add(static_cast<std::int32_t>(l.status));
  }

 private:
  std::string name_;
  std::uint64_t hash_ = 0;
};

/// Random numbers by integers alone.
struct dice {
  std::uint64_t state;

  std::uint32_t word() {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return static_cast<std::uint32_t>(state >> 33);
  }
  /// In [-1, 1), a multiple of 2^-20.
  float unit() { return static_cast<float>(word() % (1u << 21)) * 0x1p-20f - 1.0f; }
};

enum class kind { peaked, flat, tied, masked, poisoned };

std::vector<float> row_of(std::int32_t n, kind k, std::uint64_t seed) {
  constexpr float infinity = std::numeric_limits<float>::infinity();
  std::vector<float> row(static_cast<std::size_t>(n));
  dice random{seed};
  for (float& x : row) {
    const float u = random.unit() + random.unit() + random.unit();
    x = k == kind::tied ? 0.5f * static_cast<float>(random.word() % 7) : 3.0f * u;
    if (k == kind::peaked && random.word() % 997 == 0) { x += 8.0f; }
    if (k == kind::masked && random.word() % 3 != 0) { x = -infinity; }
    if (random.word() % 50 == 0) { x = random.word() % 2 == 0 ? 0.0f : -0.0f; }
  }
  if (k == kind::poisoned) {
    const float bad[] = {std::bit_cast<float>(0x7fc00001u), std::bit_cast<float>(0xffc00000u),
                         infinity};
    row[random.word() % row.size()] = bad[seed % 3];
  }
  return row;
}

using everything_sampler =
    sampler::pipeline<sampler::penalties, sampler::bias, sampler::allowed_tokens,
                      sampler::temperature, sampler::top_k, sampler::top_p, sampler::min_p>;

void laws_and_draws(std::int32_t n) {
  const std::string size = " n=" + std::to_string(n);
  line plain("laws" + size), draws("draws" + size), noisy("noisy argmax" + size),
      cuts("cuts" + size), residuals("residuals" + size), edits("edits" + size);
  team::serial team;
  const random_source<> random;
  constexpr sampling_parameters scaled[] = {{1.0f}, {0.3f}, {7.0f}, {0.0f}};
  constexpr sampling_parameters cut[] = {
      {1.0f, 50},      {1.0f, 0, 0.9f},        {1.0f, 0, 0.999f},
      {0.7f, 0, 0.5f}, {1.0f, 0, 1.0f, 0.05f}, {0.9f, 3000, 0.95f, 0.001f}};
  std::uint64_t seed = 1;
  for (const kind k : {kind::peaked, kind::flat, kind::tied, kind::masked, kind::poisoned}) {
    std::vector<float> p_row = row_of(n, k, ++seed);
    std::vector<float> q_row = row_of(n, kind::peaked, ++seed);
    const row_view<float> view{p_row.data(), n};
    for (const sampling_parameters& with : scaled) {
      const law<float> p = everything_sampler{}(team, view, with, {});
      plain.add(p);
      if (p.status != status::ok) { continue; }
      for (std::uint32_t i = 0; i < 4; ++i) {
        draws.add(random.categorical(team, {++seed, i}, n, weights_of{p}));
        noisy.add(random.noisy_argmax(team, noise_address(++seed, i), p));
      }
      plain.add(p.prob(n / 3));
      const law<float> q = everything_sampler{}(team, row_view<float>{q_row.data(), n}, with, {});
      // Over everything, over the second half, and over a few ranges.
      const row_range ranges[] = {{0, n}, {n / 2, n}, {n / 8, n / 4}};
      std::vector<std::int32_t> row_of_token(static_cast<std::size_t>(n));
      for (std::int32_t t = 0; t < n; ++t) { row_of_token[static_cast<std::size_t>(t)] = t; }
      const shortlist lists[] = {{&ranges[0], 1, n, nullptr, nullptr, n},
                                 {&ranges[1], 1, n - n / 2, nullptr, row_of_token.data(), n},
                                 {&ranges[1], 1, n - n / 2, nullptr, nullptr, n}};
      for (const shortlist& list : lists) {
        kernel::token_set removed(team);
        removed.add(team, n / 2);
        kernel::with_residual(p, q, list, 1.0f, 0.75f, [&](const auto& weight) {
          residuals.add(team.sum(n, weight));
          residuals.add(random.categorical(team, {++seed}, n, weight));
          const auto both = team.sum_both(n, kernel::residual_and_remainder{weight, removed});
          residuals.add(both.first);
          residuals.add(both.second);
        });
      }
    }
    for (const sampling_parameters& with : cut) {
      const law<float> p = everything_sampler{}(team, view, with, {});
      cuts.add(p);
      if (p.status == status::ok) {
        cuts.add(random.categorical(team, {++seed}, n, weights_of{p}));
      }
    }
    std::vector<std::uint32_t> allowed(static_cast<std::size_t>((n + 31) / 32));
    dice words{seed};
    for (std::uint32_t& w : allowed) { w = words.word() | words.word() << 16; }
    std::vector<token> text;
    for (int i = 0; i < 40; ++i) {
      text.push_back(static_cast<token>(words.word() % static_cast<std::uint32_t>(n)));
    }
    const counted_text census(n, text, 8);
    sampling_parameters with;
    with.repetition_penalty = 1.3f;
    with.frequency_penalty = 0.1f;
    with.constrained = true;
    row_history history;
    history.committed = text.data();
    history.length = static_cast<std::int32_t>(text.size());
    history.counts = census.view();
    history.allowed = allowed.data();
    edits.add(everything_sampler{}(team, view, with, history));
    for (const float x : p_row) { edits.add(x); }
  }
}

/// Rows of 16-bit logits.
template <class Half>
void laws_of_halves(const char* name, std::int32_t n) {
  line laws(std::string("laws of ") + name + " n=" + std::to_string(n));
  team::serial team;
  const random_source<> random;
  const auto rounded = [n](kind k, std::uint64_t seed) {
    std::vector<Half> row;
    for (const float x : row_of(n, k, seed)) { row.push_back(to_logit<Half>(x)); }
    return row;
  };
  constexpr sampling_parameters asked[] = {{1.0f}, {0.7f, 50}, {1.0f, 0, 0.9f}, {0.0f}};
  std::uint64_t seed = 1;
  for (const kind k : {kind::peaked, kind::flat, kind::tied, kind::masked, kind::poisoned}) {
    std::vector<Half> p_row = rounded(k, ++seed);
    std::vector<Half> q_row = rounded(kind::peaked, ++seed);
    for (const sampling_parameters& with : asked) {
      const law<Half> p = everything_sampler{}(team, row_view<Half>{p_row.data(), n}, with, {});
      const law<Half> q = everything_sampler{}(team, row_view<Half>{q_row.data(), n}, with, {});
      laws.add(p);
      if (p.status != status::ok) { continue; }
      laws.add(random.categorical(team, {++seed}, n, weights_of{p}));
      laws.add(random.noisy_argmax(team, noise_address(++seed, 1), p));
      const row_range whole{0, n};
      const shortlist everything{&whole, 1, n, nullptr, nullptr, n};
      kernel::with_residual(p, q, everything, 1.0f, 0.75f, [&](const auto& weight) {
        laws.add(random.categorical(team, {++seed}, n, weight));
      });
    }
  }
}

/// A weight of any exponent that its type has among small ones.
template <class Weight>
Weight weight_of(dice& random) {
  if constexpr (std::is_same_v<Weight, float>) {
    return random.unit();
  } else if constexpr (std::is_same_v<Weight, std::int8_t>) {
    return static_cast<std::int8_t>(random.word());
  } else {
    // Exponents of 8 or 5 bits, none of which is above 1.
    const std::uint32_t sign = random.word() % 2 << 15;
    const std::uint32_t most = std::is_same_v<Weight, bfloat16> ? 0x3f80u : 0x3c00u;
    return Weight{static_cast<std::uint16_t>(sign | random.word() % most)};
  }
}

template <class Weight>
void heads(const char* name) {
  line products(std::string("head ") + name);
  team::serial team;
  for (const std::int32_t width : {1, 63, 64, 200, 1024}) {
    constexpr std::int32_t rows = 75;
    dice random{static_cast<std::uint64_t>(width)};
    std::vector<Weight> weights(static_cast<std::size_t>(rows * width));
    for (Weight& w : weights) { w = weight_of<Weight>(random); }
    std::vector<float> hidden(static_cast<std::size_t>(width));
    for (float& x : hidden) { x = random.unit(); }
    const kernel::head_weights<Weight> head{weights.data(), rows, width};
    std::vector<float> logits(static_cast<std::size_t>(rows));
    kernel::gemv(team, head, hidden.data(), logits.data());
    for (const float x : logits) { products.add(x); }
    const row_range ranges[] = {{3, 5}, {20, 41}, {60, rows}};
    const shortlist list{ranges, 3, 2 + 21 + rows - 60, nullptr, nullptr, rows};
    kernel::range_gemv(team, head, list, hidden.data(), {logits.data(), list.size});
    for (std::int32_t i = 0; i < list.size; ++i) {
      products.add(logits[static_cast<std::size_t>(i)]);
    }
    std::vector<float> factors(static_cast<std::size_t>(rows));
    for (float& x : factors) { x = random.unit(); }
    const kernel::head_weights<Weight> scaled{weights.data(), rows, width, factors.data()};
    kernel::gemv(team, scaled, hidden.data(), logits.data());
    for (const float x : logits) { products.add(x); }
  }
}

/// A law in double, of which tests of exactness are made.
void laws_in_double(std::int32_t n) {
  line laws("double n=" + std::to_string(n));
  team::serial team;
  std::uint64_t seed = 70;
  for (const kind k : {kind::peaked, kind::masked}) {
    const std::vector<float> narrow = row_of(n, k, ++seed);
    std::vector<double> row(narrow.begin(), narrow.end());
    const law<double> l = sampler::pipeline<sampler::temperature>{}(
        team, row_view<double>{row.data(), n}, {0.7f}, {});
    laws.add(l);
    for (std::uint32_t i = 0; i < 4; ++i) {
      laws.add(random_source<>{}.categorical(team, {++seed, i}, n, weights_of{l}));
    }
    laws.add(l.prob(n / 3));
  }
}

/// What the epilogue of a head leaves of a row.
void summaries(std::int32_t n) {
  line of_rows("summaries n=" + std::to_string(n));
  team::serial team;
  constexpr std::int32_t count = 10;
  const auto tiles = static_cast<std::size_t>(team::tiles_of(n));
  for (const kind k : {kind::peaked, kind::tied, kind::masked, kind::poisoned}) {
    std::vector<float> row = row_of(n, k, 80);
    std::vector<team::soft_total<std::int32_t>> totals(tiles);
    std::vector<std::int64_t> best(tiles * count);
    const row_view<float> view{row.data(), n};
    const row_summary summary{1.75f, totals.data(), count, best.data()};
    const std::int32_t asked = 0;
    for (std::int32_t t = 0; t < team::tiles_of(n); ++t) {
      kernel::summarise_rows{&view, &asked, &summary, team::tiles_of(n)}(team, t);
    }
    for (const auto& total : totals) {
      of_rows.add(total.top);
      of_rows.add(total.sum);
    }
    for (const std::int64_t x : best) { of_rows.add(x); }
  }
}

/// What would be written next into a canvas whose positions have rows of every kind.
template <diffusion::Order O>
void unmaskings(const char* name, std::int32_t n) {
  line planned(std::string("unmaskings by ") + name + " n=" + std::to_string(n));
  team::serial team;
  for (const float temperature : {0.0f, 1.0f, 0.6f}) {
    constexpr std::int32_t positions = 6;
    constexpr kind kinds[] = {kind::flat, kind::peaked, kind::tied, kind::masked, kind::poisoned};
    std::vector<std::vector<float>> rows;
    std::vector<row_view<float>> logits;
    std::vector<diffusion::wanted_position> wanted;
    for (std::int32_t i = 0; i < positions; ++i) {
      rows.push_back(row_of(n, kinds[i % 5], static_cast<std::uint64_t>(90 + i)));
      logits.push_back({rows.back().data(), n});
      wanted.push_back({.position = i, .block = i / 4, .slot = 0});
    }
    using digests_type = diffusion::position_digests<float, everything_sampler, O, random_source<>>;
    std::vector<diffusion::position_digest<float>> made(positions, digests_type::unmade);
    const digests_type all{.wanted = wanted.data(),
                           .logits = logits.data(),
                           .made = made.data(),
                           .parameters = {temperature},
                           .seed = 7,
                           .mask_token = n / 2,
                           .sampler = {},
                           .order = {},
                           .random = {}};
    const diffusion::canvas_positions canvas{0, positions, 4};
    const diffusion::drafts_view<digests_type> view{{}, &canvas, all};
    diffusion::planned_draft drafts[positions];
    kernel::choose_unmaskings<diffusion::drafts_view<digests_type>>{&view, drafts, positions, true}(
        team, 0);
    for (const diffusion::planned_draft& d : drafts) {
      planned.add(d.what.position);
      planned.add(d.what.t);
      planned.add(d.probability);
      planned.add(d.entropy);
    }
    for (const auto& d : made) { planned.add(d.score); }
    planned.add(view.choice(team, 0).what.t);
  }
}

/// Clusters of the rows of a head.
void clusters() {
  line found("clusters");
  team::serial team;
  constexpr std::int32_t rows = 700, width = 96, count = 9, teams = 3;
  static_assert(teams * kernel::kmeans_rows >= rows && rows > (teams - 1) * kernel::kmeans_rows);
  dice random{5};
  std::vector<bfloat16> weights(rows * width);
  for (bfloat16& w : weights) { w = weight_of<bfloat16>(random); }
  std::vector<float> inverse(rows), gap(rows), by_centre(count * width), by_width(count * width),
      cosine(rows);
  std::vector<std::int32_t> cluster(rows, -1);
  const kernel::directions<bfloat16> of{{weights.data(), rows, width}, inverse.data()};
  const kernel::centres to{by_centre.data(), by_width.data(), count, width};
  const std::uint8_t open[count] = {1, 1, 1, 1, 1, 1, 1, 1, 1};
  std::int32_t moved[teams];
  const auto every_team = [&](const auto& body) {
    for (std::int32_t t = 0; t < teams; ++t) { body(team, t); }
  };
  every_team(kernel::measure_directions<bfloat16>{of, gap.data()});
  for (std::int32_t c = 0; c < count; ++c) {
    kernel::draw_centre<bfloat16>{of, to, gap.data(), c, 3}(team, 0);
    every_team(kernel::narrow_gaps<bfloat16>{of, to.of(c), gap.data()});
  }
  for (int round = 0; round < 3; ++round) {
    every_team(kernel::assign_rows<bfloat16>{of, to, {cluster.data(), cosine.data()}, open, moved});
    std::vector<std::int32_t> members, begin{0};
    for (std::int32_t c = 0; c < count; ++c) {
      for (std::int32_t r = 0; r < rows; ++r) {
        if (cluster[static_cast<std::size_t>(r)] == c) { members.push_back(r); }
      }
      begin.push_back(static_cast<std::int32_t>(members.size()));
    }
    for (std::int32_t c = 0; c < count; ++c) {
      kernel::move_centre<bfloat16>{of, to, members.data(), begin.data()}(team, c);
    }
    for (const std::int32_t c : cluster) { found.add(c); }
    for (const float x : cosine) { found.add(x); }
    for (const float x : by_centre) { found.add(x); }
  }
}

/// A router's scores, of floats and of bytes with factors.
void scores() {
  line of_clusters("router");
  team::serial team;
  dice random{6};
  router::weights net;
  net.inputs = 200;
  net.width = 64;
  net.clusters = 33;
  const auto fill = [&](std::vector<float>& values, std::int32_t size) {
    values.resize(static_cast<std::size_t>(size));
    for (float& x : values) { x = random.unit(); }
  };
  fill(net.first, net.width * net.inputs);
  fill(net.first_bias, net.width);
  fill(net.second, net.clusters * net.width);
  fill(net.second_bias, net.clusters);
  std::vector<float> context, workspace, out;
  fill(context, net.inputs);
  fill(workspace, net.width);
  fill(out, net.clusters);
  const auto add = [&](const auto& scored) {
    scored(team, context.data(), workspace.data(), out.data());
    for (const float x : out) { of_clusters.add(x); }
  };
  add(net.view());
  const router::quantised bytes(net);
  add(bytes.view());
}

/// Whole verdicts about drafts whose laws are near to the target's.
template <Verifier V>
void verdicts(const char* name, std::int32_t n, std::initializer_list<std::int32_t> parents,
              child_law children, V rule) {
  line decided(std::string(name) + " n=" + std::to_string(n));
  team::serial team;
  const random_source<> random;
  const std::size_t nodes = parents.size();
  for (std::uint64_t seed = 0; seed < 12; ++seed) {
    std::vector<std::vector<float>> rows;
    std::vector<law<float>> p, q;
    std::vector<std::int32_t> parent(parents), tokens(nodes), path(nodes, -1);
    const row_range whole{0, n};
    const std::vector<shortlist> lists(nodes, {&whole, 1, n, nullptr, nullptr, n});
    for (std::size_t c = 0; c < nodes; ++c) {
      rows.push_back(row_of(n, seed % 2 == 0 ? kind::peaked : kind::flat, 100 * seed + c));
      rows.push_back(rows.back());
      dice other{seed};
      for (float& x : rows.back()) { x += 0.5f * other.unit(); }
    }
    for (std::size_t c = 0; c < nodes; ++c) {
      const auto law_of = [&](std::vector<float>& row) {
        return everything_sampler{}(team, row_view<float>{row.data(), n}, {0.8f}, {});
      };
      p.push_back(law_of(rows[2 * c]));
      q.push_back(law_of(rows[2 * c + 1]));
    }
    for (std::size_t c = 1; c < nodes; ++c) {
      // Another one for each sibling, as if they were drawn without replacement.
      std::uint32_t tries = 0;
      const auto is_there = [&] {
        for (std::size_t i = 1; i < c; ++i) {
          if (parent[i] == parent[c] && tokens[i] == tokens[c]) { return true; }
        }
        return false;
      };
      do {
        tokens[c] = static_cast<token>(
            random.categorical(team, {seed, static_cast<std::uint32_t>(c), tries++}, n,
                               weights_of{q[static_cast<std::size_t>(parent[c])]}));
      } while (is_there());
    }
    verdict out;
    out.path = path.data();
    const logits_view<float> view{
        {static_cast<std::int32_t>(nodes), tokens.data(), parent.data(), tokens.data()},
        children,
        {p.data()},
        {q.data(), lists.data()},
        seed,
        9};
    rule(team, view, random, out);
    for (std::int32_t i = 0; i < out.accepted; ++i) {
      decided.add(path[static_cast<std::size_t>(i)]);
    }
    decided.add(out.accepted);
    decided.add(out.next);
    decided.add(static_cast<std::int32_t>(out.next_origin));
    decided.add(static_cast<std::int32_t>(out.status));
  }
}

/// The lengths that a policy decides on, and what it has learnt, over a text.
template <LengthPolicy L>
void lengths(const std::string& name, const L& policy) {
  line decided("lengths by " + name);
  typename L::memory memory;
  dice random{71};
  for (int step = 0; step < 500; ++step) {
    const std::int32_t limit = policy.begin(memory, 9);
    std::int32_t drafted = 0;
    double reach = 1.0;
    for (bool more = limit > 0; more;) {
      ++drafted;
      const double probability = 0.5 + 0.5 * static_cast<double>(random.unit());
      reach *= probability;
      more = drafted < limit && policy.continues(memory, {.depth = drafted,
                                                          .probability = probability,
                                                          .reach = reach,
                                                          .entropy = 3.0 * (1.0 - probability),
                                                          .rows = 1 + 2 * drafted,
                                                          .max_rows = 12,
                                                          .drawn = step % 2 == 0});
    }
    decided.add(limit);
    decided.add(drafted);
    if constexpr (requires { memory.rate; }) {
      decided.add(memory.rate);
      decided.add(memory.survival);
    }
    if constexpr (requires { memory.accepted; }) { decided.add(memory.accepted); }
    std::int32_t accepted = 0;
    while (accepted < drafted && random.word() % 10 < 6) { ++accepted; }
    policy.observe(memory, drafted, accepted);
  }
}

}  // namespace

int main(int argc, char**) {
  for (const std::int32_t n : {1, 31, 4096, 4097, 32003, 128256, 300000}) { laws_and_draws(n); }
  for (const std::int32_t n : {31, 4097, 32003}) {
    laws_of_halves<bfloat16>("bfloat16", n);
    laws_of_halves<float16>("float16", n);
  }
  heads<float>("float");
  heads<bfloat16>("bfloat16");
  heads<float16>("float16");
  heads<std::int8_t>("int8");
  laws_in_double(40003);
  summaries(12345);
  unmaskings<diffusion::order::confidence>("confidence", 5000);
  unmaskings<diffusion::order::entropy>("entropy", 5000);
  clusters();
  scores();
  verdicts("block", 9000, {-1, 0, 1, 2, 3, 4}, child_law::independent, verifier::block{});
  const auto tree = {-1, 0, 0, 0, 1, 1, 2};
  verdicts("tree", 9000, tree, child_law::independent, verifier::rejection{});
  verdicts("tree of different siblings", 9000, tree, child_law::without_replacement,
           verifier::rejection{});
  const double costs[] = {1.0, 1.07, 1.11, 1.36, 1.4, 1.43, 1.71};
  lengths("cost", length::cost{.draft = 0.07, .rows = costs, .expected = 0.45});
  lengths("ewma", length::ewma{});
  lengths("entropy", length::entropy{});
  // With an argument it prints something else, for the control.
  line("arguments").add(argc - 1);
}
