// SPDX-License-Identifier: Apache-2.0

// On a GPU: canvases are filled as they are on the host, unmasking by unmasking, in a batch, with
// and without temperature. Without a GPU nothing is run, and the program says so.

#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

#include <hunch/diffusion/decoder.hpp>
#include <hunch/diffusion/drafter/model_drafts.hpp>
#include <hunch/diffusion/order/confidence.hpp>
#include <hunch/diffusion/order/entropy.hpp>
#include <hunch/diffusion/verifier/stepwise_exact.hpp>
#include <hunch/diffusion/verifier/top_k.hpp>
#include <hunch/executor/cuda.cuh>
#include <hunch/executor/host.hpp>
#include <hunch/sampler/pipeline.hpp>
#include <hunch/sampler/temperature.hpp>
#include <hunch/sampler/top_p.hpp>
#include "../support/hash.hpp"

namespace {

using namespace hunch;
using namespace hunch::test;

constexpr std::int32_t vocab = 4999;
constexpr token mask = 17;
constexpr std::int32_t canvas_positions = 40;

/// A model whose logits are hashes of the canvas and the position, in memory that an executor's
/// bodies read. Few of them are distinct, so that there are ties.
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
      : rows_(executor, static_cast<std::size_t>(max_wanted) * vocab) {}

  std::int32_t vocab_size() const { return vocab; }
  token mask_token() const { return mask; }
  std::int32_t max_positions() const { return canvas_positions; }
  void release(std::int32_t) noexcept {}

  evaluation evaluate(const diffusion::canvases& asked) {
    for (std::int32_t i = 0; i < asked.size; ++i) {
      std::uint64_t text = 0;
      for (std::int32_t p = 0; p < asked.canvas(i).size; ++p) {
        text = extend(text, asked.canvas(i)[p]);
      }
      for (std::int32_t w = asked.first_wanted[i]; w < asked.first_wanted[i + 1]; ++w) {
        const auto position = static_cast<std::uint64_t>(asked.wanted[w]);
        // Most rows do not depend on the canvas: drafts are to be accepted now and then.
        const std::uint64_t own = mix(text ^ mix(position));
        const std::uint64_t row = own % 4 == 0 ? own : mix(position);
        for (std::int32_t v = 0; v < vocab; ++v) {
          const std::uint64_t h = mix(row + static_cast<std::uint64_t>(v));
          evaluation{rows_.data()}.logits(w)[v] = static_cast<float>(h % 40) * 0.25f;
        }
      }
    }
    return {rows_.data()};
  }

 private:
  typename E::template buffer<float> rows_;
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

/// Everything that is unmasked, in its order.
template <class From, class O, class V, class E>
std::vector<std::int32_t> unmaskings_of(E executor, O order, V verifier, float temperature) {
  using sampler_type = sampler::pipeline<sampler::temperature, sampler::top_p>;
  hashing_model<E> model(executor, 3 * 5 * canvas_positions);
  diffusion::decoder d(model, order, sampler_type{}, verifier, From{}.drafts(executor),
                       diffusion::decoder_options{.max_batch = 3}, random_source<philox>{},
                       executor);
  std::vector<std::int32_t> all;
  for (std::int32_t r = 0; r < 3; ++r) {
    const std::vector<token> prompt{r, 5};
    generation_options options;
    options.max_new_tokens = 9 + r;
    options.temperature = temperature;
    options.top_p = r == 0 ? 1.0f : 0.9f;
    options.seed = static_cast<std::uint64_t>(r);
    d.add(prompt, options, {.block_length = 4 + r});
  }
  while (d.running() > 0) {
    for (const diffusion::emission& e : d.step()) {
      for (const diffusion::unmasking& w : e.unmaskings) {
        all.insert(all.end(), {static_cast<std::int32_t>(e.id), w.position, w.t});
      }
    }
  }
  return all;
}

int checks = 0;
int failures = 0;
bool has_device = false;

template <class From = by_itself, class O, class V>
void same_unmaskings(const char* name, O order, V verifier) {
  for (const float temperature : {0.0f, 0.8f}) {
    ++checks;
    if (!has_device) { continue; }
    const auto expected = unmaskings_of<From>(executor::host{}, order, verifier, temperature);
    if (unmaskings_of<From>(executor::cuda{}, order, verifier, temperature) != expected) {
      ++failures;
      std::printf("FAILED: %s, temperature %g\n", name, static_cast<double>(temperature));
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
