// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include <engine/checkpoint.hpp>
#include <engine/config.hpp>
#include <engine/device/eagle.hpp>
#include <engine/device/early_exit.hpp>
#include <engine/device/int4_multiply.hpp>
#include <engine/device/medusa.hpp>
#include <engine/device/model.hpp>
#include <engine/device/streams.hpp>
#include <engine/early_contexts.hpp>
#include <hunch/decoder/resident_decoder.hpp>
#include <hunch/decoder/statistics.hpp>
#include <hunch/drafter/lookup.hpp>
#include <hunch/drafter/none.hpp>
#include <hunch/length/planner.hpp>
#include <hunch/selector/any.hpp>
#include <hunch/selector/clustered.hpp>
#include <hunch/selector/frequency.hpp>
#include <hunch/tools/made_for.hpp>

#include "generate/check_exit.hpp"
#include "generate/ranking.hpp"
#include "generate/resident_router.hpp"
#include "generate/run_resident.hpp"
#include "generate/session.hpp"
#include "generate/tree_shapes.hpp"

/// \file
/// The program with models and loops that live on an executor.

namespace generate {

/// What is called with each token: its request, and where it comes from.
using token_sink = std::function<void(std::size_t, hunch::token, hunch::origin)>;

/// A loop, whatever it is composed of.
class any_loop {
 public:
  /// Of any tree that is drafted in one.
  static constexpr std::int32_t max_nodes =
      std::max({chain_shape::max_nodes, sampled_shape::max_nodes, dynamic_60_shape::max_nodes,
                fixed_shape::max_nodes});

  virtual ~any_loop() = default;
  /// Runs as many requests as the program has, to their ends.
  virtual generate::run run(const hunch::generation_options& options,
                            const token_sink& on_token) = 0;
  /// Waits for the loop.
  virtual hunch::statistics<max_nodes> stats() = 0;
};

/// made(length) is a loop that drafts so many levels.
using loop_maker = std::function<std::unique_ptr<any_loop>(std::int32_t length)>;

/// What drafts token by token, and what drafts several tokens ahead, for a target on a platform.
template <class Platform>
using models_on = std::variant<
    engine::device_model<typename Platform::executor, typename Platform::multiply>*,
    engine::device_model<typename Platform::executor,
                         engine::device::int4_multiply<typename Platform::executor>>*,
    engine::device_eagle<typename Platform::executor, typename Platform::multiply>*,
    engine::early_contexts<
        engine::device_eagle<typename Platform::executor, typename Platform::multiply>>*,
    engine::device_early_exit<typename Platform::executor, typename Platform::multiply>*>;
template <class Platform>
using heads_on =
    std::variant<engine::device_medusa<typename Platform::executor, typename Platform::multiply>*,
                 engine::device_streams<typename Platform::executor, typename Platform::multiply>*>;

/// Streams, and the view of the target's first layers that prunes their trees.
template <class Platform>
struct pruned_streams {
  engine::device_streams<typename Platform::executor, typename Platform::multiply>& streams;
  engine::device_early_exit<typename Platform::executor, typename Platform::multiply>& exit;
  std::int32_t keep;  ///< nodes of a tree
};
template <class Platform>
using pruned_on = std::variant<pruned_streams<Platform>*>;
/// An EAGLE head that drafts into one tree with what a text repeats.
template <class Head>
struct merged_head {
  Head* head;
};
template <class Platform>
using merged_on = std::variant<
    merged_head<engine::device_eagle<typename Platform::executor, typename Platform::multiply>>*,
    merged_head<engine::early_contexts<
        engine::device_eagle<typename Platform::executor, typename Platform::multiply>>>*>;

/// A model that drafts where a text repeats nothing.
template <class Model>
struct asked_second {
  Model* model;
};
template <class Platform>
using cascaded_on = std::variant<asked_second<engine::device_model<
    typename Platform::executor, engine::device::int4_multiply<typename Platform::executor>>>*>;

template <class Platform>
class resident_program;

/// The loops that draft such trees, by every rule that takes them. They are defined in
/// resident_loops.hpp; a source file for each kind of tree instantiates them, so that these compile
/// side by side and all drafters share the kernels of a tree.
/// \tparam Drafts `models_on`, `heads_on`, `pruned_on`, `merged_on` or `cascaded_on` the platform.
template <class Platform, class Drafts, class Tree>
struct tree_loops {
  using any_selector = hunch::selector::any<float, typename Platform::executor>;

  /// By the rule that the program's flags ask for. What drafts outlives the loops; its head is over
  /// `selector`'s shortlists.
  static loop_maker made(resident_program<Platform>& program, const Drafts& drafts,
                         const any_selector& selector);
};

/// \tparam Platform says where: `executor`, `multiply`, `ended(executor)` as in `run_to_end`, and
///         `rules`, such as `all_rules`.
template <class Platform>
class resident_program {
  using executor = typename Platform::executor;
  using multiply = typename Platform::multiply;
  using rules = typename Platform::rules;
  using model = engine::device_model<executor, multiply>;
  using copy_in_int4 = engine::device_model<executor, engine::device::int4_multiply<executor>>;
  using any_selector = hunch::selector::any<float, executor>;
  using models = models_on<Platform>;
  using heads = heads_on<Platform>;

 public:
  resident_program(const arguments& a, executor where)
      : args_(resolved(a)),
        executor_(std::move(where)),
        shape_(engine::read_config(std::filesystem::path(a.model) / "config.json")),
        session_(args_, shape_, shape_.context),
        target_(shape_, engine::checkpoint::open(a.model), sizes(max_rows(), streams()),
                executor_) {}

  void run() {
    switch (args_.decodes_plainly() ? drafter_kind::none : args_.drafter) {
      case drafter_kind::none:
        return without_drafter();
      case drafter_kind::model:
        return with_model(model::load(args_.draft, sizes(0), executor_));
      case drafter_kind::int4:
        return with_model(copy_in_int4::load(args_.draft, sizes(0), executor_));
      case drafter_kind::eagle:
      case drafter_kind::ensemble:
        return with_eagle();
      case drafter_kind::early_exit:
        return with_early_exit();
      case drafter_kind::medusa:
        return with_medusa();
      case drafter_kind::streaming:
        return with_streaming();
      case drafter_kind::lookup:
        return with_lookup();
      case drafter_kind::cascade:
        return with_cascade();
    }
  }

  const arguments& flags() const { return args_; }

  /// A loop of one composition. \param make make() is the drafter.
  template <class Make, class Selector, class S, class V>
  std::unique_ptr<any_loop> loop_of(const Make& make, const Selector& selector, const S& sampler,
                                    const V& verifier, std::int32_t length) {
    using decoder = hunch::resident_decoder<model&, decltype(make()), Selector, S, V,
                                            hunch::random_source<>, executor>;
    const hunch::resident_options options{.max_batch = args_.batch,
                                          .max_length = session_.length(),
                                          .chunk = chunk,
                                          .draft_length = length,
                                          .ring = args_.max_new_tokens + max_nodes};
    return std::make_unique<loop<decoder>>(*this, [&] {
      return decoder(target_, make(), Selector(selector), S(sampler), V(verifier), options, {},
                     executor_);
    });
  }

 private:
  /// Prompt tokens of a pass, whether there are any: few, for every pass has room for so many.
  static constexpr std::int32_t chunk = 64;
  static constexpr std::int32_t max_nodes = any_loop::max_nodes;

  /// A loop of one composition.
  template <class Decoder>
  class loop final : public any_loop {
   public:
    static_assert(Decoder::lossless);

    /// \param make make() is the decoder.
    template <class Make>
    loop(resident_program& of, const Make& make) : of_(of), decoder_(make()) {}

    generate::run run(const hunch::generation_options& options,
                      const token_sink& on_token) override {
      return run_resident(
          decoder_, of_.session_.prompts(), options, of_.args_.batch,
          [this] { return Platform::ended(of_.executor_); }, on_token);
    }
    hunch::statistics<max_nodes> stats() override {
      hunch::statistics<max_nodes> out;
      out += decoder_.stats();
      return out;
    }

   private:
    resident_program& of_;
    Decoder decoder_;
  };

  void without_drafter() {
    announce(args_);
    const std::unique_ptr<any_loop> plain = plain_loop();
    warm_up(*plain);
    session_.begin_text();
    session_.report_plain(plain->run(session_.request, session_.stream()));
  }

  /// Plain decoding by the rule that the flags ask for.
  std::unique_ptr<any_loop> plain_loop() {
    std::unique_ptr<any_loop> out;
    rules::plain(args_, [&](auto sampler, auto verifier) {
      out = loop_of([] { return hunch::drafter::none{}; }, everything(), sampler, verifier, 1);
    });
    return out;
  }

  template <class Draft>
  void with_model(Draft draft) {
    session_.check_draft(draft.shape());
    over_trees(models(&draft), chosen_selector(draft, draft.made_for()));
  }
  void with_eagle() {
    using eagle = engine::device_eagle<executor, multiply>;
    eagle draft = eagle::load(args_.draft, args_.model, target_, sizes(0));
    const any_selector selector = chosen_selector(draft, draft.made_for(), draft.input_width());
    engine::early_contexts<eagle> early(draft);
    const bool reads_early = selector.context_width() == early.context_width();
    if (args_.drafter == drafter_kind::ensemble) {
      merged_head<eagle> late_head{&draft};
      merged_head<engine::early_contexts<eagle>> early_head{&early};
      using merged = merged_on<Platform>;
      const merged drafts = reads_early ? merged(&early_head) : merged(&late_head);
      return both(max_draft_length,
                  tree_loops<Platform, merged, dynamic_shape>::made(*this, drafts, selector));
    }
    over_trees(reads_early ? models(&early) : models(&draft), selector);
  }
  void with_early_exit() {
    auto draft = engine::device_early_exit<executor, multiply>::load(args_.draft, target_);
    over_trees(models(&draft), chosen_selector(draft, target_.made_for()));
  }
  void with_medusa() {
    auto draft = engine::device_medusa<executor, multiply>::load(args_.draft, target_);
    over_trees<heads_chain_shape>(heads(&draft), chosen_selector(draft, target_.made_for()));
  }
  void with_streaming() {
    auto draft = engine::device_streams<executor, multiply>::load(args_.draft, target_);
    const any_selector selector = chosen_selector(draft, target_.made_for());
    if (args_.kept_nodes == 0) { return over_trees<heads_chain_shape>(heads(&draft), selector); }
    auto exit = engine::device_early_exit<executor, multiply>::load(args_.exit, target_);
    check_exit(args_, exit.layers(), shape_.layers - draft.layers());
    pruned_streams<Platform> pruned{draft, exit, args_.kept_nodes};
    with_prunable_tree(args_.tree, [&]<class Tree>(Tree) {
      using loops = tree_loops<Platform, pruned_on<Platform>, Tree>;
      both(Tree::max_depth, loops::made(*this, pruned_on<Platform>(&pruned), selector));
    });
  }
  void with_lookup() {
    using lookup = hunch::drafter::lookup<max_draft_length>;
    rules::template drafts<lookup>(args_, [&](auto sampler, auto verifier) {
      both(max_draft_length, [&](std::int32_t length) {
        return loop_of([] { return lookup{1}; }, everything(), sampler, verifier, length);
      });
    });
  }

  void with_cascade() {
    copy_in_int4 draft = copy_in_int4::load(args_.draft, sizes(0), executor_);
    session_.check_draft(draft.shape());
    const any_selector selector = chosen_selector(draft, draft.made_for());
    asked_second<copy_in_int4> second{&draft};
    using loops = tree_loops<Platform, cascaded_on<Platform>, chain_shape>;
    both(chain_shape::max_depth, loops::made(*this, cascaded_on<Platform>(&second), selector));
  }

  /// \tparam Chain the longest chain.
  template <class Chain = chain_shape, class Drafts>
  void over_trees(const Drafts& drafts, const any_selector& selector) {
    with_tree<Chain>(args_.tree, [&]<class Tree>(Tree) {
      both(Tree::max_depth, tree_loops<Platform, Drafts, Tree>::made(*this, drafts, selector));
    });
  }

  /// Of a model that drafts with this head; its rows are in that order then. The most frequent
  /// tokens where clusters are asked for and none are its own.
  /// \param early_width as `load_clusters` takes it.
  template <class Draft>
  any_selector chosen_selector(Draft& draft, const hunch::made_for& head,
                               std::int32_t early_width = 0) {
    const auto clusters =
        load_clusters(args_, session_.drafted_by(head), draft.context_width(), early_width);
    if (!clusters) {
      any_selector fixed(session_.fixed_shortlist(head));
      // The report names what drafts, not what was asked for.
      if (args_.selector == selector_kind::clustered) { args_.selector = selector_kind::frequency; }
      draft.set_head_layout(fixed.layout());
      return fixed;
    }
    router_.emplace(executor_, clusters->router);
    draft.set_head_layout(clusters->layout);
    return any_selector(hunch::selector::clustered{
        clusters->layout, router_->view(), args_.budget.value_or(default_budget(head.vocab_size))});
  }

  /// Plain decoding, and loops that draft `levels` levels at most.
  void both(std::int32_t levels, const loop_maker& speculative) {
    using namespace hunch;
    announce(args_);
    const std::unique_ptr<any_loop> plain = plain_loop();
    const double one = step_seconds(*plain);
    // What a drafted token costs, verification included, over a step of plain decoding.
    double drafted = 0.0;
    std::int32_t length = std::min(4, levels);
    {
      const std::unique_ptr<any_loop> trial = speculative(length);
      // A clock may say that it costs less than nothing.
      drafted = std::max((step_seconds(*trial) / one - 1.0) / length, 0.0);
      const double alpha = trial->stats().acceptance_probability();
      length = args_.draft_length.value_or(planner::best_draft_length(alpha, drafted, levels));
    }
    // What a loop does in a step is fixed when it is recorded: one that drafts always does.
    const std::unique_ptr<any_loop> other = length == 0 ? plain_loop() : speculative(length);
    warm_up(*other);
    session_.begin_text();
    const comparison result =
        compare([&](const auto& options, const token_sink& to) { return plain->run(options, to); },
                [&](const auto& options, const token_sink& to) { return other->run(options, to); },
                session_.request, args_.batch, args_.rounds, session_.stream());
    const auto stats = other->stats();
    const double alpha = stats.acceptance_probability();
    session_.report_both(result, stats, planner::walltime_gain(alpha, length, drafted),
                         std::to_string(length));
  }

  /// Of all sequences: as many as the target's, or those of what drafts.
  std::int32_t max_rows() const { return chunk + args_.batch * max_nodes; }

  engine::device_options sizes(std::int32_t outputs, std::int32_t streams = 0) const {
    return {.max_batch = args_.batch,
            .max_length = session_.length(),
            .max_rows = max_rows(),
            .max_staged = chunk + 2 * max_nodes,
            .max_outputs = outputs,
            .keep_features = args_.reads_features(),
            .max_streams = streams};
  }

  /// Beside every row of the target.
  std::int32_t streams() const {
    if (args_.decodes_plainly() || args_.drafter != drafter_kind::streaming) { return 0; }
    return engine::read_stream_config(std::filesystem::path(args_.draft) / "config.json").streams;
  }

  hunch::selector::frequency<> everything() const {
    return {hunch::vocab_layout::identity(shape_.vocab_size), shape_.vocab_size};
  }

  /// Records what a step is, with as few tokens as possible.
  void warm_up(any_loop& loop) {
    hunch::generation_options few = session_.request;
    few.max_new_tokens = 1;
    loop.run(few, [](auto&&...) {});
  }

  /// Seconds of a step in a short run.
  double step_seconds(any_loop& loop) {
    warm_up(loop);
    hunch::generation_options some = session_.request;
    some.max_new_tokens = std::min(some.max_new_tokens, 64);
    some.stop_tokens.clear();
    // The fastest of three runs: whoever else is busy on the machine only ever adds to them.
    double fastest = std::numeric_limits<double>::infinity();
    for (int run = 0; run < 3; ++run) {
      const std::int64_t before = loop.stats().target_passes;
      const double time = loop.run(some, [](auto&&...) {}).time;
      const auto steps = static_cast<double>(loop.stats().target_passes - before);
      fastest = std::min(fastest, time / steps);
    }
    return fastest;
  }

  arguments args_;
  executor executor_;
  engine::config shape_;
  session session_;
  model target_;
  std::optional<resident_router<executor>> router_;
};

}  // namespace generate
