// SPDX-License-Identifier: Apache-2.0

// On a GPU: the whole loop writes the texts that it writes on the host, bit for bit, for every
// verifier, stage and way of repeating steps, also while its batch shrinks and beside another loop;
// the adapters give what they give on the host. Without a GPU nothing is run, and the program says
// so. With --short only so much is run as makes every body run once, for tools that watch each
// access to memory.

#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

#include <hunch/executor/cuda.cuh>
#include <hunch/executor/host.hpp>
#include <hunch/interop/flashinfer.hpp>
#include <hunch/sampler/allowed_tokens.hpp>
#include <hunch/sampler/bias.hpp>
#include <hunch/sampler/greedy.hpp>
#include <hunch/sampler/min_p.hpp>
#include <hunch/sampler/penalties.hpp>
#include <hunch/sampler/temperature.hpp>
#include <hunch/sampler/top_k.hpp>
#include <hunch/sampler/top_p.hpp>
#include <hunch/verifier/block.hpp>
#include <hunch/verifier/coupled.hpp>
#include <hunch/verifier/greedy.hpp>
#include <hunch/verifier/point_mass.hpp>
#include <hunch/verifier/rejection.hpp>
#include "../support/resident_runs.hpp"

namespace {

using namespace hunch;
using namespace hunch::test;

int checks = 0;
int failures = 0;
bool has_device = false;
bool brief = false;

void check(bool passed, const std::string& what) {
  ++checks;
  if (!passed) {
    ++failures;
    std::printf("FAILED: %s\n", what.c_str());
  }
}

using plain = sampler::pipeline<sampler::temperature>;
using stages = sampler::pipeline<sampler::penalties, sampler::bias, sampler::temperature,
                                 sampler::top_k, sampler::top_p, sampler::min_p>;

using loopings = std::vector<executor::looping>;

/// Watching tools know little of graphs; what they are to see are the bodies.
loopings ways() {
  if (brief) { return {executor::looping::launches}; }
  return {executor::looping::launches, executor::looping::graphs, executor::looping::on_device};
}

std::string name_of(executor::looping how) {
  return ", looping " + std::to_string(static_cast<int>(how));
}

template <class By = by_frequency, class S, class V>
void same_texts(const char* name, S sampler, V verifier, run_kind kind) {
  const std::int32_t count = brief ? 3 : 12;
  const std::vector<run_request> requests = run_requests_of(kind, count);
  const std::vector<std::int32_t> batches =
      brief ? std::vector<std::int32_t>{2} : std::vector<std::int32_t>{1, 3, count};
  for (const std::int32_t batch : batches) {
    for (const std::int32_t eager_rows : {0, 1000}) {
      for (const executor::looping how : ways()) {
        const std::string what = std::string(name) + ", batch " + std::to_string(batch) +
                                 ", eager rows " + std::to_string(eager_rows) + name_of(how);
        if (!has_device) {
          ++checks;
          continue;
        }
        const auto expected = resident_texts<By>(executor::host{}, sampler, verifier, requests,
                                                 batch, 1000, eager_rows);
        check(resident_texts<By>(executor::cuda{how}, sampler, verifier, requests, batch,
                                 batch == 3 ? 2 : 1000, eager_rows) == expected,
              what);
      }
    }
  }
}

/// A loop is used again while requests come and go, so that recordings meet other data; and another
/// one, whose memory is elsewhere, shares its executor.
void same_shrinking_texts() {
  const std::vector<run_request> requests = run_requests_of(run_kind::staged, 12);
  for (const executor::looping how : ways()) {
    if (!has_device) {
      ++checks;
      continue;
    }
    const auto expected =
        shrinking_texts(executor::host{}, stages{}, verifier::rejection{}, requests);
    check(
        shrinking_texts(executor::cuda{how}, stages{}, verifier::rejection{}, requests) == expected,
        "a batch that shrinks, beside another loop" + name_of(how));
  }
}

/// Random rows of probabilities, verified on host and device.
void same_chains() {
  constexpr std::int32_t length = 5, vocab = 5000;
  const std::int32_t batch = brief ? 2 : 40;
  if (!has_device) {
    ++checks;
    return;
  }
  executor::cuda device;
  executor::cuda::buffer<float> q(device, batch * length * vocab);
  executor::cuda::buffer<float> p(device, batch * (length + 1) * vocab);
  executor::cuda::buffer<std::int32_t> ids(device, batch * length);
  executor::cuda::buffer<std::int32_t> out(device, batch * (length + 1));
  executor::cuda::buffer<std::int32_t> emitted(device, batch);
  std::uint64_t state = 1;
  const auto fill = [&](executor::cuda::buffer<float>& rows) {
    for (std::size_t first = 0; first < rows.size(); first += vocab) {
      double sum = 0.0;
      for (std::int32_t v = 0; v < vocab; ++v) {
        state = hash_state::mixed(state + 1);
        const float w = state % 5 == 0 ? static_cast<float>(state >> 44) : 0.0f;
        rows.data()[first + static_cast<std::size_t>(v)] = w;
        sum += static_cast<double>(w);
      }
      for (std::int32_t v = 0; v < vocab; ++v) {
        rows.data()[first + static_cast<std::size_t>(v)] /= static_cast<float>(sum);
      }
    }
  };
  fill(q);
  fill(p);
  for (std::int32_t i = 0; i < batch * length; ++i) {
    std::int32_t t = 0;
    while (
        q.data()[static_cast<std::size_t>(i) * vocab + static_cast<std::size_t>(t)] <= 0.0f ||
        (i % 3 == 0 &&
         p.data()[static_cast<std::size_t>(i + i / length) * vocab + static_cast<std::size_t>(t)] <=
             0.0f)) {
      ++t;
    }
    ids.data()[i] = t;
  }
  interop::flashinfer::chain_arguments<float> args;
  args.batch = batch;
  args.length = length;
  args.vocab = vocab;
  args.draft_probs = q.data();
  args.draft_token_ids = ids.data();
  args.target_probs = p.data();
  args.output_token_ids = out.data();
  args.emitted = emitted.data();
  executor::host host;
  interop::flashinfer::chain_speculative_sampling(host, args);
  const std::vector<std::int32_t> expected(out.data(), out.data() + out.size());
  for (std::size_t i = 0; i < out.size(); ++i) { out.data()[i] = 99; }
  interop::flashinfer::chain_speculative_sampling(device, args);
  device.synchronize();
  check(expected == std::vector<std::int32_t>(out.data(), out.data() + out.size()),
        "chains of probabilities");
}

}  // namespace

int main(int argc, char** argv) {
  brief = argc > 1 && std::string(argv[1]) == "--short";
  int devices = 0;
  has_device = cudaGetDeviceCount(&devices) == cudaSuccess && devices > 0;
  same_texts("rejection", plain{}, verifier::rejection{}, run_kind::sampled);
  same_texts("block", plain{}, verifier::block{}, run_kind::sampled);
  same_texts("point mass", plain{}, verifier::point_mass{}, run_kind::sampled);
  same_texts("coupled", plain{}, verifier::coupled{}, run_kind::sampled);
  same_texts("greedy", sampler::greedy{}, verifier::greedy{}, run_kind::greedy);
  same_texts<by_router>("rejection over routed shortlists", plain{}, verifier::rejection{},
                        run_kind::sampled);
  same_texts("rejection with every stage", stages{}, verifier::rejection{}, run_kind::staged);
  if (!brief) { same_shrinking_texts(); }
  same_chains();
  if (!has_device) {
    std::printf("######## NO CUDA DEVICE: %d device checks were NOT RUN ########\n", checks);
    return 0;
  }
  std::printf("%d device checks, %d failed\n", checks, failures);
  return failures == 0 ? 0 : 1;
}
