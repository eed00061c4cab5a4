// SPDX-License-Identifier: Apache-2.0

// On a GPU: canvases are filled as they are on the host, unmasking by unmasking, in a batch, with
// and without temperature, by rounds that the host drives and by a loop that the device repeats.
// Without a GPU nothing is run, and the program says so.

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <vector>

#include <hunch/diffusion/decoder.hpp>
#include <hunch/diffusion/drafter/model_drafts.hpp>
#include <hunch/diffusion/order/confidence.hpp>
#include <hunch/diffusion/order/entropy.hpp>
#include <hunch/diffusion/resident_decoder.hpp>
#include <hunch/diffusion/verifier/stepwise_exact.hpp>
#include <hunch/diffusion/verifier/top_k.hpp>
#include <hunch/executor/cuda.cuh>
#include <hunch/executor/host.hpp>
#include <hunch/sampler/pipeline.hpp>
#include <hunch/sampler/temperature.hpp>
#include <hunch/sampler/top_p.hpp>
#include "../support/hash_model.hpp"

namespace {

using namespace hunch;
using namespace hunch::test;

constexpr std::int32_t vocab = 4999;
constexpr token mask = 17;
constexpr std::int32_t canvas_positions = 40;

/// The logits of wanted position `index`: hashes of its canvas and the position. Few of them are
/// distinct, so that there are ties.
struct hash_position {
  diffusion::canvases asked;
  float* rows;

  template <Team T>
  HUNCH_HOST_DEVICE void operator()(T& team, std::int32_t index) const {
    if (index >= asked.first_wanted[asked.size]) { return; }
    std::int32_t canvas = 0;
    while (asked.first_wanted[canvas + 1] <= index) { ++canvas; }
    const row_view<const token> text = asked.canvas(canvas);
    std::uint64_t own = 0;
    for (std::int32_t p = 0; p < text.size; ++p) { own = hash_state::extended(own, text[p], p); }
    const std::uint64_t position =
        hash_state::mixed(static_cast<std::uint64_t>(asked.wanted[index]) + 99);
    own = hash_state::mixed(own ^ position);
    // Most rows do not depend on the canvas: drafts are to be accepted now and then.
    const std::uint64_t row = own % 4 == 0 ? own : position;
    float* const logits = rows + static_cast<std::int64_t>(index) * vocab;
    team.for_each(vocab, [=](std::int64_t v) {
      const std::uint64_t h = hash_state::mixed(row + static_cast<std::uint64_t>(v));
      logits[v] = static_cast<float>(h % 40) * 0.25f;
    });
  }
};

/// A model that lives on an executor.
template <class E>
class hashing_model {
 public:
  struct evaluation {
    float* rows;
    row_view<float> logits(std::int32_t i) const {
      return {rows + static_cast<std::int64_t>(i) * vocab, vocab};
    }
  };

  hashing_model(E& executor, std::int32_t max_wanted)
      : executor_(executor), rows_(executor, static_cast<std::size_t>(max_wanted) * vocab) {}

  std::int32_t vocab_size() const { return vocab; }
  token mask_token() const { return mask; }
  std::int32_t max_positions() const { return canvas_positions; }
  void release(std::int32_t) noexcept {}

  evaluation evaluate(const diffusion::canvases& asked) {
    executor_.launch(asked.wanted_count, hash_position{asked, rows_.data()});
    return {rows_.data()};
  }

 private:
  E executor_;  // copies share what they launch on
  workspace<E, float> rows_;
};

/// Where drafts come from: the logits of the round before, or a model like the target.
struct by_itself {
  template <class E>
  auto drafts(E&) const {
    return diffusion::self_speculation<4>{};
  }
};
struct by_model {
  template <class E>
  auto drafts(E& executor) const {
    return diffusion::drafted_by<4>(hashing_model<E>(executor, 3 * canvas_positions));
  }
};

/// Everything that is unmasked for each of three requests, in its order.
using all_unmaskings = std::vector<std::vector<std::int32_t>>;

template <class Decoder>
std::vector<request_id> add_requests(Decoder& d, float temperature) {
  std::vector<request_id> ids;
  for (std::int32_t r = 0; r < 3; ++r) {
    const std::vector<token> prompt{r, 5};
    generation_options options;
    options.max_new_tokens = 9 + r;
    options.temperature = temperature;
    options.top_p = r == 0 ? 1.0f : 0.9f;
    options.seed = static_cast<std::uint64_t>(r);
    ids.push_back(d.add(prompt, options, {.block_length = 4 + r}));
  }
  return ids;
}

using sampler_type = sampler::pipeline<sampler::temperature, sampler::top_p>;

template <class From, class O, class V, class E>
all_unmaskings driven(E executor, O order, V verifier, float temperature) {
  hashing_model<E> model(executor, 3 * 5 * canvas_positions);
  diffusion::decoder d(model, order, sampler_type{}, verifier, From{}.drafts(executor),
                       diffusion::decoder_options{.max_batch = 3}, random_source<philox>{},
                       executor);
  const std::vector<request_id> ids = add_requests(d, temperature);
  all_unmaskings all(3);
  while (d.running() > 0) {
    for (const diffusion::emission& e : d.step()) {
      const auto r = std::find(ids.begin(), ids.end(), e.id) - ids.begin();
      for (const diffusion::unmasking& w : e.unmaskings) {
        all[static_cast<std::size_t>(r)].insert(all[static_cast<std::size_t>(r)].end(),
                                                {w.position, w.t});
      }
    }
  }
  return all;
}

template <class From, class O, class V, class E>
all_unmaskings repeated(E executor, O order, V verifier, float temperature) {
  hashing_model<E> model(executor, 3 * 5 * canvas_positions);
  diffusion::resident_decoder d(
      model, order, sampler_type{}, verifier, From{}.drafts(executor),
      diffusion::resident_options{.max_batch = 3, .max_canvas = 0, .max_block = 8},
      random_source<philox>{}, executor);
  const std::vector<request_id> ids = add_requests(d, temperature);
  all_unmaskings all(3);
  while (d.running() > 0) {
    d.run();
    executor.synchronize();
    d.poll([&](const ring_entry& e) {
      const auto r = std::find(ids.begin(), ids.end(), e.id) - ids.begin();
      all[static_cast<std::size_t>(r)].insert(all[static_cast<std::size_t>(r)].end(),
                                              {e.position, e.t});
    });
  }
  return all;
}

int checks = 0;
int failures = 0;
bool has_device = false;

template <class From = by_itself, class O, class V>
void same_unmaskings(const char* name, O order, V verifier) {
  for (const float temperature : {0.0f, 0.8f}) {
    checks += 2;
    if (!has_device) { continue; }
    const auto expected = driven<From>(executor::host{}, order, verifier, temperature);
    const bool same[] = {
        driven<From>(executor::cuda{}, order, verifier, temperature) == expected,
        repeated<From>(executor::cuda{}, order, verifier, temperature) == expected};
    for (const bool& found : same) {
      if (found) { continue; }
      ++failures;
      std::printf("FAILED: %s, temperature %g, %s\n", name, static_cast<double>(temperature),
                  &found == same ? "driven by the host" : "repeated by the device");
    }
  }
}

}  // namespace

int main() {
  int devices = 0;
  has_device = cudaGetDeviceCount(&devices) == cudaSuccess && devices > 0;
  same_unmaskings("exactly", diffusion::order::confidence{}, diffusion::verifier::stepwise_exact{});
  same_unmaskings<by_model>("drafted by a model", diffusion::order::confidence{},
                            diffusion::verifier::stepwise_exact{});
  same_unmaskings("by top-k", diffusion::order::entropy{}, diffusion::verifier::top_k{3});
  if (!has_device) {
    std::printf("######## NO CUDA DEVICE: %d device checks were NOT RUN ########\n", checks);
    return 0;
  }
  std::printf("%d device checks, %d failed\n", checks, failures);
  return failures == 0 ? 0 : 1;
}
