// SPDX-License-Identifier: Apache-2.0

// What parts chosen at run time cost: the decoders of a program that knows five drafters and four
// verifiers. FORM 0: one pair; 1: a decoder for each of the pairs that fit; 2: one decoder of any
// of them; 3: a program that times steps of pairs in both ways. Compiled by run.sh beside this
// file.

#include <cstdint>
#include <cstdio>
#include <type_traits>
#include <utility>
#include <vector>

#include <hunch/hunch.hpp>

#if FORM == 3
#include "../launches.hpp"
using model = bench::launches::free_model;
#else
// What a program links against; the forms are compiled and not run.
struct model {
  struct pass {
    hunch::status status(std::int32_t) const;
    hunch::row_view<float> logits(std::int32_t) const;
  };
  std::int32_t vocab_size() const;
  std::uint64_t head_order() const;
  pass evaluate(const hunch::rows&);
  pass forward(const hunch::rows&);
  void head(const pass&, const hunch::head_rows<float>&);
  void commit(const hunch::kept_rows&) noexcept;
};
#endif

namespace {

using namespace hunch;

using chain = drafter::autoregressive<model&, tree::chain<5>>;
using drawn = drafter::autoregressive<model&, tree::sampled<2, 2>>;
using ranked = drafter::autoregressive<model&, tree::dynamic<4, 4, 16>>;
using copies = drafter::lookup<4>;
using nothing = drafter::none;
using any_drafter = drafter::one_of<chain, drawn, ranked, copies, nothing>;
using any_verifier =
    verifier::one_of<verifier::rejection, verifier::block, verifier::point_mass, verifier::coupled>;

template <class D>
D make(model& m) {
  if constexpr (std::is_constructible_v<D, model&>) {
    return D{m};
  } else {
    return D{};
  }
}

template <class D, class V>
auto composed(model& m, model& small, V rule) {
  return decoder{m,
                 D(make<std::conditional_t<std::is_same_v<D, any_drafter>, chain, D>>(small)),
                 selector::full{m.vocab_size()},
                 sampler::pipeline<sampler::temperature>{},
                 std::move(rule),
                 decoder_options{.token_text = {}}};
}

template <class D, class V>
constexpr bool fits =
    (!V::needs_draft_law || D::children != child_law::ranked) && V::accepts(D::children,
                                                                            D::is_chain);

}  // namespace

#if FORM == 0
std::int64_t run(model& m, model& small) {
  auto d = composed<chain>(m, small, verifier::rejection{});
  d.add(std::vector<token>{1}, {});
  return static_cast<std::int64_t>(d.step().size());
}
#elif FORM == 1
template <class D>
std::int64_t with(model& m, model& small, int rule) {
  const auto use = [&]<class V>(V verifier) -> std::int64_t {
    if constexpr (fits<D, V>) {
      auto d = composed<D>(m, small, verifier);
      d.add(std::vector<token>{1}, {});
      return static_cast<std::int64_t>(d.step().size());
    } else {
      return -1;
    }
  };
  switch (rule) {
    case 0:
      return use(verifier::rejection{});
    case 1:
      return use(verifier::block{});
    case 2:
      return use(verifier::point_mass{});
    default:
      return use(verifier::coupled{});
  }
}
std::int64_t run(model& m, model& small, int drafter, int rule) {
  switch (drafter) {
    case 0:
      return with<chain>(m, small, rule);
    case 1:
      return with<drawn>(m, small, rule);
    case 2:
      return with<ranked>(m, small, rule);
    case 3:
      return with<copies>(m, small, rule);
    default:
      return with<nothing>(m, small, rule);
  }
}
#elif FORM == 2
std::int64_t run(model& m, any_drafter drafter, any_verifier rule) {
  decoder d{m,
            std::move(drafter),
            selector::full{m.vocab_size()},
            sampler::pipeline<sampler::temperature>{},
            std::move(rule),
            decoder_options{.token_text = {}}};
  d.add(std::vector<token>{1}, {});
  return static_cast<std::int64_t>(d.step().size());
}
#else
/// Microseconds of a step of four requests.
template <class Decoder>
double step_time(Decoder& d) {
  std::uint64_t seed = 0;
  const auto fill = [&] {
    while (d.running() < 4) {
      d.add(std::vector<token>{1, static_cast<token>(seed % 50)},
            {.max_new_tokens = 400, .seed = seed});
      ++seed;
    }
  };
  fill();
  for (int n = 0; n < 20; ++n) { d.step(); }
  const auto begin = std::chrono::steady_clock::now();
  constexpr int steps = 400;
  for (int n = 0; n < steps; ++n) {
    fill();
    d.step();
  }
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
  return took.count() / steps * 1e6;
}

template <class D, class V>
void compare(const char* name, V rule) {
  model target, small;
  std::vector<double> alone, chosen, ratio;
  for (int round = 0; round < 15; ++round) {
    const auto one = [&] {
      decoder d{target,
                make<D>(small),
                selector::full{target.vocab_size()},
                sampler::pipeline<sampler::temperature>{},
                std::move(rule),
                decoder_options{.max_batch = 4, .token_text = {}}};
      alone.push_back(step_time(d));
    };
    const auto other = [&] {
      decoder d{target,
                any_drafter(make<D>(small)),
                selector::full{target.vocab_size()},
                sampler::pipeline<sampler::temperature>{},
                any_verifier(rule),
                decoder_options{.max_batch = 4, .token_text = {}}};
      chosen.push_back(step_time(d));
    };
    if (round % 2 == 0) {
      one(), other();
    } else {
      other(), one();
    }
    ratio.push_back(chosen.back() / alone.back());
  }
  std::printf("%-22s %8.2f us a step, chosen at run time %.3f of it\n", name, bench::median(alone),
              bench::median(ratio));
}

int main() {
  compare<chain>("chain, rejection", verifier::rejection{});
  compare<chain>("chain, block", verifier::block{});
  compare<chain>("chain, coupled", verifier::coupled{});
  compare<drawn>("drawn tree, rejection", verifier::rejection{});
  compare<ranked>("ranked tree, point_mass", verifier::point_mass{});
  compare<copies>("copies, point_mass", verifier::point_mass{});
  compare<nothing>("nothing, rejection", verifier::rejection{});
}
#endif
