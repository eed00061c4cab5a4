// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include <hunch/model/other_vocabulary.hpp>

#include "generate/program.hpp"

namespace generate {

/// A smaller model, of any vocabulary, in four bits if that is asked for.
void program::with_model() {
  engine::model_options o = options();
  if (args_.drafter == drafter_kind::int4) { o.kind = engine::arithmetic::int4; }
  engine::model draft = engine::model::load(args_.draft, o);
  const auto with = [&](auto& model, const any_selector& selector) {
    over_trees(selector, [&](auto tree) {
      return hunch::drafter::autoregressive{model, tree, chosen_length{&length_}};
    });
  };
  if (const auto shared = session_.shared_with(draft.shape(), target_.shape())) {
    draft.set_head_layout(shared->draft);
    std::int32_t rows = shared->size();
    if (args_.selector != selector_kind::full) {
      rows = std::min(rows, args_.shortlist_rows > 0 ? args_.shortlist_rows
                                                     : default_rows(target_.vocab_size()));
    }
    hunch::other_vocabulary seen(draft, *shared);
    return with(seen, any_selector(hunch::selector::frequency<>{shared->target, rows}));
  }
  const any_selector selector = chosen_selector(draft.made_for(), draft.context_width());
  draft.set_head_layout(selector.layout());
  hunch::other_vocabulary seen(draft);
  with(seen, selector);
}

}  // namespace generate
