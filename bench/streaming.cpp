// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
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
#include "prompts.hpp"

/// \file
/// Speculative Streaming against Medusa's heads on the same target: what is accepted, what it
/// costs, what is left when the target's first layers prune the trees, and what streams of other
/// numbers and sizes, or trained together with the target, come to.

namespace bench::drafters {
namespace {

using namespace hunch;

/// One in so many of the vocabulary, as in the suite `drafters`.
constexpr std::int32_t listed_part = 20;

/// Trees for speed, and wide ones to be pruned: the best nodes by the streams' own laws.
using small_tree = tree::dynamic<3, 3, 5>;
using wide_tree = tree::dynamic<4, 4, 25>;
constexpr std::int32_t kept_nodes = 13;  ///< of the wide tree, its root among them

class suite {
 public:
  suite(report& out, const std::filesystem::path& models)
      : out_(out),
        models_(models),
        target_(engine::model::load(models / "target", options())),
        text_(tokenizer_for(models / "target", models / "target", target_.shape())),
        frequent_(load_layout(models / "frequency.safetensors", target_.made_for()),
                  target_.vocab_size() / listed_part),
        medusa_(engine::medusa_heads::load(models / "medusa", target_)),
        exit_(engine::early_exit::load(models / "exit", target_)),
        where_(setting_of(target_, text_, models / "heldout")) {
    medusa_.set_head_layout(frequent_.layout());
  }

  void run() {
    shipped();
    sizes();
    shared();
  }

 private:
  /// The streams that are shipped, which end before others begin: a target has one set of them.
  void shipped() {
    engine::speculative_streams streams =
        engine::speculative_streams::load(models_ / "streams", target_);
    streams.set_head_layout(frequent_.layout());
    out_.add("streaming: extra values / Medusa's", values("streams") / values("medusa"), "x",
             at_most(1.0));
    check_passes(streams);
    prune(streams);
    std::vector<measured> by_streams, by_medusa;
    for_trees([&](const std::string& shape, auto tree, const auto& rule) {
      by_medusa.push_back(of_medusa("Medusa, " + shape, tree, rule));
      by_streams.push_back(of_streams("streaming, " + shape, streams, tree, rule));
      compare(shape, by_streams.back(), by_medusa.back());
    });
    // What a tree costs is another thing for either: each at its fastest.
    for (int t = 0; t < temperatures; ++t) {
      const auto fastest = [t](const std::vector<measured>& of) {
        double best = 0.0;
        for (const measured& m : of) {
          best = std::max(best, m.speed_up[static_cast<std::size_t>(t)]);
        }
        return best;
      };
      out_.add("streaming / Medusa" + at_temperature(t) + "tokens per second, the best of each",
               fastest(by_streams) / fastest(by_medusa), "x", at_least(1.0));
    }
    sweep(streams);
  }

  static engine::model_options options() {
    engine::model_options o;
    o.threads = generate::default_threads();
    return o;
  }
  /// Numbers that are stored for a drafter besides the target, all of one byte.
  double values(const std::string& name) const { return bytes_in(models_ / name); }
  static double bytes_in(const std::filesystem::path& folder) {
    return static_cast<double>(std::filesystem::file_size(folder / "model.safetensors"));
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
      const std::string row = "streaming / Medusa, " + shape + at_temperature(t);
      out_.add(row + "acceptance length along text", streams.along_text[at] / medusa.along_text[at],
               "x", at_least(1.0));
      out_.add(row + "acceptance length", streams.in_generation[at] / medusa.in_generation[at], "x",
               at_least(1.0));
      out_.add(row + "tokens per second", streams.speed_up[at] / medusa.speed_up[at], "x");
    }
  }

  template <class Tree, class Rule>
  measured of_medusa(const std::string& name, Tree tree, const Rule& tested) {
    return measure(out_, where_, name, values("medusa"), tested,
                   [&](auto rule, generate::chosen_length length) {
                     return decoder{target_, drafter::heads{medusa_, tree, length},
                                    selector::any<>(frequent_), text_sampler{}, std::move(rule)};
                   });
  }
  template <class Tree, class Rule>
  measured of_streams(const std::string& name, engine::speculative_streams& streams, Tree tree,
                      const Rule& tested) {
    return of_streams(where_, values("streams"), name, streams, tree, tested);
  }
  template <class Tree, class Rule>
  measured of_streams(const setting& where, double extra, const std::string& name,
                      engine::speculative_streams& streams, Tree tree, const Rule& tested) {
    return measure(out_, where, name, extra, tested,
                   [&](auto rule, generate::chosen_length length) {
                     return decoder{where.target, drafter::streaming{streams, tree, length},
                                    selector::any<>(frequent_), text_sampler{}, std::move(rule)};
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

  /// Trees that the first layers prune.
  void prune(engine::speculative_streams& streams) {
    const verifier::point_mass rule;
    exit_.set_head_layout(frequent_.layout());
    for (int t = 0; t < temperatures; ++t) {
      const auto temperature = static_cast<float>(t);
      const generate::any_length deep;
      const generate::chosen_length length{&deep};
      const auto along = [&](auto make) {
        return mean(length_along_text(where_, rule, temperature, make));
      };
      const double whole = along([&](auto counting) {
        return decoder{target_, drafter::streaming{streams, wide_tree{}, length},
                       selector::any<>(frequent_), text_sampler{}, counting};
      });
      const double pruned = along([&](auto counting) {
        return decoder{
            target_,
            drafter::pruned{drafter::streaming{streams, wide_tree{}, length}, exit_, kept_nodes},
            selector::any<>(frequent_), text_sampler{}, counting};
      });
      const double small = along([&](auto counting) {
        return decoder{target_,
                       drafter::streaming{streams, tree::dynamic<4, 4, kept_nodes>{}, length},
                       selector::any<>(frequent_), text_sampler{}, counting};
      });
      const std::string row = "streaming" + at_temperature(t);
      out_.add(row + "25 nodes, acceptance length along text", whole, "tokens");
      out_.add(row + "13 of them, by the streams' own laws", small, "tokens");
      out_.add(row + "13 of them, by the first layers", pruned, "tokens");
      out_.add(row + "13 of 25 nodes by the first layers, share of the length", pruned / whole, "x",
               at_least(0.9));
    }
  }

  /// How many streams, and how many children each has. What `for_trees` has is not measured again.
  void sweep(engine::speculative_streams& streams) {
    of_streams("streaming, three tokens", streams, tree::chain<3>{}, verifier::rejection{});
    of_streams("streaming, four tokens", streams, tree::chain<4>{}, verifier::rejection{});
    of_streams("streaming, five at one depth", streams, tree::dynamic<5, 1, 6>{},
               verifier::point_mass{});
    of_streams("streaming, four in two levels", streams, tree::dynamic<3, 2, 5>{},
               verifier::point_mass{});
  }

  /// use(folder) of those that a variable of the environment names, separated by colons.
  template <class Use>
  static void for_folders(const char* variable, const Use& use) {
    const char* const all = std::getenv(variable);
    const std::string folders = all == nullptr ? "" : all;
    for (std::size_t begin = 0; begin < folders.size();) {
      const std::size_t end = std::min(folders.find(':', begin), folders.size());
      use(std::filesystem::path(folders.substr(begin, end - begin)));
      begin = end + 1;
    }
  }
  /// Streams of other sizes, of the same target.
  void sizes() {
    for_folders("HUNCH_BENCH_STREAMS", [&](const std::filesystem::path& folder) {
      engine::speculative_streams streams = engine::speculative_streams::load(folder, target_);
      streams.set_head_layout(frequent_.layout());
      const std::string name = "streaming, " + folder.filename().string();
      of_streams(where_, bytes_in(folder), name + ", one token", streams, tree::chain<1>{},
                 verifier::rejection{});
      of_streams(where_, bytes_in(folder), name + ", three at one depth", streams,
                 tree::dynamic<3, 1, 4>{}, verifier::point_mass{});
      of_streams(where_, bytes_in(folder), name + ", four in three levels", streams, small_tree{},
                 verifier::point_mass{});
    });
  }

  /// Targets that were trained together with their streams: other models, held against plain
  /// decoding of themselves.
  void shared() {
    for_folders("HUNCH_BENCH_SHARED", [&](const std::filesystem::path& folder) {
      engine::model target = engine::model::load(folder / "target", options());
      engine::check_tokenizer(text_, models_ / "target", folder / "target", target.shape());
      engine::speculative_streams streams =
          engine::speculative_streams::load(folder / "streams", target);
      streams.set_head_layout(frequent_.layout());
      const setting where = setting_of(target, text_, models_ / "heldout");
      const std::string name = "streaming, " + folder.filename().string();
      const double extra = bytes_in(folder / "streams");
      of_streams(where, extra, name + ", one token", streams, tree::chain<1>{},
                 verifier::rejection{});
      of_streams(where, extra, name + ", three at one depth", streams, tree::dynamic<3, 1, 4>{},
                 verifier::point_mass{});
      of_streams(where, extra, name + ", four in three levels", streams, small_tree{},
                 verifier::point_mass{});
    });
  }

  report& out_;
  std::filesystem::path models_;
  engine::model target_;
  engine::tokenizer text_;
  selector::frequency<> frequent_;
  engine::medusa_heads medusa_;
  engine::early_exit exit_;
  setting where_;
};

}  // namespace
}  // namespace bench::drafters

int main(int argc, char** argv) {
  return bench::run("streaming", argc, argv, [](bench::report& out) {
    bench::drafters::suite(out, HUNCH_BENCH_MODELS).run();
  });
}
