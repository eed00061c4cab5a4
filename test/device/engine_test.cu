// SPDX-License-Identifier: Apache-2.0

// On a GPU: the engine's model on an executor says there what it says on the host, up to rounding,
// with either policy of products; a row says the same, bit for bit, alone and among others; and a
// loop on the device writes the text of plain decoding. Without a GPU nothing is run, and the
// program says so.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

#include <engine/device/canvas_head.hpp>
#include <engine/device/cublaslt_multiply.cuh>
#include <engine/device/eagle.hpp>
#include <engine/device/early_exit.hpp>
#include <engine/device/int4_multiply.hpp>
#include <engine/device/masked_model.hpp>
#include <engine/device/medusa.hpp>
#include <engine/device/model.hpp>
#include <engine/device/streams.hpp>
#include <engine/early_contexts.hpp>
#include <generate/resident_router.hpp>
#include <hunch/decoder/resident_decoder.hpp>
#include <hunch/diffusion/drafter/model_drafts.hpp>
#include <hunch/diffusion/drafter/self_speculation.hpp>
#include <hunch/diffusion/order/confidence.hpp>
#include <hunch/diffusion/resident_decoder.hpp>
#include <hunch/diffusion/verifier/stepwise_exact.hpp>
#include <hunch/drafter/autoregressive.hpp>
#include <hunch/drafter/heads.hpp>
#include <hunch/drafter/none.hpp>
#include <hunch/drafter/streaming.hpp>
#include <hunch/executor/cuda.cuh>
#include <hunch/executor/host.hpp>
#include <hunch/model/staged_rows.hpp>
#include <hunch/sampler/pipeline.hpp>
#include <hunch/sampler/temperature.hpp>
#include <hunch/selector/full.hpp>
#include <hunch/tree/chain.hpp>
#include <hunch/verifier/coupled.hpp>
#include <hunch/vocab/vocab_layout.hpp>
#include "../engine/tiny_canvas_head.hpp"
#include "../engine/tiny_heads.hpp"
#include "../engine/tiny_model.hpp"

namespace {

using gpu = hunch::executor::cuda;
using host = hunch::executor::host;

int checks = 0;
int failures = 0;
bool has_device = false;

void check(bool passed, const std::string& what) {
  ++checks;
  if (!passed) {
    ++failures;
    std::printf("FAILED: %s\n", what.c_str());
  }
}

using logits = std::vector<std::vector<float>>;

/// A prompt, a commit of a path that is not contiguous, and a draft tree.
template <class Executor, class Multiply>
class walk {
 public:
  walk(const engine::config& c, const engine::checkpoint& weights, Executor executor = Executor())
      : executor_(executor),
        model_(c, weights, {.max_batch = 2, .max_rows = 40, .max_staged = 40}, executor_),
        rows_(executor_, 40),
        kept_(executor_, 40, 2) {
    const std::vector<hunch::token> text = test::some_tokens(30, c.vocab_size);
    rows_.clear();
    for (std::int32_t i = 0; i < 30; ++i) {
      rows_.push({.slot = 1,
                  .id = i,
                  .parent = i - 1,
                  .position = i,
                  .t = text[static_cast<std::size_t>(i)],
                  .wanted = false});
    }
    model_.evaluate(rows_.view());
    kept_.clear();
    for (std::int32_t i = 0; i < 30; ++i) { kept_.keep({.slot = 1, .id = i}); }
    model_.commit(kept_.view());
    tree(7);
    kept_.clear();
    for (const std::int32_t id : {0, 2, 4}) { kept_.keep({.slot = 1, .id = id}); }
    model_.commit(kept_.view());
    executor_.synchronize();
  }

  /// The first `count` rows of a tree.
  logits tree(std::int32_t count) {
    constexpr std::int32_t parent[] = {-1, 0, 0, 1, 2, 4, 4};
    constexpr std::int32_t depth[] = {0, 1, 1, 2, 2, 3, 3};
    executor_.synchronize();
    const std::int32_t length = model_.length(1);
    rows_.clear();
    for (std::int32_t i = 0; i < count; ++i) {
      rows_.push({.slot = 1,
                  .id = i,
                  .parent = parent[i],
                  .position = length + depth[i],
                  .t = 3 + 5 * i,
                  .wanted = true});
    }
    auto evaluation = model_.evaluate(rows_.view());
    logits out;
    for (std::int32_t i = 0; i < count; ++i) {
      const auto row = evaluation.logits(i);
      out.emplace_back(static_cast<std::size_t>(row.size));
      executor_.download(out.back().data(), row.data, out.back().size());
    }
    return out;
  }

 private:
  Executor executor_;
  engine::device_model<Executor, Multiply> model_;
  hunch::staged_rows<Executor> rows_;
  hunch::kept_list<Executor> kept_;
};

/// The largest difference, relative to the spread of the logits.
double difference(const logits& a, const logits& b) {
  double worst = 0.0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    double spread = 0.0;
    double most = 0.0;
    for (std::size_t v = 0; v < a[i].size(); ++v) {
      spread = std::max(spread, std::fabs(static_cast<double>(b[i][v])));
      const double d = std::fabs(static_cast<double>(a[i][v]) - static_cast<double>(b[i][v]));
      most = std::isnan(d) ? 1e9 : std::max(most, d);
    }
    worst = std::max(worst, most / spread);
  }
  return worst;
}

template <class Multiply>
void same_logits(const char* name, const engine::config& c) {
  constexpr double tolerance = 3e-2;  // sums in another order round inputs of products otherwise
  const std::string what = std::string(name) + ", width " + std::to_string(c.hidden) + ": ";
  if (!has_device) {
    ++checks;
    return;
  }
  const engine::checkpoint weights = test::random_checkpoint(c, engine::dtype::bf16);
  const logits expected = walk<host, engine::device::team_multiply<host>>(c, weights).tree(7);
  walk<gpu, Multiply> device(c, weights);
  const logits got = device.tree(7);
  const double found = difference(got, expected);
  std::printf("%s%g of the largest logit\n", what.c_str(), found);
  check(found < tolerance, what + "the logits of the host");
  for (std::int32_t count = 1; count < 7; ++count) {
    const logits fewer = device.tree(count);
    check(std::equal(fewer.begin(), fewer.end(), got.begin()),
          what + std::to_string(count) + " of the rows");
  }
}

/// Decodes with all that drafts, of which copies of the target are often right, and without.
void same_texts() {
  if (!has_device) {
    ++checks;
    return;
  }
  using multiply = engine::device::cublaslt_multiply;
  using model = engine::device_model<gpu, multiply>;
  using copy_in_int4 = engine::device_model<gpu, engine::device::int4_multiply<gpu>>;
  constexpr int heads = 3;
  engine::config c = test::small_config();
  engine::config head_shape = c;
  c.layers = 3;
  head_shape.layers = 1;
  gpu executor;
  const engine::device_options sizes{.max_batch = 3,
                                     .max_rows = 64,
                                     .max_staged = 64,
                                     .keep_features = true,
                                     .max_streams = heads};
  const auto of = [&](engine::dtype type) { return test::random_checkpoint(c, type); };
  model target(c, of(engine::dtype::bf16), sizes, executor);
  model draft(c, of(engine::dtype::i8), sizes, executor);
  copy_in_int4 copy(c, of(engine::dtype::bf16), sizes, executor);
  engine::device_eagle eagle(head_shape,
                             test::in_memory(test::eagle_tensors(head_shape, engine::dtype::bf16)),
                             target, sizes);
  engine::device_early_exit exit({2}, test::in_memory(test::exit_tensors(c, engine::dtype::bf16)),
                                 target);
  engine::device_medusa medusa({heads, c.hidden, c.vocab_size},
                               test::in_memory(test::medusa_tensors(c, engine::dtype::bf16, heads)),
                               target);
  engine::device_streams streams({heads, 1, c.hidden, c.vocab_size},
                                 test::in_memory(test::stream_tensors(c, 1, engine::dtype::bf16)),
                                 target);
  const auto texts = [&](const char* name, auto drafter, auto selector) {
    hunch::resident_decoder d{
        target,
        std::move(drafter),
        std::move(selector),
        hunch::sampler::pipeline{hunch::sampler::temperature{}},
        hunch::verifier::coupled{},
        hunch::resident_options{.max_batch = 3, .max_length = 200, .chunk = 16},
        hunch::random_source{},
        executor};
    std::vector<std::vector<hunch::token>> out;
    for (std::int32_t n = 0; n < 6; ++n) {
      out.push_back(d.generate(test::some_tokens(5 + 9 * n, c.vocab_size),
                               {.max_new_tokens = 100,
                                .temperature = n < 2 ? 0.0f : 1.0f,
                                .seed = static_cast<std::uint64_t>(n)})
                        .tokens);
    }
    std::printf("%s: mean acceptance length %g\n", name, d.stats().mean_acceptance_length());
    return out;
  };
  using hunch::drafter::autoregressive;
  using chain = hunch::tree::chain<5>;
  using short_chain = hunch::tree::chain<heads>;
  const hunch::selector::full all{c.vocab_size};
  const auto plain = texts("plain decoding", hunch::drafter::none{}, all);
  const auto same_by = [&](const char* name, auto drafter, auto selector) {
    check(texts(name, std::move(drafter), std::move(selector)) == plain,
          std::string(name) + ": the text");
  };
  const auto same = [&](const char* name, auto drafter) { same_by(name, std::move(drafter), all); };
  same("a model", autoregressive{draft, chain{}});
  same("a copy in four bits", autoregressive{copy, chain{}});
  same("an EAGLE head", autoregressive{eagle, chain{}});
  // A router beside the pass that it chooses for.
  engine::early_contexts early(eagle);
  const generate::resident_router<gpu> router(executor, test::random_router(early.context_width()));
  const auto clusters =
      test::random_clusters(hunch::vocab_layout::identity(c.vocab_size), router.view());
  eagle.set_head_layout(clusters.layout());
  same_by("an EAGLE head and a router beside it", autoregressive{early, chain{}}, clusters);
  same("an early exit", autoregressive{exit, chain{}});
  same("Medusa's heads", hunch::drafter::heads{medusa, short_chain{}});
  same("streams", hunch::drafter::streaming{streams, short_chain{}});
}

/// Fills canvases with the drafts of a masked model and of its head, and one token a pass.
void same_canvases() {
  if (!has_device) {
    ++checks;
    return;
  }
  using namespace hunch::diffusion;
  const test::canvas_head_parts with(true, engine::dtype::bf16);
  gpu executor;
  const engine::device_canvas_options sizes{
      .max_batch = 1, .max_length = 64, .max_canvases = 8, .max_rows = 128, .max_wanted = 64};
  engine::device_masked_model<gpu, engine::device::cublaslt_multiply> target(
      with.shape, with.weights, sizes, executor);
  engine::device_canvas_head head(with.head_config, with.head_weights, target, sizes);
  const auto texts = [&](const char* name, auto drafts, std::int32_t length) {
    resident_decoder d(target, order::confidence{},
                       hunch::sampler::pipeline{hunch::sampler::temperature{}},
                       verifier::stepwise_exact{}, std::move(drafts),
                       resident_options{.max_batch = 1,
                                        .max_canvas = 48,
                                        .max_block = with.shape.block_length,
                                        .draft_length = length,
                                        .max_bias = 0,
                                        .max_stop_tokens = 0,
                                        .ring = 16},
                       hunch::random_source<>{}, executor);
    std::vector<std::vector<hunch::token>> out;
    for (std::int32_t n = 0; n < 4; ++n) {
      hunch::generation_options request;
      request.max_new_tokens = 30;
      request.temperature = n < 2 ? 0.0f : 1.0f;
      request.seed = static_cast<std::uint64_t>(n);
      out.push_back(d.generate(test::some_tokens(5 + 4 * n, with.shape.mask_token), request,
                               {.block_length = with.shape.block_length, .answer = {}})
                        .tokens);
    }
    std::printf("%s: %g of the drafts accepted\n", name, d.stats().draft_acceptance_rate());
    return out;
  };
  const auto stepwise = texts("one token a pass", self_speculation<4>{}, 0);
  check(texts("a masked model itself", self_speculation<4>{}, 4) == stepwise,
        "a masked model itself: the text");
  check(texts("a canvas head", drafted_by<4>(head), 4) == stepwise, "a canvas head: the text");
}

}  // namespace

int main() {
  int devices = 0;
  has_device = cudaGetDeviceCount(&devices) == cudaSuccess && devices > 0;
  for (const engine::config& c : {test::tiny_config(), test::small_config()}) {
    same_logits<engine::device::team_multiply<gpu>>("products by teams", c);
    same_logits<engine::device::cublaslt_multiply>("products by cuBLASLt", c);
  }
  same_texts();
  same_canvases();
  if (!has_device) {
    std::printf("######## NO CUDA DEVICE: %d checks of the engine were NOT RUN ########\n", checks);
    return 0;
  }
  std::printf("%d engine checks on the device, %d failed\n", checks, failures);
  return failures == 0 ? 0 : 1;
}
