// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include <cuda_runtime.h>

#include <hunch/distribution/law.hpp>
#include <hunch/distribution/restrict.hpp>
#include <hunch/draft/draft_tree.hpp>
#include <hunch/executor/cuda.cuh>
#include <hunch/model/rows.hpp>
#include <hunch/sampler/pipeline.hpp>
#include <hunch/sampler/temperature.hpp>
#include <hunch/verifier/rejection.hpp>
#include <hunch/verifier/verify_rows.hpp>
#include <hunch/vocab/vocab_layout.hpp>

/// \file
/// Batches of drafted chains with the arrays that an engine would hold for them.

namespace bench::device {

inline constexpr std::int32_t chain_length = 5;
inline constexpr std::int32_t chain_nodes = chain_length + 1;

using plain = hunch::sampler::pipeline<hunch::sampler::temperature>;

/// The law that child `index % 5` of chain `index / 5` was drawn from, and the child: a given
/// token, or the favourite of that law.
struct plant_child {
  const float* draft;           ///< [batch, 5, vocab]
  const hunch::token* drafted;  ///< [batch, 5]; or nullptr
  std::int32_t vocab;
  hunch::law<float>* laws;  ///< [batch, 6] out
  hunch::token* tokens;     ///< [batch, 6] out; so is where it was drawn, over all tokens

  template <hunch::Team T>
  HUNCH_HOST_DEVICE void operator()(T& team, std::int32_t index) const {
    float* const row = const_cast<float*>(draft) + static_cast<std::int64_t>(index) * vocab;
    const hunch::law<float> q = plain{}(team, hunch::row_view<float>{row, vocab}, {}, {});
    const hunch::token t = drafted == nullptr ? hunch::kernel::argmax(team, q) : drafted[index];
    const std::int32_t node = index / chain_length * chain_nodes + index % chain_length;
    if (team.rank() == 0) {
      laws[node] = q;
      tokens[node + 1] = t;
    }
  }
};

/// Verifies chains from logits: what was drafted and its laws are known, as a drafter leaves them;
/// the target's rows have just been written and nothing is known of them.
/// \tparam Random of the verifier.
template <class Random>
class chain_batch {
  using laws_type = hunch::sampled_laws<float, plain>;
  using view =
      hunch::verify_view<laws_type, hunch::stored_drafts<hunch::law<float>>, hunch::chain_tokens>;
  using cuda = hunch::executor::cuda;

 public:
  /// \param target [batch, 6, vocab], \param draft [batch, 5, vocab] logits on the device.
  /// \param drafted [batch, 5] tokens there; nullptr: the favourites of the draft's laws.
  chain_batch(cuda& executor, std::int32_t batch, std::int32_t vocab, float* target,
              const float* draft, const hunch::token* drafted, Random random)
      : executor_(executor),
        batch_(batch),
        random_(random),
        tokens_(executor_, nodes()),
        parents_(executor_, nodes()),
        paths_(executor_, nodes()),
        made_(executor_, nodes()),
        drawn_from_(executor_, nodes()),
        scratch_(executor_, nodes()),
        rows_(executor_, nodes()),
        lists_(executor_, nodes()),
        whole_(executor_, 1),
        views_(executor_, static_cast<std::size_t>(batch)),
        verdicts_(executor_, static_cast<std::size_t>(batch)) {
    const hunch::row_range whole{0, vocab};
    const hunch::shortlist everything{.ranges = whole_.data(),
                                      .range_count = 1,
                                      .size = vocab,
                                      .row_token = nullptr,
                                      .token_row = nullptr,
                                      .vocab_size = vocab};
    std::vector<std::int32_t> parents;
    std::vector<hunch::target_row<float>> rows;
    std::vector<view> views;
    std::vector<hunch::verdict> verdicts(static_cast<std::size_t>(batch));
    for (std::int32_t b = 0; b < batch; ++b) {
      const std::int32_t first = b * chain_nodes;
      for (std::int32_t i = 0; i < chain_nodes; ++i) {
        parents.push_back(i - 1);
        rows.push_back({{target + static_cast<std::int64_t>(first + i) * vocab, vocab}, {}, {}});
      }
      // Over all tokens the place where a token was drawn is the token.
      views.push_back({.tree = {{.count = chain_nodes,
                                 .tokens = tokens_.data() + first,
                                 .parent = parents_.data() + first,
                                 .drawn_at = tokens_.data() + first}},
                       .children = hunch::child_law::independent,
                       .target = {rows_.data() + first, made_.data() + first, {}},
                       .drafts = {drawn_from_.data() + first, lists_.data() + first},
                       .seed = static_cast<std::uint64_t>(b),
                       .length = 100,
                       .scratch = scratch_.data() + first});
      verdicts[static_cast<std::size_t>(b)].path = paths_.data() + first;
    }
    const std::vector<hunch::shortlist> lists(nodes(), everything);
    executor_.upload(whole_.data(), &whole, 1);
    executor_.upload(parents_.data(), parents.data(), parents.size());
    executor_.upload(rows_.data(), rows.data(), rows.size());
    executor_.upload(lists_.data(), lists.data(), lists.size());
    executor_.upload(views_.data(), views.data(), views.size());
    executor_.upload(verdicts_.data(), verdicts.data(), verdicts.size());
    executor_.launch(batch * chain_length,
                     plant_child{draft, drafted, vocab, drawn_from_.data(), tokens_.data()});
    executor_.synchronize();
  }

  /// Enqueues that nothing is known of the target's rows, as before every verification.
  void forget() {
    hunch::executor::detail::check(
        cudaMemsetAsync(made_.data(), 0, nodes() * sizeof(hunch::law<float>), executor_.stream()),
        "cudaMemsetAsync");
  }
  /// Enqueues that the laws of all rows are made, a team each.
  void make_laws() {
    executor_.launch(batch_ * chain_nodes,
                     hunch::kernel::make_laws<float, plain>{{rows_.data(), made_.data(), {}}});
  }
  /// Enqueues the verification; laws that are not there are made when they are asked for.
  void verify() {
    executor_.launch(batch_,
                     hunch::kernel::verify_sequences<view, hunch::verifier::rejection, Random>{
                         views_.data(), verdicts_.data(), {}, random_});
  }

  /// The last verdicts.
  std::vector<hunch::verdict> verdicts() {
    std::vector<hunch::verdict> out(verdicts_.size());
    executor_.download(out.data(), verdicts_.data(), out.size());
    return out;
  }

 private:
  template <class T>
  using resident = cuda::resident<T>;

  std::size_t nodes() const { return static_cast<std::size_t>(batch_ * chain_nodes); }

  cuda executor_;
  std::int32_t batch_;
  Random random_;
  resident<hunch::token> tokens_;
  resident<std::int32_t> parents_;
  resident<std::int32_t> paths_;
  resident<hunch::law<float>> made_;
  resident<hunch::law<float>> drawn_from_;
  resident<double> scratch_;
  resident<hunch::target_row<float>> rows_;
  resident<hunch::shortlist> lists_;
  resident<hunch::row_range> whole_;
  resident<view> views_;
  resident<hunch::verdict> verdicts_;
};

}  // namespace bench::device
