// SPDX-License-Identifier: Apache-2.0

// On a GPU: the whole loop writes the texts that it writes on the host, bit for bit, for every
// verifier, stage and way of repeating steps, also while its batch shrinks and beside another loop;
// the adapters give what they give on the host. Without a GPU nothing is run, and the program says
// so. With HUNCH_TEST_SHORT=1 only so much is run as makes every body run once, for tools that
// watch each access to memory; with the name of a part only that part is run.

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <string_view>
#include <vector>

#include <hunch/draft/ancestor_masks.hpp>
#include <hunch/draft/draft_evidence.hpp>
#include <hunch/draft/find_match.hpp>
#include <hunch/draft/tree_links.hpp>
#include <hunch/interop/flashinfer.hpp>
#include "device_checks.cuh"

namespace hunch::test {
namespace {

/// Random rows of probabilities, verified on host and device.
bool chains_are_the_same(std::int32_t batch) {
  constexpr std::int32_t length = 5, vocab = 5000;
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
  return expected == std::vector<std::int32_t>(out.data(), out.data() + out.size());
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

/// Memory that is named, by an executor whose kernels are loaded before anything is recorded.
struct counted_memory : executor::stream_ordered_memory {
  int held = 0;

  void* allocate(std::size_t bytes, cudaStream_t stream) override {
    ++held;
    return stream_ordered_memory::allocate(bytes, stream);
  }
  void deallocate(void* data, std::size_t bytes, cudaStream_t stream) noexcept override {
    --held;
    stream_ordered_memory::deallocate(data, bytes, stream);
  }
};
bool memory_is_the_named_one() {
  const auto memory = std::make_shared<counted_memory>();
  {
    executor::cuda device(executor::looping::on_device, memory);
    device.prepare();
    const executor::cuda::resident<float> row(device, 1000);
    const executor::cuda::resident<float> none(device, 0);
    if (memory->held != 1) { return false; }
  }
  return memory->held == 0;
}

}  // namespace
}  // namespace hunch::test

namespace hunch::test {
namespace {

void check_parts_of_a_step(device_checks& check) {
  check("chains of probabilities", [&] { return chains_are_the_same(check.brief ? 2 : 40); });
  check("a tail of three tokens is found", [] {
    executor::host host;
    return facts_of_drafts(host)[2] == 3.0;
  });
  check("matches, evidence, masks and links", [] {
    executor::host host;
    executor::cuda device;
    return facts_of_drafts(device) == facts_of_drafts(host);
  });
  check("memory comes from where it is said to", memory_is_the_named_one);
}

struct part_of_test {
  const char* name;
  void (*run)(device_checks&);
};
constexpr part_of_test parts[] = {{"steps", check_parts_of_a_step},
                                  {"residuals", check_texts_by_residuals},
                                  {"points", check_texts_by_points},
                                  {"routers", check_texts_of_routers},
                                  {"stages", check_texts_of_stages}};

}  // namespace
}  // namespace hunch::test

int main(int argc, char** argv) {
  using namespace hunch::test;
  device_checks check;
  for (const part_of_test& part : parts) {
    if (argc == 1 || std::string_view(argv[1]) == part.name) { part.run(check); }
  }
  if (check.made == 0) {
    std::printf("there is no part %s\n", argv[1]);
    return 2;
  }
  if (!check.has_device) {
    std::printf("######## NO CUDA DEVICE: %d device checks were NOT RUN ########\n", check.made);
    return 0;
  }
  std::printf("%d device checks, %d failed\n", check.made, check.failures);
  return check.failures == 0 ? 0 : 1;
}
