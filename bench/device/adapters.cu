// SPDX-License-Identifier: Apache-2.0

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

#include <hunch/distribution/restrict.hpp>
#include <hunch/interop/vllm_logits.hpp>

#include "chains.hpp"
#include "language_rows.hpp"
#include "sections.hpp"

namespace bench::device {
namespace {

using namespace hunch;

constexpr int rounds = 15;

/// The favourite of draft row `index` as what the target has read at that place.
struct read_favourite {
  const float* draft;     ///< [batch, 5, vocab]
  std::int32_t* sampled;  ///< [batch, 6] out, but for the roots

  template <Team T>
  HUNCH_HOST_DEVICE void operator()(T& team, std::int32_t index) const {
    float* const row = const_cast<float*>(draft) + static_cast<std::int64_t>(index) * vocab;
    const law<float> q = plain{}(team, row_view<float>{row, vocab}, {}, {});
    const std::int32_t t = kernel::argmax(team, q);
    if (team.rank() == 0) {
      sampled[index / chain_length * chain_nodes + index % chain_length + 1] = t;
    }
  }
};

/// Requests in the arrays of an engine, each with a chain of five that a blurred target drafted.
class request_batch {
 public:
  request_batch(cuda& executor, std::int32_t batch)
      : executor_(executor),
        target_(executor, of(batch, chain_nodes) * vocab),
        draft_(executor, of(batch, chain_length) * vocab),
        read_(executor, of(batch, chain_nodes)),
        first_rows_(executor, of(batch, 1) + 1),
        states_(executor, of(batch, 1)),
        positions_(executor, of(batch, chain_nodes)),
        seeds_(executor, of(batch, 1)),
        temperatures_(executor, of(batch, 1)),
        top_k_(executor, of(batch, 1)),
        top_p_(executor, of(batch, 1)),
        sampled_(executor, of(batch, chain_nodes)),
        counts_(executor, of(batch, 1)),
        statuses_(executor, of(batch, 1)),
        laws_(executor, of(batch, chain_nodes + chain_length)) {
    executor.launch(batch * chain_nodes, fill_rows{target_.data(), vocab, 0, 0.0f});
    for (std::int32_t b = 0; b < batch; ++b) {
      const auto row = static_cast<std::size_t>(b * chain_length) * vocab;
      executor.launch(chain_length, fill_rows{draft_.data() + row, vocab,
                                              static_cast<std::uint64_t>(b * chain_nodes), 1.0f});
    }
    executor.launch(batch * chain_length, read_favourite{draft_.data(), read_.data()});
    std::vector<std::int32_t> first_rows, states;
    std::vector<std::int64_t> seeds;
    for (std::int32_t b = 0; b <= batch; ++b) { first_rows.push_back(b * chain_nodes); }
    for (std::int32_t b = 0; b < batch; ++b) {
      states.push_back(b);
      seeds.push_back(b);
    }
    const std::vector<float> ones(states.size(), 1.0f), shares(states.size(), 0.9f);
    const std::vector<std::int32_t> fifty(states.size(), 50);
    executor.upload(first_rows_.data(), first_rows.data(), first_rows.size());
    executor.upload(states_.data(), states.data(), states.size());
    executor.upload(seeds_.data(), seeds.data(), seeds.size());
    executor.upload(temperatures_.data(), ones.data(), ones.size());
    executor.upload(top_k_.data(), fifty.data(), fifty.size());
    executor.upload(top_p_.data(), shares.data(), shares.size());
    arguments_.num_reqs = arguments_.max_num_reqs = batch;
    arguments_.num_logits = batch * chain_nodes;
    arguments_.num_speculative_steps = chain_length;
    arguments_.vocab = vocab;
    arguments_.target_logits = target_.data();
    arguments_.draft_logits = draft_.data();
    arguments_.draft_sampled = read_.data();
    arguments_.cu_num_logits = first_rows_.data();
    arguments_.pos = positions_.data();
    arguments_.idx_mapping = states_.data();
    arguments_.seed = seeds_.data();
    arguments_.sampling.temperature = temperatures_.data();
    arguments_.sampled = sampled_.data();
    arguments_.num_sampled = counts_.data();
    arguments_.status = statuses_.data();
    arguments_.workspace = laws_.data();
  }

  void sample(bool cuts) {
    arguments_.sampling.top_k = cuts ? top_k_.data() : nullptr;
    arguments_.sampling.top_p = cuts ? top_p_.data() : nullptr;
    interop::vllm::rejection_sample(executor_, arguments_);
  }
  void check_statuses() {
    std::vector<status> statuses(statuses_.size());
    executor_.download(statuses.data(), statuses_.data(), statuses.size());
    for (const status s : statuses) {
      if (s != status::ok) { throw std::logic_error("the bench is wrong: a request has an error"); }
    }
  }

 private:
  template <class T>
  using resident = cuda::resident<T>;

  static std::size_t of(std::int32_t batch, std::int32_t rows) {
    return static_cast<std::size_t>(batch) * static_cast<std::size_t>(rows);
  }

  cuda& executor_;
  resident<float> target_;
  resident<float> draft_;
  resident<std::int32_t> read_;
  resident<std::int32_t> first_rows_;
  resident<std::int32_t> states_;
  resident<std::int64_t> positions_;
  resident<std::int64_t> seeds_;
  resident<float> temperatures_;
  resident<std::int32_t> top_k_;
  resident<float> top_p_;
  resident<std::int64_t> sampled_;
  resident<std::int32_t> counts_;
  resident<status> statuses_;
  resident<law<float>> laws_;
  interop::vllm::logits_arguments<float> arguments_;
};

/// What must be read of a request where a draft is refused: every row for its law, and for the
/// residual one of the target and one of the draft again.
constexpr std::int32_t rows_read = chain_nodes + chain_length + 2;

}  // namespace

void measure_adapters(report& out, cuda& executor, memory_copy& copy) {
  constexpr double repeats = 8.0;  // in a graph, each of which finds its rows in memory
  for (const std::int32_t batch : {32, 64}) {
    request_batch requests(executor, batch);
    std::vector<recorded_work> graphs;
    for (const bool cuts : {false, true}) {
      requests.sample(cuts);  // the first launch of a kernel does not come in a capture
      graphs.emplace_back(executor, [&] {
        for (int i = 0; i < static_cast<int>(repeats); ++i) { requests.sample(cuts); }
      });
    }
    const timings t = interleave_on(executor, rounds,
                                    {copy.work(),
                                     {[&graphs] { graphs[0].launch(); }, repeats},
                                     {[&graphs] { graphs[1].launch(); }, repeats}});
    requests.check_statuses();
    const std::string name =
        "requests on logits in a graph, 5 drafts, B = " + std::to_string(batch);
    out.add(name, median(t[1]) * 1e6, "us");
    out.add(name + ": time / 13 rows each at copy bandwidth",
            1.0 / share_of_copy(4.0 * vocab * rows_read * batch, t[0], t[1]), "");
    out.add(name + ", top-k 50, top-p 0.9", median(t[2]) * 1e6, "us");
  }
}

}  // namespace bench::device
