// SPDX-License-Identifier: Apache-2.0

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <utility>

#include <hunch/decoder/resident_decoder.hpp>
#include <hunch/drafter/autoregressive.hpp>
#include <hunch/sampler/pipeline.hpp>
#include <hunch/sampler/temperature.hpp>
#include <hunch/selector/frequency.hpp>
#include <hunch/tree/chain.hpp>
#include <hunch/verifier/rejection.hpp>

#include "chains.hpp"
#include "language_rows.hpp"
#include "sections.hpp"

namespace bench::device {

using namespace hunch;

namespace {

constexpr int rounds = 15;
constexpr std::int32_t steps = 200;  ///< of a timed run
constexpr std::int32_t batch = 2;    ///< one slot more than is measured: see `step_loop`
constexpr std::int32_t chunk = 1;    ///< prompt tokens of a step
constexpr std::int32_t pass_rows = batch * chain_nodes + chunk;
constexpr float blur = 1.0f;  ///< of the draft's logits

}  // namespace

/// Logits of a draft row: what the target says, blurred.
struct fill_head {
  head_rows<float> asked;

  template <Team T>
  HUNCH_HOST_DEVICE void operator()(T& team, std::int32_t index) const {
    if (asked.row[index] < 0) { return; }
    const shortlist list = asked.lists[index];
    const row_view<float> row = asked.logits[index];
    team.for_each(list.size, [=](std::int64_t i) {
      row[i] = language_logit(0, list.token_at(static_cast<std::int32_t>(i)), blur);
    });
  }
};

/// A target and a draft model that launch nothing: their logits lie there already, in an array with
/// rows of their own for each row of a pass, but of one text.
class free_model {
 public:
  explicit free_model(cuda& executor)
      : executor_(executor), logits_(executor_, static_cast<std::size_t>(pass_rows) * vocab) {
    for (std::int64_t i = 0; i < pass_rows; ++i) {
      executor_.launch(1, fill_rows{logits_.data() + i * vocab, vocab, 0, 0.0f});
    }
  }

  struct pass {
    float* all;
    hunch::status status(std::int32_t) const { return hunch::status::ok; }
    row_view<float> logits(std::int32_t i) const {
      return {all + static_cast<std::int64_t>(i) * vocab, vocab};
    }
  };

  std::int32_t vocab_size() const { return vocab; }
  std::uint64_t head_order() const { return vocab_layout::identity(vocab).order(); }

  pass evaluate(const rows&) { return {logits_.data()}; }
  pass forward(const rows&) { return {logits_.data()}; }
  void head(const pass&, const head_rows<float>& asked) {
    if (writes_) { executor_.launch(asked.size, fill_head{asked}); }
  }
  void commit(const kept_rows&) noexcept {}

  /// Whether the head writes its logits, in steps that are recorded from now on.
  void write(bool writes) { writes_ = writes; }

 private:
  cuda executor_;
  cuda::resident<float> logits_;
  bool writes_ = true;
};

/// A resident loop of one request over free models. The draft's logits are written by a run of two
/// requests and stay; one request is another shape, whose recording has no writing in it.
class step_loop {
 public:
  step_loop(cuda& executor, std::int32_t shortlist_rows)
      : model_(executor),
        decoder_(model_, drafter::autoregressive{model_, tree::chain<chain_length>{}},
                 selector::frequency{vocab_layout::identity(vocab), shortlist_rows}, plain{},
                 verifier::rejection{},
                 {.max_batch = batch,
                  .max_length = 1 << 16,
                  .chunk = chunk,
                  .ring = steps * chain_nodes},
                 {}, executor) {
    for (std::int32_t i = 0; i < batch; ++i) { decoder_.add(prompt, {.max_new_tokens = 64}); }
    while (decoder_.running() > 0) {
      decoder_.run();
      poll();
    }
    model_.write(false);
    decoder_.add(prompt, {.max_new_tokens = (1 << 16) - 1});
    run();
    poll();
    passes_ = decoder_.stats().target_passes;
  }

  void run() { decoder_.run(steps); }
  void poll() {
    decoder_.executor().synchronize();
    decoder_.poll([](const ring_entry&) {});
  }
  /// Tokens per step; throws if the runs did not take the steps that they were timed as.
  double tokens_per_step(std::int64_t runs) {
    const auto stats = decoder_.stats();
    if (stats.target_passes != passes_ + runs * steps) {
      throw std::logic_error("the bench is wrong: a timed run has ended early");
    }
    return stats.mean_acceptance_length();
  }

 private:
  static constexpr token prompt[] = {1};

  free_model model_;
  resident_decoder<free_model&,
                   decltype(drafter::autoregressive{std::declval<free_model&>(),
                                                    tree::chain<chain_length>{}}),
                   selector::frequency<>, plain, verifier::rejection, random_source<>, cuda>
      decoder_;
  std::int64_t passes_ = 0;
};

void measure_steps(report& out) {
  cuda executor;
  step_loop listed(executor, common_tokens);
  step_loop full(executor, vocab);
  const auto candidate_of = [](step_loop& loop) {
    return candidate{[&loop] { loop.run(); }, steps, [&loop] { loop.poll(); }};
  };
  const timings t = interleave_on(executor, rounds, {candidate_of(listed), candidate_of(full)});
  const std::string name = "step without models and heads, graph, 5 drafts, B = 1, ";
  out.add(name + "27000 draft rows", median(t[0]) * 1e6, "us", at_most(40.0));
  out.add(name + "128256 draft rows", median(t[1]) * 1e6, "us");
  out.add(name + "27000 draft rows: tokens per step", listed.tokens_per_step(rounds + 1), "");
  out.add(name + "128256 draft rows: tokens per step", full.tokens_per_step(rounds + 1), "");
}

}  // namespace bench::device
