// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <engine/model.hpp>
#include <hunch/core/types.hpp>
#include <hunch/model/rows.hpp>
#include <hunch/selector/selecting.hpp>
#include <hunch/selector/selector.hpp>
#include <hunch/vocab/vocab_layout.hpp>

namespace bench::vocab {

/// What a target and a drafter make of a given text: at every root, the drafter's law over the
/// whole vocabulary at each depth of a draft that happens to be the text, and the target's law
/// there. What selectors leave of it is then arithmetic, the same places for all of them.
class forced_text {
 public:
  /// Reads `text` with both models, whose slot 0 is empty before and afterwards. Roots are the
  /// positions [first, first + roots).
  /// \tparam Draft engine::model, engine::eagle_model, or engine::early_contexts of one.
  template <class Draft>
  forced_text(engine::model& target, Draft& draft, std::span<const hunch::token> text, int first,
              int roots, int depths)
      : first_(first),
        roots_(roots),
        depths_(depths),
        vocab_(target.vocab_size()),
        context_width_(draft.context_width()),
        text_(text.begin(), text.end()),
        target_laws_(size(roots + depths) * size(vocab_)),
        draft_laws_(size(roots * depths) * size(vocab_)),
        contexts_(size(roots * depths) * size(context_width_)) {
    for (int at = 0; at < first + roots + depths; ++at) {
      const int root = at - first;
      if (root >= 0 && root < roots) { read_drafts(draft, root); }
      if (root < 0) { draft.forward(one_row(0, at)); }
      const hunch::kept_rows kept{
          .size = 1, .slot = &zero, .id = &zero, .release_count = 0, .released = nullptr};
      if (root < roots) { draft.commit(kept); }
      const auto evaluated = target.evaluate(one_row(0, at));
      if (root >= 0) { law_of(evaluated.logits(0), target_law(root)); }
      target.commit(kept);
    }
    const hunch::kept_rows released{
        .size = 0, .slot = nullptr, .id = nullptr, .release_count = 1, .released = &zero};
    target.commit(released);
    draft.commit(released);
  }

  int roots() const { return roots_; }
  int depths() const { return depths_; }
  int vocab() const { return vocab_; }

  /// The token that is read at a depth of a root.
  hunch::token read(int root, int depth) const { return text_[size(first_ + root + depth)]; }
  /// [context_width] what a router sees there.
  const float* context(int root, int depth) const {
    return contexts_.data() + size(root * depths_ + depth) * size(context_width_);
  }
  /// [vocab] the probabilities of the token after it: the drafter's.
  std::span<const float> draft(int root, int depth) const {
    return {draft_laws_.data() + size(root * depths_ + depth) * size(vocab_), size(vocab_)};
  }
  /// The target's.
  std::span<const float> target(int root, int depth) const {
    return {target_laws_.data() + size(root + depth) * size(vocab_), size(vocab_)};
  }

 private:
  static constexpr std::int32_t zero = 0;
  static std::size_t size(int n) { return static_cast<std::size_t>(n); }

  /// The token at position `at` as staged row `id` of a chain.
  hunch::rows one_row(std::int32_t id, int at) {
    id_ = id;
    parent_ = id - 1;
    position_ = at;
    return {.size = 1,
            .slot = &zero,
            .id = &id_,
            .parent = &parent_,
            .position = &position_,
            .tokens = &text_[size(at)],
            .wanted = &wanted_};
  }
  template <class Draft>
  void read_drafts(Draft& draft, int root) {
    std::vector<float> logits(size(vocab_));
    for (int depth = 0; depth < depths_; ++depth) {
      const int place = root * depths_ + depth;
      float* const context = contexts_.data() + size(place) * size(context_width_);
      const hunch::rows row = one_row(depth, first_ + root + depth);
      constexpr bool is_early = requires { draft.contexts(row); };
      if constexpr (is_early) { std::copy_n(draft.contexts(row).data, context_width_, context); }
      const auto hidden = draft.forward(row);
      const hunch::row_range all{0, vocab_};
      const hunch::shortlist list{.ranges = &all,
                                  .range_count = 1,
                                  .size = vocab_,
                                  .row_token = nullptr,
                                  .token_row = nullptr,
                                  .vocab_size = vocab_};
      hunch::row_view<float> out{logits.data(), vocab_};
      draft.head(hidden, {.size = 1, .row = &zero, .lists = &list, .logits = &out});
      law_of(out, draft_laws_.data() + size(place) * size(vocab_));
      if constexpr (!is_early) { std::copy_n(hidden.context(0), context_width_, context); }
    }
  }
  float* target_law(int root) { return target_laws_.data() + size(root) * size(vocab_); }
  static void law_of(hunch::row_view<const float> logits, float* law) {
    const float top = *std::max_element(logits.data, logits.data + logits.size);
    double sum = 0.0;
    for (std::int32_t i = 0; i < logits.size; ++i) {
      law[i] = std::exp(logits[i] - top);
      sum += static_cast<double>(law[i]);
    }
    const auto norm = static_cast<float>(1.0 / sum);
    for (std::int32_t i = 0; i < logits.size; ++i) { law[i] *= norm; }
  }
  static void law_of(hunch::row_view<float> logits, float* law) {
    law_of(hunch::row_view<const float>{logits.data, logits.size}, law);
  }

  int first_;
  int roots_;
  int depths_;
  int vocab_;
  int context_width_;
  std::vector<hunch::token> text_;
  std::vector<float> target_laws_;  ///< [roots + depths, vocab]
  std::vector<float> draft_laws_;   ///< [roots, depths, vocab]
  std::vector<float> contexts_;     ///< [roots, depths, context width]
  std::int32_t id_ = 0;
  std::int32_t parent_ = 0;
  std::int32_t position_ = 0;
  std::uint8_t wanted_ = 1;
};

/// Means over the roots of texts.
struct kept_share {
  double roots = 0.0;
  double places = 0.0;
  double length[2] = {};  ///< expected accepted drafts and one, at T = 0 and 1, summed over roots
  double kept[2] = {};    ///< of the whole vocabulary's drafted tokens, summed over places
  double rows = 0.0;      ///< of the shortlists, summed over places

  double mean_length(int temperature) const { return length[temperature] / roots; }
  double mean_kept(int temperature) const { return kept[temperature] / places; }
  double mean_rows() const { return rows / places; }

  kept_share& operator+=(const kept_share& other) {
    roots += other.roots;
    places += other.places;
    rows += other.rows;
    for (int t = 0; t < 2; ++t) {
      length[t] += other.length[t];
      kept[t] += other.kept[t];
    }
    return *this;
  }
};

/// What a shortlist leaves at one place of a text.
struct place_share {
  double accepted[2] = {};  ///< probability that the draft is accepted, at T = 0 and 1
  double kept[2] = {};      ///< that the draft from the whole vocabulary is in the shortlist
};

/// \param weight of a token in the draft law over the shortlist: weight(token), in any unit.
template <class Weight>
place_share share_of(std::span<const float> target, std::span<const float> draft,
                     const hunch::shortlist& list, const Weight& weight) {
  double mass = 0.0;
  double total = 0.0;
  std::int32_t best = -1;
  double of_best = 0.0;
  const auto each = [&](const auto& use) { list.for_each_in(0, list.size, use); };
  each([&](std::int32_t, hunch::token t) {
    mass += static_cast<double>(draft[static_cast<std::size_t>(t)]);
    const double w = weight(t);
    total += w;
    if (best < 0 || w > of_best) {
      best = t;
      of_best = w;
    }
  });
  double accepted = 0.0;
  each([&](std::int32_t, hunch::token t) {
    const double q = total > 0.0 ? weight(t) / total : 0.0;
    accepted += std::min(static_cast<double>(target[static_cast<std::size_t>(t)]), q);
  });
  const auto favourite = [](std::span<const float> law) {
    return static_cast<std::int32_t>(std::max_element(law.begin(), law.end()) - law.begin());
  };
  place_share out;
  out.accepted[0] = best == favourite(target) ? 1.0 : 0.0;
  out.accepted[1] = accepted;
  out.kept[0] = best == favourite(draft) ? 1.0 : 0.0;
  out.kept[1] = mass;
  return out;
}

/// What a selector leaves of the drafts of a text. `state(root, depth)` is what its router reads;
/// `weights(root, depth, list)` is the draft law's weight of a token in the shortlist there.
template <hunch::VocabSelector S, class State, class Weights>
kept_share measure(const forced_text& text, S& selector, const State& state,
                   const Weights& weights) {
  std::vector<hunch::row_range> ranges(static_cast<std::size_t>(selector.max_ranges()));
  hunch::row_range* const to = ranges.data();
  hunch::executor::host host;
  hunch::selecting chosen{selector, host, 1};
  kept_share out;
  for (int root = 0; root < text.roots(); ++root) {
    double reached[2] = {1.0, 1.0};
    double length[2] = {1.0, 1.0};
    for (int depth = 0; depth < text.depths(); ++depth) {
      const hunch::token read = text.read(root, depth);
      const float* const seen = state(root, depth);
      std::int32_t count = 0;
      chosen.select({1, depth, &read, &seen}, {&to, &count});
      const hunch::shortlist list = selector.layout().list(ranges.data(), count);
      const place_share share = share_of(text.target(root, depth), text.draft(root, depth), list,
                                         weights(root, depth, list));
      for (int t = 0; t < 2; ++t) {
        reached[t] *= share.accepted[t];
        length[t] += reached[t];
        out.kept[t] += share.kept[t];
      }
      out.rows += list.size;
      out.places += 1.0;
    }
    for (int t = 0; t < 2; ++t) { out.length[t] += length[t]; }
    out.roots += 1.0;
  }
  return out;
}

/// The same where the draft law is the drafter's.
template <hunch::VocabSelector S, class State>
kept_share measure(const forced_text& text, S& selector, const State& state) {
  return measure(text, selector, state, [&](int root, int depth, const hunch::shortlist&) {
    return [draft = text.draft(root, depth)](hunch::token t) {
      return static_cast<double>(draft[static_cast<std::size_t>(t)]);
    };
  });
}

}  // namespace bench::vocab
