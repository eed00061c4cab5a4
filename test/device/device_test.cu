// SPDX-License-Identifier: Apache-2.0

// On a GPU: the whole loop writes the texts that it writes on the host, bit for bit, for every
// verifier, stage and way of repeating steps, also while its batch shrinks and beside another loop;
// the adapters give what they give on the host. Without a GPU nothing is run, and the program says
// so. With HUNCH_TEST_SHORT=1 only so much is run as makes every body run once, for tools that
// watch each access to memory.

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include <hunch/draft/ancestor_masks.hpp>
#include <hunch/draft/draft_evidence.hpp>
#include <hunch/draft/find_match.hpp>
#include <hunch/draft/tree_links.hpp>
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

/// What the bodies about drafts say, run by `e` on memory that host and device reach.
template <class E>
std::vector<double> facts_of_drafts(E& e) {
  constexpr std::int32_t length = 20000;
  constexpr std::int32_t nodes = 70;
  constexpr std::int32_t wanted = 9;
  executor::cuda memory;
  executor::cuda::buffer<token> text(memory, length + wanted);
  executor::cuda::buffer<float> row(memory, length);
  executor::cuda::buffer<std::int32_t> matched(memory, 1), at(memory, 1);
  executor::cuda::buffer<std::int32_t> parents(memory, nodes), levels(memory, nodes),
      child(memory, nodes), sibling(memory, nodes);
  executor::cuda::buffer<std::uint32_t> masks(memory, nodes * mask_words(nodes));
  executor::cuda::buffer<law<float>> q(memory, 1);
  executor::cuda::buffer<double> said(memory, 2);
  executor::cuda::buffer<kernel::match_task> match(memory, 1);
  executor::cuda::buffer<kernel::evidence_task<float>> evidence(memory, 1);
  for (std::int32_t i = 0; i < length; ++i) {
    text.data()[i] = i < length - 3 ? i : 4000 + i - length;  // the last three occur
    row.data()[i] = static_cast<float>(i * 7919 % 1000) * 0.01f;
  }
  for (std::int32_t i = 0; i < nodes; ++i) { parents.data()[i] = i == 0 ? -1 : (i - 1) / 2; }
  at.data()[0] = 7;
  team::serial team;
  q.data()[0] = plain{}(team, row_view<float>{row.data(), length}, {}, {});
  match.data()[0] = {{text.data(), length, 1, wanted, text.data() + length}, matched.data()};
  evidence.data()[0] = {q.data(), at.data(), said.data(), said.data() + 1};
  const tree_parents trees{1, nodes, nullptr, parents.data()};
  e.launch(1, kernel::find_match<4>{match.data()});
  e.launch(1, kernel::report_evidence<float>{evidence.data()});
  ancestor_masks(e, {trees, masks.data(), levels.data()});
  tree_links(e, {trees, child.data(), sibling.data()});
  e.synchronize();
  std::vector<double> facts(said.data(), said.data() + 2);
  facts.push_back(matched.data()[0]);
  facts.insert(facts.end(), text.data() + length, text.data() + length + wanted);
  facts.insert(facts.end(), masks.data(), masks.data() + masks.size());
  for (const auto* of : {&levels, &child, &sibling}) {
    facts.insert(facts.end(), of->data(), of->data() + nodes);
  }
  return facts;
}

void same_facts() {
  if (!has_device) {
    ++checks;
    return;
  }
  executor::host host;
  executor::cuda device;
  const std::vector<double> expected = facts_of_drafts(host);
  check(expected[2] == 3.0, "a tail of three tokens is found");
  check(facts_of_drafts(device) == expected, "matches, evidence, masks and links");
}

}  // namespace

int main() {
  brief = std::getenv("HUNCH_TEST_SHORT") != nullptr;
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
  same_facts();
  if (!has_device) {
    std::printf("######## NO CUDA DEVICE: %d device checks were NOT RUN ########\n", checks);
    return 0;
  }
  std::printf("%d device checks, %d failed\n", checks, failures);
  return failures == 0 ? 0 : 1;
}
