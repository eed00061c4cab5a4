// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include <engine/early_exit.hpp>
#include <engine/medusa.hpp>
#include <engine/model.hpp>
#include <engine/streams.hpp>
#include <engine/tokenizer.hpp>
#include <engine/vocabulary.hpp>
#include <generate/measure.hpp>
#include <hunch/hunch.hpp>
#include <hunch/tools/layout_file.hpp>
#include <hunch/tools/made_for.hpp>

#include "common.hpp"
#include "drafters/measure.hpp"
#include "folders.hpp"
#include "prompts.hpp"
#include "streaming/pruned.hpp"

/// \file
/// Speculative Streaming against Medusa's heads and an EAGLE head on the same target: what is
/// accepted, what it costs, what is left when the target's first layers prune the trees, and what
/// streams of other numbers and sizes, as published, or trained together with the target, come to.

namespace bench::drafters {
namespace {

using namespace hunch;

/// The best nodes by the streams' own laws.
using small_tree = tree::dynamic<3, 3, 5>;

/// What drafts, by the shape of its drafts: see `suite::for_trees`.
struct candidate {
  std::string name;
  double bytes = 0.0;  ///< that are stored for it besides the target
  std::vector<measured> by_shape;
};

class suite {
 public:
  suite(report& out, const std::filesystem::path& models)
      : out_(out),
        models_(models),
        target_(engine::model::load(models / "target", options())),
        text_(tokenizer_for(models / "target", models / "target", target_.shape())),
        frequent_(load_layout(models / "frequency.safetensors", target_.made_for()),
                  target_.vocab_size() / listed_part),
        where_(setting_of(target_, text_, models / "heldout")) {}

  void run() {
    shipped();
    eagle();
    compare_published(sizes(), own_heads());
    shared();
  }

 private:
  /// The streams that are shipped, which end before others begin: a target has one set of them.
  void shipped() {
    engine::speculative_streams streams =
        engine::speculative_streams::load(models_ / "streams", target_);
    streams.set_head_layout(frequent_.layout());
    check_passes(streams);
    prune(streams);
    const candidate by_streams = of_streams("streaming", models_ / "streams", streams, where_);
    const candidate by_medusa = of_medusa("Medusa", models_ / "medusa");
    out_.add("streaming: extra bytes stored / Medusa's", by_streams.bytes / by_medusa.bytes, "x",
             at_most(1.0));
    std::size_t at = 0;
    for_trees([&](const std::string& shape, auto, const auto&) {
      compare(shape, by_streams.by_shape[at], by_medusa.by_shape[at]);
      ++at;
    });
    // What a tree costs is another thing for either: each at its fastest.
    for (int t = 0; t < temperatures; ++t) {
      const auto fastest = [t](const candidate& of) {
        double best = 0.0;
        for (const measured& m : of.by_shape) {
          best = std::max(best, m.speed_up[static_cast<std::size_t>(t)]);
        }
        return best;
      };
      out_.add("streaming / Medusa" + at_temperature(t) + ": tokens per second, the best of each",
               fastest(by_streams) / fastest(by_medusa), "x", at_least(1.0));
    }
    sweep(streams);
  }

  static engine::model_options options() {
    engine::model_options o;
    o.threads = generate::default_threads();
    return o;
  }

  /// Drafts of one shape: use(what to call it, tree, rule), from the smallest on.
  template <class Use>
  static void for_trees(const Use& use) {
    use("one token", tree::chain<1>{}, verifier::rejection{});
    use("two tokens", tree::chain<2>{}, verifier::rejection{});
    use("two at one depth", tree::dynamic<2, 1, 3>{}, verifier::point_mass{});
    use("three at one depth", tree::dynamic<3, 1, 4>{}, verifier::point_mass{});
    use("four in three levels", small_tree{}, verifier::point_mass{});
  }
  void compare(const std::string& shape, const measured& streams, const measured& medusa) {
    for (int t = 0; t < temperatures; ++t) {
      const auto at = static_cast<std::size_t>(t);
      const std::string row = "streaming / Medusa, " + shape + at_temperature(t) + ": ";
      out_.add(row + "acceptance length along text", streams.along_text[at] / medusa.along_text[at],
               "x", at_least(1.0));
      out_.add(row + "acceptance length", streams.in_generation[at] / medusa.in_generation[at], "x",
               at_least(1.0));
      out_.add(row + "tokens per second", streams.speed_up[at] / medusa.speed_up[at], "x");
    }
  }

  /// Measures what drafts in every shape. \param of of(name, tree, rule) measures it in one.
  template <class Of>
  candidate in_all_shapes(const std::string& name, const std::filesystem::path& folder,
                          const Of& of) {
    candidate all{name, stored_bytes(folder), {}};
    for_trees([&](const std::string& shape, auto tree, const auto& rule) {
      all.by_shape.push_back(of(name + ", " + shape, tree, rule));
    });
    out_.add(name + ": extra bytes stored / the target's",
             all.bytes / stored_bytes(models_ / "target"), "x");
    return all;
  }
  candidate of_medusa(const std::string& name, const std::filesystem::path& folder) {
    engine::medusa_heads medusa = engine::medusa_heads::load(folder, target_);
    medusa.set_head_layout(frequent_.layout());
    return in_all_shapes(name, folder, [&](const std::string& row, auto tree, const auto& tested) {
      return measure(out_, where_, row, stored_bytes(folder), tested,
                     [&](auto rule, generate::chosen_length length) {
                       return decoder{target_, drafter::heads{medusa, tree, length},
                                      selector::any<>(frequent_), text_sampler{}, std::move(rule)};
                     });
    });
  }
  candidate of_streams(const std::string& name, const std::filesystem::path& folder,
                       engine::speculative_streams& streams, const setting& where) {
    return in_all_shapes(name, folder, [&](const std::string& row, auto tree, const auto& tested) {
      return of_streams(row, stored_bytes(folder), streams, where, tree, tested);
    });
  }
  template <class Tree, class Rule>
  measured of_streams(const std::string& row, double extra, engine::speculative_streams& streams,
                      const setting& where, Tree tree, const Rule& tested) {
    return measure(out_, where, row, extra, tested, [&](auto rule, generate::chosen_length length) {
      return decoder{where.target, drafter::streaming{streams, tree, length},
                     selector::any<>(frequent_), text_sampler{}, std::move(rule)};
    });
  }
  /// The shipped head, on a target of its own: that keeps features, which costs something.
  void eagle() {
    engine::model_options keeps = options();
    keeps.keep_features = true;
    engine::model target = engine::model::load(models_ / "target", keeps);
    engine::eagle_model head =
        engine::eagle_model::load(models_ / "eagle", models_ / "target", target, options());
    head.set_head_layout(frequent_.layout());
    const setting where = setting_of(target, text_, models_ / "heldout");
    in_all_shapes(
        "EAGLE", models_ / "eagle", [&](const std::string& row, auto tree, const auto& tested) {
          return measure(out_, where, row, stored_bytes(models_ / "eagle"), tested,
                         [&](auto rule, generate::chosen_length length) {
                           return decoder{target, drafter::autoregressive{head, tree, length},
                                          selector::any<>(frequent_), text_sampler{},
                                          std::move(rule)};
                         });
        });
  }

  /// A step is one pass of the target, through as many layers as its rows and their streams have,
  /// and nothing else.
  void check_passes(engine::speculative_streams& streams) {
    decoder d{target_, drafter::streaming{streams, small_tree{}}, selector::any<>(frequent_),
              text_sampler{}, verifier::point_mass{}};
    generation_options request;
    request.max_new_tokens = 64;
    const std::uint64_t before = target_.layer_rows();
    d.add(where_.prompts.front(), request);
    while (d.running() > 0) { d.step(); }
    const auto& stats = d.stats();
    const auto nodes = static_cast<std::uint64_t>(stats.steps + stats.drafted);
    const auto rows = static_cast<std::uint64_t>(stats.target_rows);
    const auto layers = static_cast<std::uint64_t>(target_.shape().layers);
    const std::uint64_t expected = rows * layers + nodes * small_tree::max_depth *
                                                       static_cast<std::uint64_t>(streams.layers());
    out_.add("streaming: rows through layers / those of one pass per step",
             static_cast<double>(target_.layer_rows() - before) / static_cast<double>(expected),
             "x", at_most(1.0));
  }

  /// Trees that the first layers prune: those of the shipped exit head, and of others.
  void prune(engine::speculative_streams& streams) {
    std::vector<engine::early_exit> exits;
    const auto load = [&](const std::filesystem::path& folder) {
      exits.push_back(engine::early_exit::load(folder, target_));
      exits.back().set_head_layout(frequent_.layout());
    };
    load(models_ / "exit");
    load(models_ / "paper" / "exit");  // where streams begin
    for (const std::filesystem::path& folder : named_folders("HUNCH_BENCH_EXITS")) { load(folder); }
    const pruned_streams pruned{out_, where_, streams, exits, frequent_};
    pruned.measure<25, 13>();
    pruned.measure<10, 4>();  // the preset's
  }

  /// How many streams, and how many children each has. What `for_trees` has is not measured again.
  void sweep(engine::speculative_streams& streams) {
    const auto of = [&](const std::string& shape, auto tree, const auto& rule) {
      of_streams("streaming, " + shape, stored_bytes(models_ / "streams"), streams, where_, tree,
                 rule);
    };
    of("three tokens", tree::chain<3>{}, verifier::rejection{});
    of("four tokens", tree::chain<4>{}, verifier::rejection{});
    of("five at one depth", tree::dynamic<5, 1, 6>{}, verifier::point_mass{});
    of("four in two levels", tree::dynamic<3, 2, 5>{}, verifier::point_mass{});
  }

  /// Streams of other sizes and forms, of the same target: first those of the published form.
  std::vector<candidate> sizes() {
    std::vector<candidate> all;
    const auto add = [&](const std::string& name, const std::filesystem::path& folder) {
      engine::speculative_streams streams = engine::speculative_streams::load(folder, target_);
      streams.set_head_layout(frequent_.layout());
      all.push_back(of_streams("streaming, " + name, folder, streams, where_));
    };
    add("as published", models_ / "paper" / "streams");
    for (const std::filesystem::path& folder : named_folders("HUNCH_BENCH_STREAMS")) {
      add(folder.filename().string(), folder);
    }
    return all;
  }
  /// Medusa's heads of their published size: each has a head over the vocabulary to itself.
  std::vector<candidate> own_heads() {
    std::vector<candidate> all;
    for (const std::filesystem::path& folder : named_folders("HUNCH_BENCH_MEDUSA")) {
      all.push_back(of_medusa("Medusa, " + folder.filename().string(), folder));
    }
    return all;
  }
  /// Each of the streams against each of the heads: what is stored, and how long drafts are.
  void compare_published(const std::vector<candidate>& streams,
                         const std::vector<candidate>& heads) {
    for (const candidate& s : streams) {
      for (const candidate& h : heads) {
        const std::string row = s.name + " / " + h.name;
        out_.add(row + ": extra bytes stored", s.bytes / h.bytes, "x", at_most(0.25));
        for (int t = 0; t < temperatures; ++t) {
          const auto at = static_cast<std::size_t>(t);
          std::vector<double> ratios;
          for_trees([&](const std::string& shape, auto, const auto&) {
            const std::size_t i = ratios.size();
            ratios.push_back(s.by_shape[i].along_text[at] / h.by_shape[i].along_text[at]);
            out_.record(row + ", " + shape + at_temperature(t) + ": acceptance length along text",
                        ratios.back(), "x");
          });
          out_.add(row + at_temperature(t) + ": acceptance length along text, mean of all shapes",
                   mean(ratios), "x", at_least(1.0));
        }
      }
    }
  }

  /// Targets that were trained together with their streams: other models, held against plain
  /// decoding of themselves.
  void shared() {
    for (const std::filesystem::path& folder : named_folders("HUNCH_BENCH_SHARED")) {
      engine::model target = engine::model::load(folder / "target", options());
      engine::check_tokenizer(text_, models_ / "target", folder / "target", target.shape());
      engine::speculative_streams streams =
          engine::speculative_streams::load(folder / "streams", target);
      streams.set_head_layout(frequent_.layout());
      of_streams("streaming, " + folder.filename().string(), folder / "streams", streams,
                 setting_of(target, text_, models_ / "heldout"));
    }
  }

  report& out_;
  std::filesystem::path models_;
  engine::model target_;
  engine::tokenizer text_;
  selector::frequency<> frequent_;
  setting where_;
};

}  // namespace
}  // namespace bench::drafters

int main(int argc, char** argv) {
  return bench::run(
      "streaming", argc, argv,
      [](bench::report& out, const bench::choice& of) {
        bench::drafters::suite(out, of.models).run();
      },
      HUNCH_BENCH_MODELS);
}
