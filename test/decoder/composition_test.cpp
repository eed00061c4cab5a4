// SPDX-License-Identifier: Apache-2.0

// Every drafter, tree, length policy and selector in a step that the host drives and in one that is
// repeated by its executor, whether the host reads what a step makes or not: the same texts, bit
// for bit. What was run is the table of docs/policies/compositions.md.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <initializer_list>
#include <iterator>
#include <map>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include <hunch/decoder/resident_decoder.hpp>
#include "../exact/grid.hpp"
#include "../support/erased_decoders.hpp"
#include "../support/hidden_host.hpp"
#include "../support/padded_grid_models.hpp"
#include "../support/policies.hpp"
#include "../support/table.hpp"

namespace hunch::test {
namespace {

using namespace table;

constexpr std::int32_t vocab = 40;
constexpr std::int32_t chunk = 4;
constexpr std::int32_t max_batch = 17;

exact_case worlds() { return {{vocab, 91, flavour::smooth}, {vocab, 92, flavour::smooth}, {}}; }

/// A selector of any type, for the steps of either host.
struct any_selector {
  template <class S>
  explicit any_selector(const S& of) : seen(of), hidden(of) {}

  selector::any<double> seen;
  selector::any<double, hidden_host> hidden;
};

/// A drafter, a sampler and a rule, of any types: all that is compiled for each of them is its
/// decoders.
class composition {
 public:
  std::int32_t max_nodes;

  virtual outcome driven(grid_and_eagle& models, const any_selector& selector,
                         const std::vector<request>& requests) const = 0;
  virtual outcome driven(padded_grid_models& models, const any_selector& selector,
                         const std::vector<request>& requests, std::int32_t batch) const = 0;
  virtual outcome repeated(grid_and_eagle& models, const any_selector& selector,
                           const std::vector<request>& requests, std::int32_t batch) const = 0;
  virtual outcome repeated(padded_grid_models& models, const any_selector& selector,
                           const std::vector<request>& requests, std::int32_t batch) const = 0;

 protected:
  explicit composition(std::int32_t nodes) : max_nodes(nodes) {}
  ~composition() = default;
};

outcome repeated_outcome(repeated_decoder& d, const std::vector<request>& requests,
                         std::int32_t batch) {
  return outcome_of(d, requests, batch, batch == 3 ? 1 : 1000);
}

/// Texts prove nothing about drafts of which none, or every one, is accepted.
void check_drafted(const auto& s, std::int32_t max_nodes) {
  CHECK((s.drafted > 0) == (max_nodes > 1));
  CHECK((s.accepted > 0) == (max_nodes > 1));
  CHECK((s.accepted < s.drafted) == (max_nodes > 1));
}

/// \param Make gives the drafter over `grid_and_eagle` or what has members as that has.
template <class Make, class S, class V>
class composed final : public composition {
 public:
  composed(const Make& make, S sampler, V verifier)
      : composition(
            std::remove_cvref_t<decltype(make(std::declval<grid_and_eagle&>()))>::max_nodes),
        make_(make),
        sampler_(sampler),
        verifier_(verifier) {}

  outcome driven(grid_and_eagle& models, const any_selector& selector,
                 const std::vector<request>& requests) const override {
    return driven(executor::host{}, models, selector.seen, requests,
                  {.max_batch = max_batch, .chunk = 256, .token_text = {}});
  }
  outcome driven(padded_grid_models& models, const any_selector& selector,
                 const std::vector<request>& requests, std::int32_t batch) const override {
    return driven(hidden_host{}, models, selector.hidden, requests,
                  {.max_batch = batch, .chunk = chunk, .max_length = 64, .token_text = {}});
  }
  outcome repeated(grid_and_eagle& models, const any_selector& selector,
                   const std::vector<request>& requests, std::int32_t batch) const override {
    return repeated(executor::host{}, models, selector.seen, requests, batch);
  }
  outcome repeated(padded_grid_models& models, const any_selector& selector,
                   const std::vector<request>& requests, std::int32_t batch) const override {
    return repeated(hidden_host{}, models, selector.hidden, requests, batch);
  }

 private:
  template <class E>
  outcome driven(E executor, auto& models, selector::any<double, E> selector,
                 const std::vector<request>& requests, const decoder_options& options) const {
    decoder d{models.target, make_(models), std::move(selector), S(sampler_),
              V(verifier_),  options,       random_source<>{},   executor};
    stepped_by by(d);
    outcome out = outcome_of(by, requests, options.max_batch);
    check_drafted(d.stats(), decltype(d)::max_nodes);
    return out;
  }
  template <class E>
  outcome repeated(E executor, auto& models, selector::any<double, E> selector,
                   const std::vector<request>& requests, std::int32_t batch) const {
    resident_decoder d{
        models.target,       make_(models),
        std::move(selector), S(sampler_),
        V(verifier_),        resident_options{.max_batch = batch, .max_length = 64, .chunk = chunk},
        random_source<>{},   executor};
    repeated_by by(d);
    outcome out = repeated_outcome(by, requests, batch);
    check_drafted(d.stats(), decltype(d)::max_nodes);
    return out;
  }

  Make make_;
  S sampler_;
  V verifier_;
};

/// What was run: a drafter, its tree, and the selectors.
std::map<std::pair<std::string, std::string>, std::vector<std::string>>& seen() {
  static std::map<std::pair<std::string, std::string>, std::vector<std::string>> all;
  return all;
}

void both_ways(const composition& of, const any_selector& selector, asked what,
               std::initializer_list<std::int32_t> batches) {
  const std::vector<request> requests = requests_of(what);
  const vocab_layout& layout = selector.seen.layout();
  grid_and_eagle reference(worlds(), layout);
  const outcome expected = of.driven(reference, selector, requests);
  for (const std::int32_t batch : batches) {
    CAPTURE(batch);
    grid_and_eagle models(worlds(), layout);
    CHECK(of.repeated(models, selector, requests, batch) == expected);
    models.target.cache().check();
    models.draft.cache().check();
    models.eagle.cache().check();
    grid_and_eagle hidden(worlds(), layout);
    padded_grid_models padded(hidden, batch, batch * of.max_nodes + chunk);
    CHECK(of.repeated(padded, selector, requests, batch) == expected);
    hidden.target.cache().check();
    hidden.draft.cache().check();
    hidden.eagle.cache().check();
    grid_and_eagle stepped(worlds(), layout);
    padded_grid_models driven(stepped, batch, batch * (of.max_nodes + chunk));
    CHECK(of.driven(driven, selector, requests, batch) == expected);
    stepped.target.cache().check();
    stepped.draft.cache().check();
    stepped.eagle.cache().check();
  }
}

void both_ways(const composition& of, asked what = asked::little) {
  both_ways(of, any_selector(selector::full{vocab}), what, {1, 3, max_batch});
}

/// With every selector.
void with_shortlists(std::vector<std::string>& names, const composition& of, asked what) {
  static const toy_router weights(toy_context_size, 5, 7);
  both_ways(of, what);
  names.push_back("full");
  for_each_shortlist(
      vocab, [](std::int32_t) { return weights.view(); },
      [&](const char* name, const auto& selector) {
        CAPTURE(name);
        both_ways(of, any_selector(selector), what, {3});
        if (names.back() != name) { names.push_back(name); }
      });
}

/// A line of the table.
constexpr auto run_line = [](const char* drafter, const char* tree, const auto& make, auto sampler,
                             auto verifier, asked what) {
  CAPTURE(drafter);
  CAPTURE(tree);
  with_shortlists(seen()[{drafter, tree}], composed(make, sampler, verifier), what);
};

TEST_CASE("the comparison can fail") {
  const auto texts_of = [](std::uint64_t more) {
    std::vector<request> requests = requests_of(asked::little);
    for (request& r : requests) { r.options.seed += more; }
    grid_and_eagle models(worlds(), selector::full{vocab}.layout());
    return composed(by_model(chain{}, length::fixed{}), plain_sampler{}, verifier::rejection{})
        .driven(models, any_selector(selector::full{vocab}), requests);
  };
  CHECK(texts_of(0) == texts_of(0));
  CHECK(texts_of(0) != texts_of(1));
}

TEST_CASE("trees of models") { trees_of_models(run_line); }
TEST_CASE("trees of heads and of streams") { trees_ahead(run_line); }
TEST_CASE("pruned trees") { pruned_trees(run_line); }
TEST_CASE("merged trees") { merged_trees(run_line); }

TEST_CASE("trees of drafters in turn") { trees_in_turn(run_line); }
TEST_CASE("trees of a drafter that is chosen when the program runs") { chosen_trees(run_line); }
TEST_CASE("drafters without a head") {
  without_trees([](const char* drafter, const auto& make, auto sampler, auto verifier, asked what) {
    both_ways(composed(make, sampler, verifier), what);
    seen()[{drafter, "–"}] = {"–"};
  });
}

TEST_CASE("length policies") {
  static constexpr double curve[] = {1.0, 1.1, 1.3, 1.6};
  const length::cost learning{
      .draft = 0.3, .rows = curve, .trust = 1.0, .decay = 0.5, .share = 10.0};
  const auto with = [](const auto& policy) {
    both_ways(composed(by_model(chain{}, policy), plain_sampler{}, verifier::block{}));
    both_ways(composed(by_heads(sampled_tree{}, policy), plain_sampler{}, verifier::rejection{}));
    both_ways(composed(by_streams(deep_tree{}, policy), plain_sampler{}, verifier::point_mass{}));
    both_ways(composed(
                  [&](auto&) {
                    return drafter::lookup<3, 4, std::remove_cvref_t<decltype(policy)>>{1, policy};
                  },
                  every_stage{}, verifier::point_mass{}),
              asked::repetition);
  };
  with(length::fixed{2});
  with(length::entropy{0.4, 0.3});
  with(length::confidence{0.1});
  with(length::ewma{2, 0.5});
  with(learning);
  with(length::one_of<length::fixed, length::cost>{learning});
}

/// Whether a policy is part of what was run.
bool was_run(const std::string& folder, const std::string& policy) {
  for (const auto& [of, selectors] : seen()) {
    if (folder == "drafter" && of.first.find(policy) != std::string::npos) { return true; }
    if (folder == "tree" && of.second == policy) { return true; }
    if (folder == "selector" && std::ranges::find(selectors, policy) != selectors.end()) {
      return true;
    }
  }
  return false;
}

// The last ones look at what the others have run.
TEST_CASE("every drafter, tree and selector was run") {
  if (seen().empty()) { return; }  // it alone was asked for
  const names others{
      "drafter::length_slots",  // what drafters keep for a policy
      "selector::any",          // holds each of the others here
      "selector::oracle",       // a router
  };
  for (const std::string folder : {"drafter", "tree", "selector"}) {
    const names policies = policies_in(folder);
    CHECK(policies.size() >= 4);
    for (const std::string& policy : policies) {
      CAPTURE(policy);
      CHECK(was_run(folder, policy.substr(policy.find("::") + 2)) != others.contains(policy));
    }
    CHECK_FALSE(was_run(folder, "magic"));  // negative control
  }
}

TEST_CASE("the table of compositions is what was run") {
  std::string table = "| drafter | tree | selectors | driven by |\n|---|---|---|---|\n";
  for (const auto& [of, selectors] : seen()) {
    table += "| " + of.first + " | " + of.second + " | ";
    for (std::size_t i = 0; i < selectors.size(); ++i) {
      table += (i == 0 ? "" : ", ") + selectors[i];
    }
    table += " | host, executor |\n";
  }
  std::ifstream in(std::filesystem::path(HUNCH_HEADERS) / "../../docs/policies/compositions.md");
  const std::string page{std::istreambuf_iterator<char>(in), {}};
  if (seen().empty()) { return; }  // it alone was asked for
  INFO("docs/policies/compositions.md should hold:\n" << table);
  CHECK(page.find(table) != std::string::npos);
  CHECK(page.find(table + "|") == std::string::npos);
}

}  // namespace
}  // namespace hunch::test
