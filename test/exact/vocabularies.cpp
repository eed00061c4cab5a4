// SPDX-License-Identifier: Apache-2.0

// A draft model of another vocabulary: what two vocabularies share, and that drafts of it are
// exact, whatever they have in common and whatever stands for what they have not.

#include <cstdint>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <hunch/model/other_vocabulary.hpp>
#include <hunch/selector/frequency.hpp>
#include <hunch/tree/dynamic.hpp>
#include <hunch/tree/sampled.hpp>
#include <hunch/verifier/block.hpp>
#include <hunch/verifier/point_mass.hpp>
#include <hunch/vocab/shared_vocabulary.hpp>
#include "exact.hpp"

namespace hunch::test {
namespace {

using pieces = std::vector<std::string>;
using token_pairs = std::vector<std::pair<token, token>>;

shared_vocabulary share(const pieces& target, const pieces& draft, token stand_in = 0,
                        const token_pairs& named = {}) {
  const auto piece_of = [](const pieces& of) {
    return [&of](token t) -> std::string_view { return of[static_cast<std::size_t>(t)]; };
  };
  return share_vocabularies(
      static_cast<std::int32_t>(target.size()), piece_of(target),
      static_cast<std::int32_t>(draft.size()), piece_of(draft), [=](token) { return stand_in; },
      named);
}

std::vector<token> rows_of(const vocab_layout& layout) {
  return {layout.row_token(), layout.row_token() + layout.head_rows()};
}

/// A toy model whose head is over rows of its own layout, whatever the tokens of the target's are.
class foreign_draft : public toy_draft<> {
 public:
  foreign_draft(toy_world world, const vocab_layout& layout)
      : toy_draft<>(world, layout), layout_(&layout) {}

  void head(const hidden_states& states, const head_rows<double>& asked) {
    std::vector<shortlist> own(asked.lists, asked.lists + asked.size);
    for (shortlist& list : own) {
      const shortlist mine = layout_->list(list.ranges, list.range_count);
      REQUIRE(mine.size == list.size);
      list = mine;
    }
    toy_draft<>::head(states, {asked.size, asked.row, own.data(), asked.logits});
  }

 private:
  const vocab_layout* layout_;
};

const pieces of_target{"a", "b", "c", "d"};
/// What a target of four tokens may meet: all of them, some, one, in other places.
const std::vector<pieces> of_drafts{
    {"c", "a", "d", "b", "e"}, {"x", "b", "y", "d"}, {"y", "x", "a"}, {"b", "d"}};

template <class Tree, class V>
enumeration exact_foreign(const exact_case& c, const shared_vocabulary& shared, V verifier,
                          std::int32_t rows) {
  forking_source source;
  toy_target<> target{c.target};
  foreign_draft draft{c.draft, shared.draft};
  other_vocabulary seen(draft, shared);
  decoder_options options = c.options;
  options.max_batch = batch_of(c);
  decoder d{target,
            drafter::autoregressive{seen, Tree{}},
            selector::frequency<>{shared.target, rows},
            plain_sampler{},
            std::move(verifier),
            options,
            source};
  const enumeration found = check_law(d, source, c);
  target.cache().check();
  draft.cache().check();
  return found;
}

std::int64_t by_every_rule(const exact_case& c, const shared_vocabulary& shared) {
  std::int64_t tapes = 0;
  for (const std::int32_t rows : {shared.size(), 1}) {
    tapes += exact_foreign<tree::chain<2>>(c, shared, verifier::rejection{}, rows).tapes;
    tapes += exact_foreign<tree::chain<2>>(c, shared, verifier::block{}, rows).tapes;
    tapes += exact_foreign<tree::chain<2>>(c, shared, verifier::point_mass{}, rows).tapes;
    tapes += exact_foreign<tree::sampled<2>>(c, shared, verifier::rejection{}, rows).tapes;
    tapes += exact_foreign<tree::dynamic<2, 2, 3>>(c, shared, verifier::point_mass{}, rows).tapes;
  }
  return tapes;
}

exact_case case_of_sizes(flavour p, flavour q, std::int32_t draft_size, float temperature) {
  exact_case c = case_of(p, q, 4, 3, temperature);
  c.draft = {draft_size, 12, q};
  return c;
}

}  // namespace

TEST_CASE("drafts of another vocabulary are exact") {
  std::int64_t tapes = 0;
  for (const pieces& of_draft : of_drafts) {
    const auto size = static_cast<std::int32_t>(of_draft.size());
    for (const token stand_in : {token{0}, size - 1}) {
      const shared_vocabulary shared = share(of_target, of_draft, stand_in);
      CAPTURE(shared.size());
      for (const flavour p : {flavour::smooth, flavour::masked}) {
        for (const float temperature : {1.0f, 0.0f}) {
          tapes += by_every_rule(case_of_sizes(p, flavour::smooth, size, temperature), shared);
        }
      }
    }
  }
  MESSAGE(tapes << " tapes");
}

TEST_CASE("a batch whose draft model reads another vocabulary is exact") {
  exact_case c = case_of_sizes(flavour::smooth, flavour::sharp, 4, 1.0f);
  c.requests = {{{1}, ask(2)}, {{2, 0}, ask(2, 0.6f), 1}};
  c.requests[1].options.seed = 2;
  const shared_vocabulary shared = share(of_target, of_drafts[1]);
  exact_foreign<tree::chain<2>>(c, shared, verifier::rejection{}, 2);
}

TEST_CASE("a draft of the same law in other numbers is always accepted") {
  // The draft model is the target under other names: what it drafts is what the target would say.
  // With names that are wrong the text is exact, too, and takes more steps.
  const pieces same{"a", "b", "c", "d"};
  exact_case c = case_of(flavour::smooth, flavour::smooth, 4, 4);
  c.draft = c.target;
  const shared_vocabulary right = share(of_target, same);
  const auto steps = [&](const shared_vocabulary& shared) {
    return exact_foreign<tree::chain<3>>(c, shared, verifier::rejection{}, 4).steps;
  };
  CHECK(steps(right) == doctest::Approx(1.0));
  CHECK(steps(share(of_target, {"b", "a", "d", "c"})) > 1.2);
  shared_vocabulary misread = right;
  for (token& t : misread.reads) { t = 3 - t; }
  CHECK(steps(misread) > 1.2);
}

TEST_CASE("what two vocabularies share") {
  const shared_vocabulary some = share(of_target, {"x", "d", "y", "b"}, 2);
  CHECK(rows_of(some.target) == std::vector<token>{1, 3});
  CHECK(rows_of(some.draft) == std::vector<token>{3, 1});
  CHECK(some.reads == std::vector<token>{2, 3, 2, 1});
  CHECK(some.size() == 2);

  // Several tokens of a text: one of each for one of the other, the lowest first.
  const shared_vocabulary twice = share({"a", "b", "a", "a"}, {"a", "a", "b"});
  CHECK(rows_of(twice.target) == std::vector<token>{0, 1, 2});
  CHECK(rows_of(twice.draft) == std::vector<token>{0, 2, 1});

  // Tokens without a text are shared by name alone, and names come before texts.
  const shared_vocabulary named = share({"", "a", "", "b"}, {"b", "", "a"}, 0, {{2, 1}, {1, 0}});
  CHECK(rows_of(named.target) == std::vector<token>{1, 2});
  CHECK(rows_of(named.draft) == std::vector<token>{0, 1});

  CHECK_THROWS_AS(share({"a"}, {"b"}), std::invalid_argument);
  CHECK_THROWS_AS(share({""}, {""}), std::invalid_argument);
  CHECK_THROWS_AS(share({"a", "b"}, {"a"}, 1), std::invalid_argument);
  CHECK_NOTHROW(share({"a"}, {"a"}, 1));  // nothing needs a stand-in
  for (const token_pairs& wrong : {token_pairs{{4, 0}}, token_pairs{{0, 2}}, token_pairs{{-1, 0}},
                                   token_pairs{{0, 0}, {0, 1}}, token_pairs{{0, 0}, {1, 0}}}) {
    CHECK_THROWS_AS(share(of_target, {"a", "b"}, 0, wrong), std::invalid_argument);
  }
}

TEST_CASE("what is shared in the order of a ranking") {
  const shared_vocabulary all = share(of_target, {"x", "d", "c", "b"});
  const shared_vocabulary ordered = all.ordered(vocab_layout::permuted({3, 0, 1, 2}, 4));
  CHECK(rows_of(ordered.target) == std::vector<token>{3, 1, 2});
  CHECK(rows_of(ordered.draft) == std::vector<token>{1, 3, 2});
  CHECK(ordered.reads == all.reads);
  const shared_vocabulary few = all.ordered(vocab_layout::permuted({2, 0}, 4));
  CHECK(rows_of(few.target) == std::vector<token>{2});
  CHECK(rows_of(all.ordered(vocab_layout::identity(4)).draft) == rows_of(all.draft));
  CHECK_THROWS_AS(all.ordered(vocab_layout::permuted({0}, 4)), std::invalid_argument);
  CHECK_THROWS_AS(all.ordered(vocab_layout::identity(5)), std::invalid_argument);
}

TEST_CASE("a draft model that does not fit what is shared is refused") {
  const shared_vocabulary shared = share(of_target, of_drafts[1]);
  foreign_draft other{{5, 1, flavour::smooth}, shared.draft};
  CHECK_THROWS_AS(other_vocabulary(other, shared), std::invalid_argument);
  toy_draft<> in_token_order{{4, 1, flavour::smooth}};
  CHECK_THROWS_AS(other_vocabulary(in_token_order, shared), std::invalid_argument);
  toy_draft<> own{{4, 1, flavour::smooth}};
  other_vocabulary same(own);
  CHECK(same.vocab_size() == 4);
  CHECK(same.head_order() == own.head_order());
}

}  // namespace hunch::test
