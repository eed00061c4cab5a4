// SPDX-License-Identifier: Apache-2.0
#include "compositions.hpp"

#include <algorithm>
#include <chrono>
#include <map>
#include <stdexcept>
#include <utility>

#include <hunch/hunch.hpp>

#include "own_head_model.hpp"

namespace llama_cpp {
namespace {

constexpr std::int32_t longest = 16;

using sampling = hunch::sampler::pipeline<hunch::sampler::temperature>;

template <class Tree>
model_options options_for(const settings& s) {
  return {.max_batch = s.batch,
          .cells = s.cells,
          .max_rows = s.batch * (s.chunk + Tree::max_nodes),
          .max_wanted = s.batch * Tree::max_nodes,
          .threads = s.threads};
}
hunch::decoder_options options_of(const settings& s) {
  return {.max_batch = s.batch, .chunk = s.chunk, .draft_length = s.draft_length};
}

template <std::int32_t Branches>
std::int32_t last_of(passes<Branches>& of, std::int32_t slot) {
  of.settle();
  std::int32_t last = -1;
  for (std::int32_t b = 0; b < Branches; ++b) {
    last = std::max(last,
                    llama_memory_seq_pos_max(llama_get_memory(of.context()), slot * Branches + b));
  }
  return last;
}

/// A decoder, and the models that it holds by reference.
template <class Decoder, class Target, class Draft>
class composed final : public decoding {
 public:
  template <class Make>
  composed(std::unique_ptr<Target> target, std::unique_ptr<Draft> draft, Make make)
      : target_(std::move(target)), draft_(std::move(draft)), decoder_(make(*target_, *draft_)) {}

  hunch::request_id add(const std::vector<hunch::token>& prompt,
                        const hunch::generation_options& options) override {
    return decoder_.add(prompt, options);
  }
  std::span<const hunch::emission> step() override { return decoder_.step(); }
  bool cancel(hunch::request_id id) override { return decoder_.cancel(id); }
  std::int32_t running() const override { return decoder_.running(); }
  hunch::statistics<64> stats() const override {
    hunch::statistics<64> all;
    all += decoder_.stats();
    return all;
  }
  void reset_stats() override { decoder_.reset_stats(); }
  double decode_seconds() const override {
    return target_->rows().seconds() + draft_->rows().seconds();
  }
  double head_seconds() const override {
    if constexpr (requires { draft_->head_seconds(); }) { return draft_->head_seconds(); }
    return 0.0;
  }
  std::int32_t last_position(std::int32_t slot) override {
    return std::max(last_of(target_->rows(), slot), last_of(draft_->rows(), slot));
  }

 private:
  std::unique_ptr<Target> target_;
  std::unique_ptr<Draft> draft_;
  Decoder decoder_;
};

template <class Target, class Draft, class Make>
std::unique_ptr<decoding> composed_of(std::unique_ptr<Target> target, std::unique_ptr<Draft> draft,
                                      Make make) {
  using decoder = decltype(make(*target, *draft));
  static_assert(decoder::lossless);
  return std::make_unique<composed<decoder, Target, Draft>>(std::move(target), std::move(draft),
                                                            make);
}

template <class Tree, class Rule>
std::unique_ptr<decoding> drafting(const weights& target, const weights& draft, const settings& s) {
  using namespace hunch;
  constexpr std::int32_t branches = max_branches<Tree>;
  const model_options sizes = options_for<Tree>(s);
  auto of_target = std::make_unique<model<branches>>(target, sizes);
  if (!s.selector) {
    return composed_of(std::move(of_target), std::make_unique<model<branches>>(draft, sizes),
                       [&](auto& t, auto& d) {
                         return decoder{t,
                                        drafter::autoregressive{full_logits{d}, Tree{}},
                                        selector::full{t.vocab_size()},
                                        sampling{},
                                        Rule{},
                                        options_of(s)};
                       });
  }
  auto own = std::make_unique<own_head_model<branches>>(draft, s.selector->layout(), sizes);
  return composed_of(std::move(of_target), std::move(own), [&](auto& t, auto& d) {
    return decoder{t,
                   drafter::autoregressive{d, Tree{}},
                   selector::any<>{*s.selector},
                   sampling{},
                   Rule{},
                   options_of(s)};
  });
}

/// In place of a draft model, where nothing is drafted.
struct no_model {
  struct nothing {
    static double seconds() { return 0.0; }
  };
  static nothing rows() { return {}; }
};
std::int32_t last_of(no_model::nothing, std::int32_t) { return -1; }

}  // namespace

std::unique_ptr<decoding> compose(const weights& target, const weights& draft, const settings& s) {
  using namespace hunch;
  switch (s.drafts) {
    case shape::none: {
      const model_options sizes = options_for<tree::chain<1>>(s);
      return composed_of(std::make_unique<model<>>(target, sizes), std::make_unique<no_model>(),
                         [&](auto& t, auto&) {
                           return decoder{
                               t,          drafter::none{},       selector::full{t.vocab_size()},
                               sampling{}, verifier::rejection{}, options_of(s)};
                         });
    }
    case shape::chain:
      return drafting<tree::chain<longest>, verifier::rejection>(target, draft, s);
    case shape::ranked:
      return drafting<tree::dynamic<3, 4, 9>, verifier::point_mass>(target, draft, s);
    case shape::sampled:
      return drafting<tree::sampled<2, 2, 1, 1>, verifier::rejection>(target, draft, s);
  }
  throw std::invalid_argument("llama_cpp: no such shape of drafts");
}

run write(decoding& by, const std::vector<std::vector<hunch::token>>& prompts,
          const hunch::generation_options& options, std::int32_t batch) {
  run out;
  out.texts.resize(prompts.size());
  std::map<hunch::request_id, std::size_t> text_of;
  bool begun = false;
  auto begin = std::chrono::steady_clock::now();
  double decoded = 0.0;
  double multiplied = 0.0;
  for (;;) {
    while (text_of.size() < prompts.size() && by.running() < batch) {
      hunch::generation_options own = options;
      own.seed += text_of.size();
      const std::size_t i = text_of.size();
      text_of[by.add(prompts[i], own)] = i;
    }
    if (by.running() == 0) { break; }
    std::int64_t tokens = 0;
    for (const hunch::emission& e : by.step()) {
      text& to = out.texts[text_of.at(e.id)];
      to.tokens.insert(to.tokens.end(), e.tokens.begin(), e.tokens.end());
      to.finish = e.finish;
      to.status = e.status;
      tokens += static_cast<std::int64_t>(e.tokens.size());
    }
    if (begun) {
      out.tokens += tokens;
      ++out.steps;
    } else if (tokens > 0) {  // prompts have been read
      begun = true;
      by.reset_stats();
      decoded = by.decode_seconds();
      multiplied = by.head_seconds();
      begin = std::chrono::steady_clock::now();
    }
  }
  out.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  out.decode_seconds = by.decode_seconds() - decoded;
  out.head_seconds = by.head_seconds() - multiplied;
  out.stats = by.stats();
  return out;
}

}  // namespace llama_cpp
