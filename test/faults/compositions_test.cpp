// SPDX-License-Identifier: Apache-2.0

// Drafters of every kind, driven by the host and repeated by their executor: a model that throws at
// any call leaves what was there, and a step allocates nothing.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include <hunch/decoder/resident_decoder.hpp>
#include <hunch/drafter/cascade.hpp>
#include <hunch/drafter/ensemble.hpp>
#include <hunch/drafter/heads.hpp>
#include <hunch/drafter/lookup.hpp>
#include <hunch/drafter/pruned.hpp>
#include <hunch/drafter/streaming.hpp>
#include <hunch/length/cost.hpp>
#include <hunch/selector/clustered.hpp>
#include <hunch/tree/dynamic.hpp>
#include <hunch/tree/fixed.hpp>
#include <hunch/tree/sampled.hpp>
#include <hunch/verifier/coupled.hpp>
#include <hunch/verifier/point_mass.hpp>
#include "../exact/exact.hpp"
#include "../exact/selectors.hpp"
#include "../support/erased_decoders.hpp"
#include "../support/padded_grid_models.hpp"
#include "../support/toy_router.hpp"
#include "allocations.hpp"

namespace hunch::test {
namespace {

constexpr std::int32_t vocab = 7;
constexpr std::int32_t max_batch = 2;
constexpr tree::choices some{{0}, {1}, {0, 0}, {1, 1}, {0, 0, 0}};

exact_case worlds() { return {{vocab, 61, flavour::sharp}, {vocab, 62, flavour::smooth}, {}}; }

/// A model whose allocations do not count.
template <class M>
struct quiet : M {
  using M::M;

  auto evaluate(const rows& r) requires requires(M& m) { m.evaluate(r); }
  {
    const allocations::pause here;
    return M::evaluate(r);
  }
  template <class Rows>
  auto forward(const Rows& r) requires requires(M& m) {
    m.forward(r);
  }
  {
    const allocations::pause here;
    return M::forward(r);
  }
  template <class Hidden, class Real>
  void head(Hidden&& h, const head_rows<Real>& rows) {
    const allocations::pause here;
    M::head(h, rows);
  }
  void commit(const kept_rows& kept) noexcept requires requires(M& m) { m.commit(kept); }
  {
    const allocations::pause here;
    M::commit(kept);
  }
};

/// As `grid_and_eagle`.
struct quiet_models {
  explicit quiet_models(const vocab_layout& layout)
      : target(worlds().target),
        draft(worlds().draft, layout),
        eagle(worlds().draft, layout),
        heads(worlds().draft, 3, layout),
        streams(worlds().draft, 3, layout),
        view(target, {vocab, 63, flavour::smooth}, layout) {}

  quiet<toy_stream_target<>> target;
  quiet<toy_draft<>> draft;
  quiet<rereading_draft<>> eagle;
  quiet<toy_heads<>> heads;
  quiet<toy_stream_head<>> streams;
  quiet<toy_view<toy_stream_target<>>> view;
};

/// Calls use(make, selector, verifier) for drafters of every kind; make(models) gives one.
template <class Use>
void each_composition(const Use& use) {
  static constexpr double curve[] = {1.0, 1.1, 1.2, 1.4, 1.6};
  static const toy_router weights(toy_context_size, 2, 7);
  const selector::clustered routed{shuffled_layout(vocab, vocab).clustered({2, 5, vocab}),
                                   weights.view(), budget::fixed{2}};
  const selector::frequency frequent{shuffled_layout(vocab, vocab), 5};
  const auto with = [&](const char* name, const auto& make, const auto& selector, auto verifier) {
    INFO(std::string(name));
    use(make, selector, verifier);
  };
  with(
      "a chain of a model",
      [](auto& m) {
        return drafter::autoregressive{m.draft, tree::chain<3>{}};
      },
      frequent, verifier::rejection{});
  with(
      "a routed tree of what reads accepted tokens again",
      [](auto& m) {
        return drafter::autoregressive{m.eagle, tree::dynamic<2, 3, 7>{}};
      },
      routed, verifier::point_mass{});
  with(
      "drawn trees of heads",
      [](auto& m) {
        return drafter::heads{m.heads, tree::sampled<2, 1>{}};
      },
      routed, verifier::rejection{});
  with(
      "streams, as deep as pays",
      [](auto& m) {
        return drafter::streaming{m.streams, tree::dynamic<2, 3, 7>{},
                                  length::cost{.draft = 0.05, .rows = curve}};
      },
      frequent, verifier::coupled{});
  with(
      "pruned trees of heads",
      [](auto& m) {
        return drafter::pruned{drafter::heads{m.heads, tree::fixed<some>{}}, m.view, 3};
      },
      frequent, verifier::point_mass{});
  with(
      "what is looked up, in one tree with that of a model",
      [](auto& m) {
        return drafter::ensemble{drafter::lookup<3>{1},
                                 drafter::autoregressive{m.eagle, tree::dynamic<2, 3, 7>{}}};
      },
      frequent, verifier::point_mass{});
  with(
      "what is looked up, or a chain of a model",
      [](auto& m) {
        return drafter::cascade{drafter::lookup<3>{1},
                                drafter::autoregressive{m.draft, tree::chain<3>{}}};
      },
      routed, verifier::rejection{});
}

std::vector<request> requests(std::int32_t longer = 0) {
  std::vector<request> all;
  for (std::int32_t n = 0; n < 4; ++n) {
    request r{{}, ask(6 + 3 * n + longer, n == 2 ? 0.0f : 1.0f)};
    for (std::int32_t t = 0; t <= 2 * n; ++t) { r.prompt.push_back((3 * n + t) % vocab); }
    r.options.seed = static_cast<std::uint64_t>(40 + n);
    if (n == 3) { r.options.stop_tokens = {4}; }
    all.push_back(r);
  }
  return all;
}

template <class Models, class Make, class Selector, class V>
auto host_driven(Models& m, const Make& make, const Selector& selector, V verifier) {
  return decoder{
      m.target,           make(m),
      Selector(selector), plain_sampler{},
      V(verifier),        decoder_options{.max_batch = max_batch, .chunk = 3, .token_text = {}}};
}
template <class Models, class Make, class Selector, class V>
auto repeated(Models& m, const Make& make, const Selector& selector, V verifier) {
  return resident_decoder{
      m.target,
      make(m),
      Selector(selector),
      plain_sampler{},
      V(verifier),
      resident_options{.max_batch = max_batch, .max_length = 64, .chunk = 3, .ring = 64}};
}

/// Steps until one goes through, and looks that those which threw left the caches as they were.
class retries {
 public:
  explicit retries(grid_and_eagle& m) : m_(&m) {}

  template <class Step>
  auto until_done(const Step& step) {
    for (;;) {
      const std::vector<text> before = caches();
      try {
        return step();
      } catch (const planned_failure&) {
        ++thrown;
        CHECK(caches() == before);
      }
    }
  }

  std::int64_t thrown = 0;

 private:
  std::vector<text> caches() const {
    std::vector<text> all;
    for (std::int32_t slot = 0; slot < max_batch; ++slot) {
      all.push_back(m_->target.cache().tokens(slot));
      // A model's own cache catches up with the text before it drafts; that is not taken back.
    }
    return all;
  }

  grid_and_eagle* m_;
};

class retried_steps final : public stepped_decoder {
 public:
  retried_steps(stepped_decoder& of, retries& by) : of_(&of), by_(&by) {}
  request_id add(const request& r) override { return of_->add(r); }
  bool cancel(request_id id) override { return of_->cancel(id); }
  std::int32_t running() const override { return of_->running(); }
  std::span<const emission> step() override {
    return by_->until_done([&] { return of_->step(); });
  }

 private:
  stepped_decoder* of_;
  retries* by_;
};
class retried_runs final : public repeated_decoder {
 public:
  retried_runs(repeated_decoder& of, retries& by) : of_(&of), by_(&by) {}
  request_id add(const request& r) override { return of_->add(r); }
  std::int32_t running() const override { return of_->running(); }
  void run(std::int64_t steps) override {
    by_->until_done([&] { of_->run(steps); });
  }
  void poll(std::vector<ring_entry>& to) override { of_->poll(to); }

 private:
  repeated_decoder* of_;
  retries* by_;
};

/// Runs by a way of driving with a failure at every call of a model, one after the other.
/// \param run(models, retries) what is written. Returns what is written without a failure.
template <class Run>
outcome throw_everywhere(const vocab_layout& layout, const Run& run) {
  outcome expected;
  std::int64_t calls = 1;
  for (std::int64_t at = -1; at < calls; ++at) {
    CAPTURE(at);
    grid_and_eagle m(worlds(), layout);
    failure_plan plan{0, at};
    m.target.failures = m.draft.failures = m.eagle.failures = &plan;
    m.heads.failures = m.streams.failures = m.view.failures = &plan;
    retries by(m);
    const outcome got = run(m, by);
    CHECK(by.thrown == (at < 0 ? 0 : 1));
    if (at < 0) {
      expected = got;
      calls = plan.calls;
      CHECK(calls > 6);
    } else {
      CHECK(got == expected);
    }
    m.target.cache().check();
    m.draft.cache().check();
    m.eagle.cache().check();
  }
  return expected;
}

TEST_CASE("a model of any drafter that throws at any call, in both ways") {
  each_composition([](const auto& make, const auto& selector, auto verifier) {
    const outcome by_host =
        throw_everywhere(selector.layout(), [&](grid_and_eagle& m, retries& by) {
          auto d = host_driven(m, make, selector, verifier);
          stepped_by steps(d);
          retried_steps retried(steps, by);
          const outcome out = outcome_of(retried, requests(), max_batch);
          CHECK(d.stats().drafted > 0);
          return out;
        });
    const outcome by_itself =
        throw_everywhere(selector.layout(), [&](grid_and_eagle& m, retries& by) {
          auto d = repeated(m, make, selector, verifier);
          repeated_by runs(d);
          retried_runs retried(runs, by);
          return outcome_of(retried, requests(), max_batch, 1);
        });
    CHECK(by_host == by_itself);
  });
}

TEST_CASE("a step of any drafter allocates nothing, in both ways") {
  each_composition([](const auto& make, const auto& selector, auto verifier) {
    std::int64_t steps = 0;
    {
      quiet_models m(selector.layout());
      auto d = host_driven(m, make, selector, verifier);
      for (std::size_t r = 0; r < max_batch; ++r) {
        d.add(requests(30)[r].prompt, requests(30)[r].options);
      }
      for (; d.running() > 0; ++steps) {
        CHECK(allocations::during([&] { d.step(); }) == 0);
      }
      CHECK(d.stats().drafted > 0);
    }
    CHECK(steps > 3);
    quiet_models m(selector.layout());
    auto d = repeated(m, make, selector, verifier);
    for (std::size_t r = 0; r < max_batch; ++r) {
      d.add(requests(30)[r].prompt, requests(30)[r].options);
    }
    for (; d.running() > 0; ++steps) {
      CHECK(allocations::during([&] {
              d.run(1);
              d.poll([](const ring_entry&) {});
            }) == 0);
    }
    CHECK(d.stats().drafted > 0);
    // The counter counts.
    CHECK(allocations::during([] { static_cast<void>(requests()); }) > 0);
  });
}

}  // namespace
}  // namespace hunch::test
