// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <engine/early_exit.hpp>
#include <engine/medusa.hpp>
#include <engine/model.hpp>
#include <engine/quantised_target.hpp>
#include <engine/tokenizer.hpp>
#include <engine/vocabulary.hpp>
#include <generate/measure.hpp>
#include <hunch/hunch.hpp>
#include <hunch/tools/layout_file.hpp>
#include <hunch/tools/made_for.hpp>
#include <hunch/tools/router_weights.hpp>

#include "common.hpp"
#include "draft_operations.hpp"
#include "drafters/measure.hpp"
#include "drafters/merged.hpp"
#include "folders.hpp"
#include "prompts.hpp"

/// \file
/// Drafters of real models: how much of what they draft is accepted, and what it gives.

namespace bench::drafters {
namespace {

using namespace hunch;

/// What routed shortlists have of the vocabulary, one in so many: with `listed_part` for static
/// ones the fastest of `compare_lists`.
constexpr std::int32_t routed_part = 32;

/// Medusa's tree of as many nodes as pay on a processor, by `tree::best_choices` of the acceptance
/// that is measured on text of the target (medusa/acceptance_generated.json).
constexpr tree::choices medusa_choices{{0}, {1}, {0, 0}, {2}};

using chain = tree::chain<longest_draft>;
/// EAGLE-2's tree as a processor wants it, and as it was published.
using eagle_2 = tree::dynamic<3, 4, 6>;
using large_eagle_2 = tree::dynamic<10, 6, 60>;

/// The models of the suite, and what is composed with them.
class suite {
 public:
  suite(report& out, const std::filesystem::path& models)
      : out_(out),
        models_(models),
        target_(engine::model::load(models / "target", options())),
        text_(tokenizer_for(models / "target", models / "target", target_.shape())),
        vocab_(target_.vocab_size()),
        ranked_(load_layout(models / "frequency.safetensors", target_.made_for())),
        clusters_(load_layout(models / "layout.safetensors", target_.made_for())),
        router_(
            router::weights::load(models / "router.safetensors", clusters_, target_.made_for())),
        where_(setting_of(target_, text_, models / "heldout")) {}

  void run() {
    const verifier::rejection tests;
    const verifier::point_mass draws;
    const verifier::coupled couples;
    engine::model small = engine::model::load(models_ / "draft", options());
    const measured by_model =
        of_model("draft model", small, bytes("draft"), frequent(), tests, chain{});
    compare_lengths(out_, where_, "draft model", maker(small, frequent(), couples, chain{}));
    compare_sizes(couples);

    engine::eagle_model eagle =
        engine::eagle_model::load(models_ / "eagle", models_ / "target", target_, options());
    const measured by_eagle = of_model("EAGLE", eagle, bytes("eagle"), frequent(), tests, chain{});
    of_model("EAGLE, block verification", eagle, bytes("eagle"), frequent(), verifier::block{},
             chain{});
    const measured by_clusters =
        of_model("EAGLE, DynaSpec", eagle, bytes("eagle"), routed(), tests, chain{});
    const measured by_eagle_2 =
        of_model("EAGLE-2", eagle, bytes("eagle"), frequent(), draws, eagle_2{});
    const measured by_eagle_2_clusters =
        of_model("EAGLE-2, DynaSpec", eagle, bytes("eagle"), routed(), draws, eagle_2{});
    compare_lengths(out_, where_, "EAGLE", maker(eagle, frequent(), couples, chain{}));

    engine::medusa_heads medusa = engine::medusa_heads::load(models_ / "medusa", target_);
    const auto of_medusa = [&](const std::string& name, const auto& list) {
      return measure(
          out_, where_, name, bytes("medusa"), draws, [&](auto rule, generate::chosen_length l) {
            medusa.set_head_layout(list.layout());
            return decoder{target_, drafter::heads{medusa, tree::fixed<medusa_choices>{}, l},
                           selector::any<>(list), text_sampler{}, std::move(rule)};
          });
    };
    const measured by_medusa = of_medusa("Medusa", frequent());
    const measured by_medusa_clusters = of_medusa("Medusa, DynaSpec", routed());
    engine::early_exit exit = engine::early_exit::load(models_ / "exit", target_);
    const measured by_exit =
        of_model("early exit", exit, bytes("exit"), frequent(), tests, chain{});
    const measured by_exit_clusters =
        of_model("early exit, DynaSpec", exit, bytes("exit"), routed(), tests, chain{});

    engine::quantised_target copy = engine::quantised_target::load(
        models_ / "target", target_, engine::arithmetic::int4, options().threads);
    const auto stored = static_cast<double>(copy.weight_bytes());
    const measured by_copy = of_model("int4", copy, stored, frequent(), tests, chain{});
    const measured by_copy_clusters =
        of_model("int4, DynaSpec", copy, stored, routed(), tests, chain{});
    const measured by_copy_block = of_model("int4, DynaSpec, block verification", copy, stored,
                                            routed(), verifier::block{}, chain{});
    const measured by_lookup = lookup();

    for (int t = 0; t < temperatures; ++t) {
      const auto at = static_cast<std::size_t>(t);
      const std::string row = "T = " + std::to_string(t) + ": ";
      const double large = along_text(eagle, draws, large_eagle_2{}, t);
      out_.add(row + "EAGLE-2, 60 nodes, acceptance length along text", large, "tokens");
      out_.add(row + "EAGLE-2, 60 nodes / draft model, acceptance length along text",
               large / by_model.along_text[at], "x", at_least(1.0));
      out_.add(row + "EAGLE-2, 60 nodes / Medusa, acceptance length along text",
               large / by_medusa.along_text[at], "x", at_least(1.0));
      double best = 0.0;
      for (const measured* m :
           {&by_model, &by_eagle, &by_clusters, &by_eagle_2, &by_eagle_2_clusters, &by_medusa,
            &by_medusa_clusters, &by_exit, &by_exit_clusters, &by_copy, &by_copy_clusters,
            &by_copy_block, &by_lookup}) {
        best = std::max(best, m->speed_up[at]);
      }
      out_.add(row + "best drafter, speed-up", best, "x",
               t == 1 ? std::optional(at_least(1.6)) : std::nullopt);
    }
    compose_model("EAGLE", eagle, chain{});
    compose_model("EAGLE-2", eagle, eagle_2{});
    compose("Medusa", medusa, [&](const selector::any<>& list, generate::chosen_length length) {
      return decoder{target_, drafter::heads{medusa, tree::fixed<medusa_choices>{}, length},
                     selector::any<>(list), text_sampler{}, verifier::coupled{}};
    });
    compose_model("early exit", exit, chain{});
    compose_model("int4", copy, chain{});
    compare_trees(eagle);
    compare_merged<tree::dynamic<4, 4, 10>>(out_, where_, eagle, frequent());
    compare_merged<tree::dynamic<6, 6, 29>>(out_, where_, eagle, frequent());
    edit_code();
    measure_lookup(out_);
    measure_tree_operations(out_);
  }

 private:
  static engine::model_options options() {
    engine::model_options o;
    o.threads = generate::default_threads();
    o.keep_features = true;  // an EAGLE head reads them
    return o;
  }
  double bytes(const std::string& name) const { return stored_bytes(models_ / name); }
  selector::any<> frequent(std::int32_t part = listed_part) const {
    return selector::any<>(selector::frequency{ranked_, vocab_ / part});
  }
  selector::any<> routed(std::int32_t part = routed_part) const {
    return selector::any<>(
        selector::clustered{clusters_, router_.view(),
                            budget::per_row<budget::rows>{{clusters_.clusters(), vocab_ / part}}});
  }
  /// The full vocabulary, static lists, and routed ones.
  std::vector<named_list> lists() const {
    std::vector<named_list> all{{"full head", selector::any<>(selector::full{vocab_})}};
    for (const std::int32_t part : {40, 20, 10}) {
      all.push_back({"static 1/" + std::to_string(part), frequent(part)});
    }
    for (const std::int32_t part : {50, 32, 20}) {
      all.push_back({"DynaSpec 1/" + std::to_string(part), routed(part)});
    }
    return all;
  }

  /// make(rule, length) and make(length) of a model that drafts level by level.
  template <class Model, class V, class Tree>
  struct maker_of {
    engine::model* target;
    Model* model;
    selector::any<> list;
    V rule;

    template <class Rule>
    auto operator()(Rule by, generate::chosen_length length) const {
      model->set_head_layout(list.layout());
      return decoder{*target, drafter::autoregressive{*model, Tree{}, length},
                     selector::any<>(list), text_sampler{}, std::move(by)};
    }
    auto operator()(generate::chosen_length length) const { return (*this)(rule, length); }
  };
  template <class Model, class V, class Tree>
  maker_of<Model, V, Tree> maker(Model& model, selector::any<> list, V rule, Tree) {
    return {&target_, &model, std::move(list), rule};
  }

  template <class Model, class V, class Tree>
  measured of_model(const std::string& name, Model& model, double extra, selector::any<> list,
                    V rule, Tree tree) {
    return measure(out_, where_, name, extra, rule, maker(model, std::move(list), rule, tree));
  }

  /// Whether DynaSpec makes a drafter faster. \param make(list, length), see `compare_lists`.
  template <class Model, class Make>
  void compose(const std::string& name, Model& model, const Make& make) {
    const std::vector<named_list> all = lists();
    const list_speeds speeds = compare_lists(
        out_, where_, name, all,
        [&](const selector::any<>& list) { model.set_head_layout(list.layout()); }, make);
    for (int t = 0; t < temperatures; ++t) {
      const std::vector<double>& of = speeds[static_cast<std::size_t>(t)];
      const auto routed =
          std::find_if(all.begin(), all.end(),
                       [](const named_list& l) { return l.name.starts_with("DynaSpec"); }) -
          all.begin();
      const double with = *std::max_element(of.begin() + routed, of.end());
      const std::string row = name + at_temperature(t) + ": DynaSpec / ";
      out_.add(row + "full head, speed-up", with / of[0], "x", at_least(1.0));
      out_.add(row + "the best static list, speed-up",
               with / *std::max_element(of.begin() + 1, of.begin() + routed), "x", at_least(1.0));
    }
  }
  /// The same for a model that drafts level by level.
  template <class Model, class Tree>
  void compose_model(const std::string& name, Model& model, Tree tree) {
    compose(name, model, [&](const selector::any<>& list, generate::chosen_length length) {
      return decoder{target_, drafter::autoregressive{model, tree, length}, selector::any<>(list),
                     text_sampler{}, verifier::coupled{}};
    });
  }

  static auto lookup_maker(engine::model& target) {
    return [&target](auto rule, generate::chosen_length length) {
      return decoder{target, drafter::lookup<8, 4, generate::chosen_length>{1, length},
                     selector::full{target.vocab_size()}, text_sampler{}, std::move(rule)};
    };
  }
  measured lookup() {
    return measure(out_, where_, "lookup", 0.0, verifier::point_mass{}, lookup_maker(target_));
  }

  /// Draft models of other sizes.
  void compare_sizes(verifier::coupled couples) {
    for (const std::filesystem::path& folder : named_folders("HUNCH_BENCH_DRAFTS")) {
      engine::model other = engine::model::load(folder, options());
      engine::check_draft_vocabulary(folder, other.shape(), text_.fingerprint(),
                                     models_ / "target");
      compare_lengths(out_, where_, "draft model, d = " + std::to_string(other.shape().hidden),
                      maker(other, frequent(), couples, chain{}));
    }
  }

  /// The acceptance length of one step along held-out text, per domain.
  template <class Model, class V, class Tree>
  double along_text(Model& model, V rule, Tree tree, int t) {
    const generate::any_length deep;
    return mean(length_along_text(where_, rule, static_cast<float>(t), [&](auto counting) {
      return maker(model, frequent(), counting, tree)(generate::chosen_length{&deep});
    }));
  }

  /// Trees of the same number of nodes, and chains of at most so many.
  template <class Model>
  void compare_trees(Model& model) {
    const verifier::rejection tests;
    const verifier::point_mass draws;
    for (int t = 0; t < temperatures; ++t) {
      const std::string row = "EAGLE trees" + at_temperature(t) + ": ";
      const auto add = [&](const std::string& name, double value) {
        out_.add(row + name, value, "tokens");
        return value;
      };
      const double chain_rule = add("chain of 6, chain rule", along_text(model, tests, chain{}, t));
      const double block =
          add("chain of 6, block verification", along_text(model, verifier::block{}, chain{}, t));
      const double long_chain =
          add("chain of 28, chain rule", along_text(model, tests, tree::chain<28>{}, t));
      add("dynamic, 6 nodes", along_text(model, draws, tree::dynamic<3, 4, 7>{}, t));
      const double grown =
          add("dynamic, 28 nodes", along_text(model, draws, tree::dynamic<6, 6, 29>{}, t));
      const double sampled = add("sampled, 28 nodes, recursive rejection",
                                 along_text(model, tests, tree::sampled<4, 2, 2>{}, t));
      const double as_points = add("sampled, 28 nodes, point mass",
                                   along_text(model, draws, tree::sampled<4, 2, 2>{}, t));
      const double narrow = add("sampled, 26 nodes of 7 levels, recursive rejection",
                                along_text(model, tests, tree::sampled<2, 2, 1, 1, 1, 1, 1>{}, t));
      out_.add(row + "block / chain rule", block / chain_rule, "x", at_least(1.0));
      const double best_chain = std::max({long_chain, chain_rule, block});
      out_.add(row + "dynamic / best chain, 28 rows", grown / best_chain, "x", at_least(1.0));
      out_.add(row + "best tree / best chain, 28 rows",
               std::max({grown, sampled, narrow}) / best_chain, "x", at_least(1.0));
      if (t == 1) {
        out_.add(row + "recursive rejection / point mass, sampled tree", sampled / as_points, "x",
                 at_least(1.0));
        out_.add(row + "recursive rejection / best point-mass tree",
                 sampled / std::max(as_points, grown), "x", at_least(1.0));
      }
    }
  }

  /// A file, a line that says what to do, and the beginning of the edited file: what is to be
  /// written repeats most of the prompt.
  void edit_code() {
    constexpr std::size_t files = 6;
    constexpr std::size_t size = 260;
    std::vector<std::vector<token>> prompts;
    for (const char* language : {"java", "python"}) {
      const std::vector<token> all =
          tokens_of(text_, models_ / "heldout" / (std::string(language) + ".txt"));
      const std::vector<token> request = text_.encode("\n\n# The same file, edited:\n\n", false);
      for (std::size_t i = 0; i < files / 2; ++i) {
        const std::size_t first = all.size() / files * (2 * i + 1);
        std::vector<token> prompt(all.begin() + static_cast<std::ptrdiff_t>(first),
                                  all.begin() + static_cast<std::ptrdiff_t>(first + size));
        const std::vector<token> begun(prompt.begin(), prompt.begin() + 40);
        prompt.insert(prompt.end(), request.begin(), request.end());
        prompt.insert(prompt.end(), begun.begin(), begun.end());
        prompts.push_back(std::move(prompt));
      }
    }
    for (int t = 0; t < temperatures; ++t) {
      generate::any_length choice;
      auto decoder =
          lookup_maker(target_)(verifier::point_mass{}, generate::chosen_length{&choice});
      const speeds s = measure_speed(where_, decoder, choice, static_cast<float>(t), prompts);
      const std::string row = "lookup, code editing" + at_temperature(t) + ": ";
      out_.add(row + "mean acceptance length", mean(s.length), "tokens");
      out_.add(row + "repeated 4-grams", mean(s.repeated), "");
      out_.add(row + "speed-up", mean(s.speed_up), "x",
               t == 0 ? std::optional(at_least(2.0)) : std::nullopt);
    }
  }

  report& out_;
  std::filesystem::path models_;
  engine::model target_;
  engine::tokenizer text_;
  std::int32_t vocab_;
  vocab_layout ranked_;
  vocab_layout clusters_;
  router::quantised router_;
  setting where_;
};

}  // namespace
}  // namespace bench::drafters

int main(int argc, char** argv) {
  return bench::run(
      "drafters", argc, argv,
      [](bench::report& out, const bench::choice& of) {
        bench::drafters::suite(out, of.models).run();
      },
      HUNCH_BENCH_MODELS);
}
