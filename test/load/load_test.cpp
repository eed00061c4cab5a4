// SPDX-License-Identifier: Apache-2.0

// Sizes at their corners, arrays of more than 2^31 elements, and runs that go on and on.

#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <new>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include <hunch/interop/flashinfer.hpp>
#include <hunch/interop/vllm_logits.hpp>
#include <hunch/verifier/coupled.hpp>
#include "../exact/exact.hpp"
#include "../support/full.hpp"

namespace hunch::test {
namespace {

/// n values of address space that get memory where they are touched, and there begin as 0.
template <class T>
class sparse_array {
 public:
  explicit sparse_array(std::size_t n)
      : size_(n),
        data_(mmap(nullptr, bytes(), PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0)) {
    if (data_ == MAP_FAILED) { throw std::bad_alloc(); }
  }
  sparse_array(sparse_array&& other) noexcept
      : size_(other.size_), data_(std::exchange(other.data_, MAP_FAILED)) {}
  sparse_array& operator=(sparse_array&&) = delete;
  ~sparse_array() {
    if (data_ != MAP_FAILED) { munmap(data_, bytes()); }
  }

  T* data() const { return static_cast<T*>(data_); }
  std::size_t size() const { return size_; }

 private:
  std::size_t bytes() const { return (size_ + 1) * sizeof(T); }

  std::size_t size_;
  void* data_;
};

/// A host whose buffers are sparse.
struct sparse_host : executor::host {
  template <class T>
  struct buffer : sparse_array<T> {
    buffer(sparse_host&, std::size_t n) : sparse_array<T>(n) {}
  };
};
static_assert(Executor<sparse_host>);

constexpr std::int32_t longest = 32;

struct load {
  std::int32_t batch;
  std::int32_t draft_length;
  std::int32_t vocab;
  std::int32_t tokens;
};

struct served {
  std::vector<text> texts;
  double tokens_per_step = 0.0;
};

/// The texts of a batch of requests that run together.
template <class V, class Drafter>
served serve(const load& l, const toy_world& world, Drafter drafter, std::int32_t first,
             std::int32_t count) {
  toy_target<float> target{world};
  decoder d{target,
            std::move(drafter),
            selector::full{l.vocab},
            plain_sampler{},
            V{},
            decoder_options{.max_batch = count, .draft_length = l.draft_length, .token_text = {}},
            random_source<>{},
            sparse_host{}};
  for (std::int32_t r = first; r < first + count; ++r) {
    generation_options o = ask(l.tokens);
    o.seed = static_cast<std::uint64_t>(r);
    d.add(text{r % l.vocab}, o);
  }
  served out;
  out.texts.resize(static_cast<std::size_t>(count));
  while (d.running() > 0) {
    for (const emission& e : d.step()) {
      REQUIRE(e.status == status::ok);
      text& t = out.texts[static_cast<std::size_t>(e.id - 1)];
      t.insert(t.end(), e.tokens.begin(), e.tokens.end());
    }
  }
  out.tokens_per_step = d.stats().mean_acceptance_length();
  return out;
}

/// The texts of the batch are those of plain decoding, one by one; a draft of the target's own law
/// is accepted whole.
void check(const load& l) {
  CAPTURE(l.batch);
  CAPTURE(l.draft_length);
  CAPTURE(l.vocab);
  const toy_world p{l.vocab, 81, flavour::sharp};
  const toy_world q{l.vocab, 82, flavour::smooth};
  using chain = tree::chain<longest>;
  toy_draft<float> other{q};
  const served coupled =
      serve<verifier::coupled>(l, p, drafter::autoregressive{other, chain{}}, 0, l.batch);
  for (const std::int32_t r : {0, l.batch / 2, l.batch - 1}) {
    const served plain = serve<verifier::coupled>(l, p, drafter::none{}, r, 1);
    CHECK(coupled.texts[static_cast<std::size_t>(r)] == plain.texts[0]);
    CHECK(plain.texts[0].size() == static_cast<std::size_t>(l.tokens));
  }
  toy_draft<float> same{p};
  const served accepted =
      serve<verifier::rejection>(l, p, drafter::autoregressive{same, chain{}}, 0, l.batch);
  if (l.tokens % (l.draft_length + 1) == 0) {
    CHECK(accepted.tokens_per_step == doctest::Approx(l.draft_length + 1));
  }
}

TEST_CASE("batches of every size") {
  for (const std::int32_t batch : {1, 2, 3, 7, 32, 33, 255, 1024, 4096}) {
    check({batch, 3, 33, 8});
  }
}

TEST_CASE("drafts of every length") {
  for (const std::int32_t length : {0, 1, 2, 3, 7, 31, 32}) { check({3, length, 32, length + 1}); }
}

TEST_CASE("vocabularies of every size") {
  for (const std::int32_t vocab :
       {1, 2, 31, 32, 33, 1023, 1024, 1025, 8193, 32000, 128256, 151936, 262144}) {
    check({2, 3, vocab, 4});
  }
}

TEST_CASE("corners of batch, draft length and vocabulary") {
  check({4096, longest, 2, longest + 1});
  check({33, longest, 1025, longest + 1});
  check({255, 1, 8193, 2});
  check({7, 5, 128256, 6});
}

TEST_CASE("draft rows beyond 2^31 elements") {
  const load l{260, 1, 262144, 2};
  static_assert(std::int64_t{260} * longest * 262144 > std::int64_t{1} << 31);
  check(l);
}

TEST_CASE("arrays of an engine beyond 2^31 elements: probabilities") {
  constexpr std::int32_t vocab = 151936;
  constexpr std::int32_t length = 7;
  constexpr std::int32_t batch = 2048;
  constexpr std::int64_t rows = std::int64_t{batch} * length;
  static_assert(rows * vocab > std::int64_t{1} << 31);
  const sparse_array<float> q(static_cast<std::size_t>(rows * vocab));
  const sparse_array<float> p(static_cast<std::size_t>((rows + batch) * vocab));
  std::vector<std::int32_t> ids(rows, 0);
  std::vector<std::int32_t> out(static_cast<std::size_t>(rows + batch), 99);
  std::vector<status> statuses(batch, status::ok);
  // The last sequence drafts tokens 100, 101, ... for sure; its target wants them, and 500 then.
  for (std::int32_t i = 0; i < length; ++i) {
    ids[static_cast<std::size_t>(rows - length + i)] = 100 + i;
    q.data()[(rows - length + i) * vocab + 100 + i] = 1.0f;
    p.data()[(rows + batch - length - 1 + i) * vocab + 100 + i] = 1.0f;
  }
  p.data()[(rows + batch - 1) * vocab + 500] = 1.0f;
  interop::flashinfer::chain_arguments<float> args;
  args.batch = batch;
  args.length = length;
  args.vocab = vocab;
  args.draft_probs = q.data();
  args.draft_token_ids = ids.data();
  args.target_probs = p.data();
  args.output_token_ids = out.data();
  args.status = statuses.data();
  executor::host host;
  interop::flashinfer::chain_speculative_sampling(host, args);
  const std::vector<std::int32_t> last(out.end() - (length + 1), out.end());
  CHECK(last == std::vector<std::int32_t>{100, 101, 102, 103, 104, 105, 106, 500});
  CHECK(statuses.back() == status::ok);
  CHECK(statuses.front() == status::invalid_draft);  // rows of zeros are no laws
}

TEST_CASE("arrays of an engine beyond 2^31 elements: logits") {
  constexpr std::int32_t vocab = 262144;
  constexpr std::int32_t steps = 4;
  constexpr std::int32_t states = 2050;
  constexpr std::int64_t rows = std::int64_t{states} * steps;
  static_assert(rows * vocab > std::int64_t{1} << 31);
  const sparse_array<float> drafts(static_cast<std::size_t>(rows * vocab));
  const sparse_array<float> targets(static_cast<std::size_t>(rows * vocab));
  // A request at the last state, with the last rows of the batch. The one before it has far too
  // many rows.
  constexpr std::int32_t nodes = steps + 1;
  constexpr std::int32_t begin = static_cast<std::int32_t>(rows) - nodes;
  std::vector<std::int32_t> sampled_drafts(rows, -1);
  std::vector<std::int64_t> positions(rows, 0);
  for (std::int32_t i = 0; i < nodes; ++i) {
    const std::int32_t wanted = 1000 + i;
    if (i < steps) {
      sampled_drafts[static_cast<std::size_t>(begin + i + 1)] = wanted;
      drafts.data()[(std::int64_t{states - 1} * steps + i) * vocab + wanted] = 100.0f;
    }
    targets.data()[static_cast<std::int64_t>(begin + i) * vocab + wanted] = 100.0f;
    positions[static_cast<std::size_t>(begin + i)] = 7 + i;
  }
  sampled_drafts[begin] = 5;
  const std::int32_t states_of[] = {0, states - 1};
  std::vector<float> temperatures(states, 1.0f);
  std::vector<std::int64_t> seeds(states, 3);
  std::vector<std::int64_t> out(static_cast<std::size_t>(2 * nodes), 99);
  std::vector<std::int32_t> counts(2, -1);
  std::vector<status> statuses(2, status::ok);
  interop::vllm::logits_arguments<float> args;
  args.num_reqs = 2;
  args.max_num_reqs = states;
  args.num_logits = static_cast<std::int32_t>(rows);
  args.num_speculative_steps = steps;
  args.vocab = vocab;
  args.target_logits = targets.data();
  args.draft_logits = drafts.data();
  args.draft_sampled = sampled_drafts.data();
  const std::int32_t bounds[] = {0, begin, static_cast<std::int32_t>(rows)};
  args.cu_num_logits = bounds;
  args.pos = positions.data();
  args.idx_mapping = states_of;
  args.sampling.temperature = temperatures.data();
  args.seed = seeds.data();
  args.sampled = out.data();
  args.num_sampled = counts.data();
  args.status = statuses.data();
  const sparse_array<law<float>> scratch(args.workspace_bytes() / sizeof(law<float>));
  args.workspace = scratch.data();
  executor::host host;
  interop::vllm::rejection_sample(host, args);
  CHECK(statuses[0] == status::invalid_parameter);
  CHECK(statuses[1] == status::ok);
  CHECK(counts[1] == nodes);
  const std::vector<std::int64_t> last(out.begin() + nodes, out.end());
  CHECK(last == std::vector<std::int64_t>{1000, 1001, 1002, 1003, 1004});
}

/// Pages of this process that are in memory.
std::int64_t resident_pages() {
  std::FILE* file = std::fopen("/proc/self/statm", "r");
  REQUIRE(file != nullptr);
  long long all = 0;
  long long resident = 0;
  const int fields = std::fscanf(file, "%lld %lld", &all, &resident);
  std::fclose(file);
  REQUIRE(fields == 2);
  return resident;
}

TEST_CASE("memory does not grow with the number of steps") {
  const std::int64_t steps = full_run() ? 10'000'000 : 200'000;
  toy_target<float> target{{5, 83, flavour::smooth}};
  toy_draft<float> draft{{5, 84, flavour::smooth}};
  auto d = chain_decoder<3>(target, draft, plain_sampler{}, verifier::rejection{},
                            {.max_batch = 3, .token_text = {}});
  dice random{85};
  std::int64_t before = 0;
  for (std::int64_t step = 0; step < steps; ++step) {
    if (step == steps / 10) { before = resident_pages(); }
    while (d.running() < 3) {
      generation_options o = ask(1 + random.below(40));
      o.seed = random.next();
      d.add(text{random.below(5)}, o);
    }
    d.step();
  }
  const std::int64_t after = resident_pages();
  MESSAGE(steps << " steps; " << before << " pages, then " << after);
  CHECK(100 * (after - before) < before);
}

}  // namespace
}  // namespace hunch::test
