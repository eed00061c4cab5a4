// SPDX-License-Identifier: Apache-2.0
#include "operations.hpp"

#include <algorithm>
#include <cstdint>

/// \file
/// Compiled with several sets of flags, HUNCH_BENCH_NAME being another for each; see
/// bench/CMakeLists.txt.

namespace bench {

/// A function of the same name in all libraries: if one called that of another, what it says would
/// not be what it was compiled with.
inline __attribute__((noinline)) void say_instructions(operations& of) {
#if defined(__OPTIMIZE__)
  of.optimised = true;
#endif
#if defined(__AVX2__)
  of.avx2 = true;
#endif
#if defined(__AVX512F__)
  of.avx512 = true;
#endif
}

namespace {

using namespace hunch;

using every_stage =
    sampler::pipeline<sampler::penalties, sampler::bias, sampler::allowed_tokens,
                      sampler::temperature, sampler::top_k, sampler::top_p, sampler::min_p>;

law<float> make_law(row_view<float> row) {
  team::serial team;
  return sampler::pipeline{sampler::temperature{}}(team, row, {}, {});
}

law<float> top_k(row_view<float> row, std::int32_t k) {
  team::serial team;
  sampling_parameters with;
  with.top_k = k;
  return sampler::pipeline{sampler::temperature{}, sampler::top_k{}}(team, row, with, {});
}

law<float> top_p(row_view<float> row, float p) {
  team::serial team;
  sampling_parameters with;
  with.top_p = p;
  return sampler::pipeline{sampler::temperature{}, sampler::top_p{}}(team, row, with, {});
}

law<float> top_p_cut(row_view<float> row, float p) {
  team::serial team;
  law<float> l = kernel::unrestricted(team, row_view<const float>{row.data, row.size},
                                      kernel::scale_at_one<float>, status::invalid_logits);
  l.norm = 0.0f;
  kernel::keep_top_p(team, l, p);
  return l;
}

law<float> all_stages(row_view<float> row, const sampling_parameters& with,
                      const row_history& history) {
  team::serial team;
  return every_stage{}(team, row, with, history);
}

token coupled(row_view<float> row, std::uint64_t seed) {
  team::serial team;
  const law<float> l = sampler::pipeline{sampler::temperature{}}(team, row, {}, {});
  return random_source<>{}.noisy_argmax(team, noise_address(seed, 5), l);
}

template <class Verifier, child_law Children>
std::int32_t verify(draft& d, const scripted_words& words) {
  std::fill(d.p.begin(), d.p.end(), law<float>{});
  using laws = sampled_laws<float, every_stage>;
  const verify_view<laws, stored_drafts<law<float>>> view{
      {static_cast<std::int32_t>(d.tokens.size()), d.tokens.data(), d.parent.data(),
       d.drawn_at.data()},
      Children,
      {d.rows.data(), d.p.data(), {}},
      {d.q.data(), d.lists.data()},
      7,
      100,
      d.scratch.data()};
  verdict out;
  out.path = d.path.data();
  team::serial team;
  Verifier{}(team, view, random_source<scripted_words>{words}, out);
  return out.accepted;
}

template <class Weight>
head_operations<Weight> of_head() {
  using weights = kernel::head_weights<Weight>;
  return {
      [](const weights& head, const float* hidden, float* logits) {
        team::serial team;
        kernel::gemv(team, head, hidden, logits);
      },
      [](const weights& head, const shortlist& list, const float* hidden, row_view<float> logits) {
        team::serial team;
        kernel::range_gemv(team, head, list, hidden, logits);
      },
      [](const weights& head, const float* hidden, const head_rows<float>& asked) {
        executor::host executor;
        shortlist_head<executor::host, Weight> together(executor, head.rows, head.width);
        together(executor, head, hidden, head.width, asked);
      }};
}

operations all_operations() {
  operations out{
      .law = make_law,
      .top_k = top_k,
      .top_p = top_p,
      .top_p_cut = top_p_cut,
      .all_stages = all_stages,
      .coupled = coupled,
      .chain = verify<verifier::rejection, child_law::independent>,
      .ranked_tree = verify<verifier::point_mass, child_law::ranked>,
      .drawn_tree = verify<verifier::rejection, child_law::without_replacement>,
      .heads = {of_head<float>(), of_head<bfloat16>(), of_head<float16>(), of_head<std::int8_t>()}};
  say_instructions(out);
  return out;
}

}  // namespace

const operations& HUNCH_BENCH_NAME() {
  static const operations all = all_operations();
  return all;
}

}  // namespace bench
