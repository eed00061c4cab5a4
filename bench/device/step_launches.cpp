// SPDX-License-Identifier: Apache-2.0

// Prints, as JSON, what a device is given in a step without models: the bodies in their order, how
// many of each, whether they run beside the draft model's pass, their bytes, and which of their
// words are pointers that stand in them before: views that several bodies of one launch have a copy
// of. The steps are the library's own, on the host, over memory that nobody reads there, so that
// they are launched as on a device.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <type_traits>
#include <typeinfo>
#include <utility>
#include <vector>

#include <cxxabi.h>

#include <hunch/core/bfloat16.hpp>
#include <hunch/decoder/resident_decoder.hpp>
#include <hunch/drafter/autoregressive.hpp>
#include <hunch/executor/executor.hpp>
#include <hunch/executor/host.hpp>
#include <hunch/executor/in_order.hpp>
#include <hunch/sampler/pipeline.hpp>
#include <hunch/sampler/temperature.hpp>
#include <hunch/selector/clustered.hpp>
#include <hunch/selector/frequency.hpp>
#include <hunch/selector/router.hpp>
#include <hunch/tree/chain.hpp>
#include <hunch/tree/dynamic.hpp>
#include <hunch/verifier/point_mass.hpp>
#include <hunch/verifier/rejection.hpp>
#include <hunch/vocab/budget.hpp>
#include <hunch/vocab/vocab_layout.hpp>

namespace bench::device {
namespace {

using namespace hunch;

constexpr std::int32_t vocab = 128256;
constexpr std::int32_t width = 4096;  ///< of states; a router reads two of them
constexpr std::int32_t router_width = 1024;
constexpr std::int32_t clusters = 1008;
constexpr std::int32_t chosen = 212;         ///< clusters of a shortlist: 27,000 rows
constexpr std::int32_t common_rows = 27000;  ///< of a static one
constexpr std::int32_t processors = 132;

using plain = sampler::pipeline<sampler::temperature>;

struct launched {
  std::string body;
  std::int32_t count = 0;
  bool beside = false;  ///< the draft model's pass
  std::size_t size = 0;
  std::vector<std::pair<std::size_t, std::size_t>> again;  ///< bytes at which a pointer stands, and
                                                           ///< at which it stood first
};

/// Pointers of a body that stand in it before.
template <class Body>
std::vector<std::pair<std::size_t, std::size_t>> repeated_pointers(const Body& body) {
  static_assert(std::is_trivially_copyable_v<Body>);
  std::vector<std::uintptr_t> words(sizeof(Body) / sizeof(std::uintptr_t));
  std::memcpy(words.data(), &body, words.size() * sizeof(std::uintptr_t));
  constexpr std::uintptr_t numbers = std::uintptr_t{1} << 40;  // and pairs of small ones
  std::vector<std::pair<std::size_t, std::size_t>> found;
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (words[i] < numbers) { continue; }
    const auto first = std::find(words.begin(), words.end(), words[i]) - words.begin();
    if (static_cast<std::size_t>(first) == i) { continue; }
    found.emplace_back(i * sizeof(std::uintptr_t),
                       static_cast<std::size_t>(first) * sizeof(std::uintptr_t));
  }
  return found;
}

/// The name of the template that a full name is one of.
std::string template_of(const std::string& full) {
  const std::string before = full.substr(0, full.find('<'));
  return before.substr(before.rfind(':') + 1);
}

/// The name of a body's template; of bodies that one launch runs in order, those of all.
template <class Body>
struct named {
  static std::string name() {
    const std::unique_ptr<char, decltype(&std::free)> full(
        abi::__cxa_demangle(typeid(Body).name(), nullptr, nullptr, nullptr), &std::free);
    return template_of(full.get());
  }
};
template <class First, class... Rest>
struct named<kernel::in_order<First, Rest...>> {
  static std::string name() { return (named<First>::name() + ... + ("+" + named<Rest>::name())); }
};

/// An executor of the host with the properties of a device that a step looks at: memory that the
/// host does not read, teams to spare, and a second stream. It remembers the last step that it
/// repeated.
class recording_device : executor::host {
 public:
  template <class T>
  struct buffer : executor::host::buffer<T> {
    buffer(recording_device& of, std::size_t n) : executor::host::buffer<T>(of, n) {}
  };
  template <class T>
  struct resident : executor::host::buffer<T> {
    resident(recording_device& of, std::size_t n) : executor::host::buffer<T>(of, n) {}
  };

  recording_device() : recording_device(std::make_shared<std::vector<launched>>(), false) {
    side_.reset(new recording_device(step_, true));
  }

  template <class Body>
  void launch(std::int32_t count, const Body& body) {
    step_->push_back({named<Body>::name(), count, beside_, sizeof(Body), repeated_pointers(body)});
    host::launch(count, body);
  }
  template <class Body>
  std::int32_t teams_at_once(const Body&) const {
    return processors;
  }
  recording_device& fork() { return *side_; }
  void join() noexcept {}
  using host::download;
  using host::synchronize;
  using host::upload;

  template <class Step>
  void repeat(std::uint64_t, Step&& step, std::int32_t* again) {
    do {
      step_->clear();
      step(repeat_flag{again});
    } while (*again != 0);
  }

  const std::vector<launched>& step() const { return *step_; }

 private:
  recording_device(std::shared_ptr<std::vector<launched>> step, bool beside)
      : step_(std::move(step)), beside_(beside) {}

  std::shared_ptr<std::vector<launched>> step_;
  bool beside_;
  std::shared_ptr<recording_device> side_;
};
static_assert(ResidentExecutor<recording_device>);

/// A target and a draft model that launch nothing: all logits are those of one row.
class free_model {
 public:
  struct pass {
    row_view<float> row;
    hunch::status status(std::int32_t) const { return hunch::status::ok; }
    row_view<float> logits(std::int32_t) const { return row; }
  };

  explicit free_model(const vocab_layout& order)
      : order_(order.order()), logits_(vocab), contexts_(std::size_t{rows} * 2 * width) {}

  std::int32_t vocab_size() const { return vocab; }
  std::uint64_t head_order() const { return order_; }
  std::int32_t context_width() const { return 2 * width; }

  pass evaluate(const hunch::rows&) { return {{logits_.data(), vocab}}; }
  context_rows contexts(const hunch::rows&) { return {contexts_.data(), 2 * width}; }
  pass forward(const hunch::rows&) { return {{logits_.data(), vocab}}; }
  void head(const pass&, const head_rows<float>&) {}
  void commit(const kept_rows&) noexcept {}

 private:
  static constexpr std::int32_t rows = 64;  ///< of a pass

  std::uint64_t order_;
  std::vector<float> logits_;
  std::vector<float> contexts_;
};

/// A router whose weights are zero.
class zero_router {
 public:
  zero_router()
      : weights_(std::size_t{router_width} * 2 * width), biases_(std::size_t{2} * width) {}

  router::mlp<bfloat16> view() const {
    return {{weights_.data(), router_width, 2 * width},
            biases_.data(),
            {weights_.data(), clusters, router_width},
            biases_.data()};
  }

 private:
  std::vector<bfloat16> weights_;
  std::vector<float> biases_;
};

/// The last of a few steps of one request.
template <class Tree, class Selector, class V>
std::vector<launched> step_of(const vocab_layout& order, Tree tree, Selector selector, V verifier) {
  free_model target(order);
  free_model draft(order);
  resident_decoder decoder(
      target, drafter::autoregressive{draft, tree}, std::move(selector), plain{}, verifier,
      resident_options{.max_batch = 1, .max_length = 512, .chunk = 1, .ring = 512},
      random_source<>{}, recording_device{});
  constexpr token prompt[] = {1};
  decoder.add(prompt, {.max_new_tokens = 500});
  decoder.run(3);
  return decoder.executor().step();
}

void print(const char* name, const std::vector<launched>& step, const char* after) {
  std::printf("\"%s\": [\n", name);
  for (std::size_t i = 0; i < step.size(); ++i) {
    std::printf("  {\"body\": \"%s\", \"count\": %d, \"beside\": %s, \"size\": %zu, \"again\": [",
                step[i].body.c_str(), step[i].count, step[i].beside ? "true" : "false",
                step[i].size);
    const char* comma = "";
    for (const auto& [at, first] : step[i].again) {
      std::printf("%s[%zu, %zu]", comma, at, first);
      comma = ", ";
    }
    std::printf("]}%s\n", i + 1 < step.size() ? "," : "");
  }
  std::printf("]%s\n", after);
}

}  // namespace
}  // namespace bench::device

int main() {
  using namespace bench::device;
  const vocab_layout order = vocab_layout::identity(vocab);
  std::vector<std::int32_t> begin;
  for (std::int64_t c = 0; c <= clusters; ++c) {
    begin.push_back(static_cast<std::int32_t>(c * vocab / clusters));
  }
  const vocab_layout routed = order.clustered(begin);
  const zero_router router;
  const selector::clustered by_router{routed, router.view(), budget::fixed{chosen}};
  std::printf("{\n");
  print("chain of 5",
        step_of(order, tree::chain<5>{}, selector::frequency<>{order, common_rows},
                verifier::rejection{}),
        ",");
  print("EAGLE-2 tree of 60 nodes, depth 6, routed shortlists",
        step_of(routed, tree::dynamic<10, 6, 60>{}, by_router, verifier::point_mass{}), ",");
  print("routed chain of 1", step_of(routed, tree::chain<1>{}, by_router, verifier::rejection{}),
        "");
  std::printf("}\n");
}
